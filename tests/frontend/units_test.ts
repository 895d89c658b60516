import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import { KeyGuard } from "../../src/frontend/auth.ts";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import {
  ChunkSlab,
  copyBytes,
  frameChunk,
  ownChunk,
  PREFIX_BYTES,
  SLAB_BYTES,
} from "../../src/frontend/egress/chunk_slab.ts";
import { portableEgress } from "../../src/frontend/egress/portable_sink.ts";
import { EventTail } from "../../src/frontend/event_tail.ts";
import { isDeeperThan } from "../../src/frontend/json_depth.ts";
import { checkFrontendOptions, DEFAULT_FRONTEND_OPTIONS } from "../../src/frontend/options.ts";
import { requestIdOf } from "../../src/frontend/request_id.ts";
import { FrontendStats } from "../../src/frontend/stats.ts";
import { Histogram } from "../../src/observe/histogram.ts";
import { addFrontendMetrics } from "../../src/frontend/metrics.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (data: Uint8Array) => new TextDecoder().decode(data);

const TAILS: readonly (readonly [string, boolean, boolean])[] = [
  ["", true, false],
  ["data: 1\n\n", true, false],
  ["data: 1\r\n\r\n", true, false],
  ["data: 1\r\r", true, false],
  ["data: 1\n\r\n", true, false],
  ["data: 1\n", false, false],
  ["data: 1\r\n", false, false],
  ["data: 1\r", false, false],
  ["data: 1", false, false],
  ["\n", true, false],
  [": ping\n\n", true, false],
  ["data: 1\n\ndata: [DONE]\n\n", true, true],
  ["data: 1\r\n\r\ndata:[DONE]\r\n\r\n", true, true],
  ["data: 1\n\ndata: [DONE]", false, true],
  ["data: 1\n\ndata: [DONE]\n", false, true],
  ["data: [DONE]\n\n", true, true],
  ['data: {"text":"data: [DONE]"}\n\n', true, false],
  ["data: the word data: [DONE]\n\n", true, false],
  ["data: [DONE]x\n\n", true, false],
];

Deno.test("EventTail knows boundaries and [DONE], fed whole, at every split point and byte by byte", () => {
  for (const [sent, isAtBoundary, isDone] of TAILS) {
    const all = bytes(sent);
    for (let split = 0; split <= all.length; split++) {
      const tail = new EventTail();
      tail.push(all, 0, split);
      tail.push(all, split, all.length);
      assertEquals(
        [tail.isAtBoundary, tail.isDone],
        [isAtBoundary, isDone],
        `${JSON.stringify(sent)} at ${split}`,
      );
    }
    const tail = new EventTail();
    for (let at = 0; at < all.length; at++) tail.push(all, at, at + 1);
    assertEquals([tail.isAtBoundary, tail.isDone], [isAtBoundary, isDone], JSON.stringify(sent));
  }
});

Deno.test("EventTail says of any bytes in any pieces what a look at all of them says", () => {
  const alphabet = fc.constantFrom("\n", "\r", "a", "data:", "data: [DONE]", " ");
  fc.assert(fc.property(fc.array(fc.array(alphabet, { maxLength: 6 }), { maxLength: 8 }), (pieces) => {
    const tail = new EventTail();
    let all = "";
    for (const piece of pieces) {
      const data = bytes(piece.join(""));
      tail.push(data, 0, data.length);
      all += piece.join("");
    }
    const rest = all.replace(/(\r\n|\r|\n)$/, "");
    assertEquals(tail.isAtBoundary, all === "" || (rest !== all && (rest === "" || /[\r\n]$/.test(rest))));
  }));
});

Deno.test("frameChunk frames any length so that the standard's grammar finds the data again", () => {
  for (const length of [1, 9, 10, 15, 16, 17, 255, 256, 4_095, 4_096, 65_535, 65_536, 1_048_575, 1_048_576]) {
    const buffer = ownChunk(length);
    buffer.fill(0x61);
    const start = frameChunk(buffer, PREFIX_BYTES, PREFIX_BYTES + length);
    const framed = text(buffer.subarray(start, PREFIX_BYTES + length + 2));
    const line = framed.indexOf("\r\n");
    assertEquals(framed.slice(0, line), length.toString(16));
    assertEquals(framed.slice(line + 2), "a".repeat(length) + "\r\n");
  }
});

Deno.test("ChunkSlab never hands the same bytes out twice, and grows only the last chunk", () => {
  const lengths = fc.array(fc.tuple(fc.integer({ min: 1, max: SLAB_BYTES / 4 }), fc.boolean()), {
    maxLength: 60,
  });
  fc.assert(fc.property(lengths, (steps) => {
    const slab = new ChunkSlab();
    const open: { buffer: Uint8Array; start: number; end: number; fill: number }[] = [];
    let last: (typeof open)[number] | null = null;
    steps.forEach(([length, wantsGrowth], index) => {
      const fill = index % 251;
      if (wantsGrowth && last !== null && slab.canGrow(last.buffer as typeof slab.buffer, last.end, length)) {
        last.buffer.fill(last.fill, last.end, last.end + length);
        last.end += length;
        slab.cursor = last.end;
        return;
      }
      const start = slab.open(length);
      last = { buffer: slab.buffer, start, end: start + length, fill };
      last.buffer.fill(fill, start, last.end);
      slab.cursor = last.end;
      open.push(last);
    });
    for (const chunk of open) frameChunk(chunk.buffer, chunk.start, chunk.end);
    for (const { buffer, start, end, fill } of open) {
      assert(buffer.subarray(start, end).every((byte) => byte === fill), "a chunk was written over");
      assertEquals(text(buffer.subarray(end, end + 2)), "\r\n");
    }
  }));
});

Deno.test("copyBytes copies what it is told to, short or long", () => {
  for (const length of [0, 1, 48, 49, 1_000]) {
    const source = Uint8Array.from({ length: length + 4 }, (_, index) => index % 255 + 1);
    const target = new Uint8Array(length + 10);
    copyBytes(target, 5, source, 2, 2 + length);
    assertEquals([...target.subarray(5, 5 + length)], [...source.subarray(2, 2 + length)]);
    assertEquals([target[4], target[5 + length]], [0, 0]);
  }
});

Deno.test("isDeeperThan counts nesting outside strings only", () => {
  const cases: readonly (readonly [string, number, boolean])[] = [
    ["1", 0, false],
    ["[]", 0, true],
    ["[[]]", 2, false],
    ["[[[]]]", 2, true],
    ['{"a":[{"b":1}]}', 3, false],
    ['{"a":[{"b":1}]}', 2, true],
    ['"[[[["', 0, false],
    ['["\\"[[[["]', 1, false],
    ['["\\\\",[]]', 1, true],
    ["[],[],[]", 1, false],
    ['"', 0, false],
    ['"\\', 0, false],
    ["[".repeat(1_000_000), 64, true],
  ];
  for (const [json, limit, expected] of cases) {
    assertEquals(isDeeperThan(bytes(json), limit), expected, json.slice(0, 20));
  }
});

Deno.test("isDeeperThan agrees with the depth of what JSON.parse builds", () => {
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
  fc.assert(fc.property(fc.json({ maxDepth: 6 }), fc.nat(8), (json, limit) => {
    assertEquals(isDeeperThan(bytes(json), limit), depthOf(JSON.parse(json)) > limit);
  }));
});

Deno.test("KeyGuard admits each key as a bearer token and nothing else", () => {
  const guard = new KeyGuard(["alpha", "beta"]);
  for (const good of ["Bearer alpha", "bearer beta", "Bearer  alpha"]) assert(guard.admits(good), good);
  for (const bad of [undefined, "", "alpha", "Bearer", "Bearer gamma", "Bearer alpha beta", "Basic alpha"]) {
    assertEquals(guard.admits(bad), false, bad);
  }
  assert(new KeyGuard([]).admits(undefined));
});

Deno.test("requestIdOf keeps what is safe to repeat", () => {
  assertEquals(requestIdOf("a-1"), "a-1");
  for (const bad of [undefined, "", "a b", "\u00e9", "x".repeat(129), ["a", "b"]]) {
    assertEquals(requestIdOf(bad).length, 36);
  }
});

Deno.test("checkFrontendOptions names the setting, its value and what is allowed", () => {
  assertEquals(checkFrontendOptions({}), DEFAULT_FRONTEND_OPTIONS);
  const cases = [
    [{ maxStreams: 0 }, "Cannot use maxStreams 0: it must be 1 or more"],
    [{ stallTimeoutMs: -1 }, "Cannot use stallTimeoutMs -1: it must be a whole number from 0"],
    [{ maxBodyBytes: 16 * 1024 * 1024 }, "Cannot use maxBodyBytes 16777216: it must be at most 15728640"],
    [{ maxBodyBytesInFlight: 10 }, "Cannot use maxBodyBytesInFlight 10: it must be at least maxBodyBytes"],
  ] as const;
  for (const [options, message] of cases) {
    assertThrows(() => checkFrontendOptions(options), TokenplaneError, message);
  }
});

Deno.test("Histogram counts each value in the first bucket that holds it", () => {
  const histogram = new Histogram([1, 2, 4]);
  for (const value of [0.5, 1, 1.5, 4, 9]) histogram.observe(value);
  assertEquals([...histogram.counts], [2, 1, 1, 1]);
  assertEquals([histogram.sum, histogram.count], [16, 5]);
});

Deno.test("Collectors show a frontend's series in Prometheus form", async () => {
  const stats = new FrontendStats();
  const clock = new VirtualClock();
  const table = new WorkerTable({ clock, joinIntervalMs: 1_000, lostGraceMs: 500, maxWorkers: 4 });
  const collectors = new Collectors();
  addFrontendMetrics(collectors, stats, table);
  stats.requests.completions.unary.outcomes.dropped = 3;
  stats.countRefused("overloaded");
  stats.gapSeconds.observe(0.002);
  const { body, contentType } = await collectors.page();
  assert(contentType.startsWith("text/plain"));
  const lines = body.split("\n");
  for (
    const line of [
      'tokenplane_frontend_requests_total{endpoint="completions",request_type="unary",outcome="dropped"} 3',
      'tokenplane_frontend_requests_total{endpoint="completions",request_type="unary",outcome="ok"} 0',
      'tokenplane_frontend_requests_refused_total{error_type="overloaded"} 1',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="0.0019"} 0',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="0.0035"} 1',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="+Inf"} 1',
      "tokenplane_frontend_inter_token_latency_seconds_count 1",
      "# TYPE tokenplane_frontend_inter_token_latency_seconds histogram",
      'tokenplane_frontend_workers{state="ready"} 0',
    ]
  ) assert(lines.includes(line), `${line} is missing in\n${body}`);
  assertThrows(() => addFrontendMetrics(collectors, stats, table), TokenplaneError, "the name is taken");
});

Deno.test("chooseEgress takes the portable sink when told to", async () => {
  assertEquals(await chooseEgress("portable"), portableEgress);
});
