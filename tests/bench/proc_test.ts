import { assert, assertEquals } from "@std/assert";
import {
  parseBusySeconds,
  parseMemory,
  parseStat,
  treeCpuSeconds,
  treeMemory,
  treeOf,
} from "../../bench/support/proc.ts";

function statLine(name: string, parent: number, ticks: readonly number[]): string {
  const [user, system, endedUser, endedSystem] = ticks;
  return `42 (${name}) S ${parent} 42 42 0 -1 4194304 1 2 3 4 ${user} ${system} ${endedUser} ${endedSystem} 20 0 1\n`;
}

Deno.test("parseStat reads times whatever the process is called", () => {
  for (const name of ["nginx", "a b", "x) S 1 (y", "))"]) {
    assertEquals(parseStat(statLine(name, 7, [150, 50, 25, 5])), {
      parent: 7,
      cpuSeconds: 2,
      endedChildrenCpuSeconds: 0.3,
    }, name);
  }
});

Deno.test("parseStat answers null for a text that is no stat line", () => {
  for (
    const text of [
      "",
      "42",
      "42 (x)",
      "42 (x) S 1 2 3",
      "no brackets 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
    ]
  ) {
    assertEquals(parseStat(text), null, text);
  }
});

Deno.test("parseMemory reads current and highest RSS, zero for a zombie", () => {
  assertEquals(parseMemory("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"), {
    rss: 1 << 20,
    peak: 2 << 20,
  });
  assertEquals(parseMemory("Name:\tx\nState:\tZ (zombie)\n"), { rss: 0, peak: 0 });
});

Deno.test("parseBusySeconds leaves idle, iowait and interrupts out", () => {
  assertEquals(parseBusySeconds("cpu  100 10 200 9999 500 40 30 90 0 0\ncpu0 1 1 1 1\n"), 4);
});

Deno.test("treeOf finds descendants of any depth and nobody else", () => {
  const stat = (parent: number) => ({ parent, cpuSeconds: 0, endedChildrenCpuSeconds: 0 });
  const stats = new Map([[5, stat(4)], [4, stat(2)], [2, stat(1)], [3, stat(1)], [6, stat(3)]]);
  assertEquals([...treeOf([2], stats)].toSorted(), [2, 4, 5]);
});

Deno.test("treeCpuSeconds and treeMemory see this very process", () => {
  assert(treeCpuSeconds([Deno.pid]) > 0);
  const { rss, peak } = treeMemory([Deno.pid]);
  assert(rss > 1e6 && peak >= rss);
});
