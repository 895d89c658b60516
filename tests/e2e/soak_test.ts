/**
 * A few seconds of everything at once, with real processes: streams and whole answers, large prompts, clients that leave,
 * workers that are killed, told to stop, and started. Each request ends in one of the ways that it may.
 */
import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { chat, eventsOf, Program } from "../support/program.ts";

const LIMIT_MS = 20_000;
const READY = /serves on (http:\/\/127\.0\.0\.1:\d+), workers join at (127\.0\.0\.1:\d+)/;

/** What became of one request. */
type Fate = "complete" | "left" | "cut";

/** Sends request number `index` and checks that what comes is whole, or says that it is not. Throws for anything else. */
async function ask(url: string, index: number): Promise<Fate> {
  const isStream = index % 7 !== 0;
  const tokens = 1 + (index * 37) % 150;
  const content = "x".repeat(index % 50 === 0 ? 400_000 : 10);
  const abort = new AbortController();
  const leaves = index % 5 === 0;
  const timer = leaves ? setTimeout(() => abort.abort(), (index * 13) % 300) : null;
  const fields = { stream: isStream, max_tokens: tokens, messages: [{ role: "user", content }] };
  try {
    const response = await chat(url, fields, { signal: abort.signal });
    const text = await response.text();
    assertEquals(response.status, 200, text);
    if (!isStream) {
      assertEquals(JSON.parse(text).usage.completion_tokens, tokens);
      return "complete";
    }
    const events = eventsOf(text);
    assertEquals(events.at(-1), "[DONE]");
    const errors = events.filter((event) => event.includes('"error"'));
    if (errors.length === 0) {
      assertEquals(events.length, tokens + 3);
      return "complete";
    }
    assertEquals([errors.length, events.at(-2), JSON.parse(errors[0]!).error.code], [
      1,
      errors[0],
      "dropped",
    ]);
    assert(events.length < tokens + 3 + 2);
    return "cut";
  } catch (caught) {
    if (abort.signal.aborted) return "left";
    throw caught;
  } finally {
    if (timer !== null) clearTimeout(timer);
  }
}

/** Waits until the frontend's gauges of what lives are all zero. */
async function nothingLives(url: string): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const live = metrics.split("\n").filter((line) =>
      /^[a-z_]+(live|inflight|in_flight|queued)\b/.test(line)
    );
    assert(live.length > 0, metrics);
    if (live.every((line) => line.endsWith(" 0"))) return;
    await delay(10);
  }
}

for (const setup of ["ticket", "attach"] as const) {
  Deno.test(`every request ends as it may while workers come and go (${setup})`, async () => {
    await using frontend = new Program([
      ...["frontend", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--shards", "1"],
      ...["--stream-setup", setup],
    ]);
    const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
    const programs: Program[] = [];
    const newWorker = async (): Promise<Program> => {
      const name = `w${programs.length}`;
      const worker = new Program([
        ...["worker", "--frontend", node!, "--model", "mock", "--model", name],
        ...["--mock-ttft-ms", "5", "--mock-itl-ms", "5"],
      ]);
      programs.push(worker);
      while (!(await (await fetch(`${url}/v1/models`)).text()).includes(`"${name}"`)) await delay(10);
      return worker;
    };
    try {
      await deadline(newWorker(), LIMIT_MS);
      let next = 0;
      let isOver = false;
      const fates: Record<Fate, number> = { complete: 0, left: 0, cut: 0 };
      const client = async () => {
        while (!isOver) fates[await ask(url!, next++)]++;
      };
      const clients = Promise.all(Array.from({ length: 50 }, client));
      for (const signal of ["SIGKILL", "SIGTERM"] as const) {
        const old = programs.at(-1)!;
        await deadline(newWorker(), LIMIT_MS);
        await delay(500);
        old.kill(signal);
        const { code } = await deadline(old.finished(), LIMIT_MS);
        if (signal === "SIGTERM") assertEquals(code, 0);
      }
      isOver = true;
      await deadline(clients, LIMIT_MS);
      assert(fates.complete > 50 && fates.left > 0, JSON.stringify(fates));
      // Only the killed worker's streams may have been cut: at most what ran at that moment.
      assert(fates.cut <= 50, JSON.stringify(fates));
      await deadline(nothingLives(url!), LIMIT_MS);
      for (const program of [programs.at(-1)!, frontend]) {
        program.kill("SIGTERM");
        const { code, stderr } = await deadline(program.finished(), LIMIT_MS);
        assertEquals(code, 0, stderr);
      }
    } finally {
      for (const program of programs) await program[Symbol.asyncDispose]();
    }
  });
}
