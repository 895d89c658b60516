import { assertEquals } from "@std/assert";
import { median, range } from "../../bench/support/statistics.ts";
import { formatNumber, formatTable } from "../../bench/support/table.ts";

Deno.test("median takes the middle value, or the mean of the two middle ones, in any order", () => {
  assertEquals(median([]), NaN);
  assertEquals(median([3]), 3);
  assertEquals(median([9, 1, 5]), 5);
  assertEquals(median([4, 1, 3, 100]), 3.5);
});

Deno.test("range names the smallest and the largest value", () => {
  assertEquals(range([2, -1, 7]), { min: -1, max: 7 });
});

Deno.test("formatTable aligns text to the left and numbers to the right", () => {
  assertEquals(
    formatTable(["arm", "x"], [["floor", "1.0"], ["a", "12.5"]]),
    ["| arm   |    x |", "|-------|-----:|", "| floor |  1.0 |", "| a     | 12.5 |"].join("\n"),
  );
});

Deno.test("formatNumber writes a dash for what was not measured", () => {
  assertEquals([NaN, null, undefined, Infinity].map((value) => formatNumber(value, 1)), ["-", "-", "-", "-"]);
  assertEquals(formatNumber(1.25, 1), "1.3");
});
