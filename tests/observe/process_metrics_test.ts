import { assert, assertEquals } from "@std/assert";
import { Collectors } from "../../src/observe/metrics.ts";
import { Page } from "../support/metrics_page.ts";

Deno.test("Collectors show the process without looking at each of its sockets", async () => {
  const collectors = new Collectors({ process: true });
  const page = new Page((await collectors.page()).body);
  const shapes = page.shapes();
  assertEquals(shapes.filter((shape) => /eventloop|active_/.test(shape)), []);
  assert(page.value("tokenplane_process_resident_memory_bytes") > 1_000_000);
  if (shapes.some((shape) => shape.includes("open_fds (empty)"))) return; // the kernel does not tell
  const before = page.value("tokenplane_process_open_fds");
  const files = await Promise.all(Array.from({ length: 20 }, () => Deno.open(new URL(import.meta.url))));
  const after = new Page((await collectors.page()).body).value("tokenplane_process_open_fds");
  for (const file of files) file.close();
  assert(after >= before + 20 && after < before + 40, `${before}, then ${after}`);
});
