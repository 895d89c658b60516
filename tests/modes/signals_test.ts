import { assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { firstStopSignal, SAME_WISH_MS, type StopSignal } from "../../src/modes/signals.ts";
import { chat, eventsOf, Program } from "../support/program.ts";

const LIMIT_MS = 20_000;

const TABLE: Array<[name: string, signals: Array<[atMs: number, signal: StopSignal]>, exits: number[]]> = [
  ["one", [[0, "SIGINT"]], []],
  ["a repeat of Ctrl-C by a wrapper", [[0, "SIGINT"], [50, "SIGINT"], [SAME_WISH_MS - 1, "SIGINT"]], []],
  ["a second wish", [[0, "SIGINT"], [SAME_WISH_MS, "SIGINT"]], [130]],
  // The repeats do not push the end of the time away.
  ["a third behind a repeat", [[0, "SIGINT"], [400, "SIGINT"], [600, "SIGINT"]], [130]],
  ["a second SIGTERM", [[0, "SIGTERM"], [600, "SIGTERM"]], [143]],
  ["another signal is another wish", [[0, "SIGINT"], [10, "SIGTERM"]], [143]],
];

for (const [name, signals, expected] of TABLE) {
  Deno.test(`firstStopSignal tells the first signal and exits at the second wish: ${name}`, async () => {
    const handlers = new Map<StopSignal, () => void>();
    const exits: number[] = [];
    let now = 1_000;
    const first = firstStopSignal({
      listen: (signal, handler) => handlers.set(signal, handler),
      exit: (code) => exits.push(code),
      now: () => now,
    });
    for (const [atMs, signal] of signals) {
      now = 1_000 + atMs;
      handlers.get(signal)!();
    }
    assertEquals(await first, signals[0]![1]);
    assertEquals(exits, expected);
  });
}

for (const hasThird of [false, true]) {
  const then = hasThird ? "a third after 600 ms exits at once with 130" : "what runs finishes, code 0";
  Deno.test(`start takes SIGINT twice within 50 ms for one wish; ${then}`, async () => {
    await using program = new Program(
      ["start", "--listen", "127.0.0.1:0", "--mock-ttft-ms", "1", "--mock-itl-ms", "10"],
    );
    const [, url] = await deadline(program.ready(/serves on (http:\S+) /), LIMIT_MS);
    const response = await chat(url!, { max_tokens: hasThird ? 100_000 : 100 });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value!;
    program.kill("SIGINT");
    await delay(50);
    program.kill("SIGINT");
    if (hasThird) {
      await delay(600);
      program.kill("SIGINT");
      assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 130);
      await reader.cancel().catch(() => {});
      return;
    }
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    assertEquals(eventsOf(text).at(-1), "[DONE]");
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0);
  });
}
