import { assert, assertEquals, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { createLogger } from "../../src/observe/log.ts";
import {
  encodeRequestMessage,
  GENERATE_HANDLER,
  type RequestMessage,
} from "../../src/plane/request_message.ts";
import type { Engine, EngineOutput, EngineRequest, EngineSummary } from "../../src/worker/engines/engine.ts";
import { RequestHandler, type RequestHandlerOptions } from "../../src/worker/handler.ts";
import { PeerPreparation } from "../../src/worker/peer_preparation.ts";
import { instanceIdOf, peerInfoOf, ScriptedMessenger, workerIdOf } from "../support/scripted_messenger.ts";
import { RecordingPlane } from "../support/recording_plane.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

/** Does nothing by itself: a test writes to the outputs. */
class IdleEngine implements Engine {
  readonly name = "idle";
  readonly url = "http://e:1/v1";
  readonly running = 0;
  readonly requests: EngineRequest[] = [];
  readonly outputs: EngineOutput[] = [];

  run(request: EngineRequest, output: EngineOutput): void {
    this.requests.push(request);
    this.outputs.push(output);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function setUp(options: Partial<RequestHandlerOptions> = {}) {
  const messenger = new ScriptedMessenger();
  const plane = new RecordingPlane();
  const engine = new IdleEngine();
  const preparation = new PeerPreparation(messenger);
  const handler = new RequestHandler({ messenger, plane, engine, preparation, maxRunning: 3, ...options });
  const send = (from = 7, overrides: Partial<RequestMessage> = {}) =>
    messenger.deliver(GENERATE_HANDLER, encodeRequestMessage({ ...request(from), ...overrides }), from);
  return { messenger, plane, engine, preparation, handler, send };
}

let local = 0n;

function request(from: number): RequestMessage {
  return {
    id: "req-1",
    path: "/v1/chat/completions",
    model: "m",
    stream: true,
    ticket: {
      handle: { hi: workerIdOf(instanceIdOf(from)), lo: ++local },
      routingSessionId: 1n,
      initialCredit: 32,
      slotByteBudget: 0,
      heartbeatIntervalMs: 5_000,
      lanes: 1,
      freeBeats: true,
      peer: peerInfoOf(from),
    },
    headers: {},
    body: new TextEncoder().encode("{}"),
  };
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

const USAGE = { promptTokens: 7, completionTokens: 1, totalTokens: 8 };

Deno.test("RequestHandler sends head, data, summary and end in order", () => {
  const { engine, handler, plane, send } = setUp();
  send();
  assertEquals(handler.inFlight, 1);
  const [output] = engine.outputs;
  output!.head(200, "text/event-stream");
  assert(output!.data(bytes("a")));
  output!.end({ outcome: "ok", usage: USAGE, finishReasons: ["stop"] });
  assertEquals(plane.senders[0]!.items, [
    { v: 1, status: 200, content_type: "text/event-stream" },
    "a",
    {
      outcome: "ok",
      usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 },
      finish_reasons: ["stop"],
    },
    "finalized",
  ]);
  assertEquals([handler.inFlight, handler.isIdle], [0, true]);
  assertEquals(handler.stats.outcomes.ok, 1);
  assertEquals([handler.stats.promptTokens, handler.stats.completionTokens], [7, 1]);
});

Deno.test("RequestHandler warns of failed requests once a second at most, and counts those left out", () => {
  const clock = new VirtualClock();
  const lines: string[] = [];
  const log = createLogger({ write: (line) => lines.push(line.slice(25)) });
  const { engine, send } = setUp({ clock, log });
  const fail = (id: string, outcome: EngineSummary["outcome"] = "upstream_error") => {
    send(7, { id });
    engine.outputs.at(-1)!.end({ outcome, usage: null, finishReasons: [], detail: "ECONNREFUSED" });
  };
  fail("a");
  for (let i = 0; i < 5; i++) fail(`b${i}`);
  fail("fine", "ok");
  clock.advance(999);
  fail("c", "timeout");
  clock.advance(1);
  fail("d", "truncated");
  clock.advance(1_000);
  fail("e");
  const line = (id: string, outcome: string, rest = "") =>
    `warn  request_failed request_id=${id} outcome=${outcome} detail=ECONNREFUSED engine_url=http://e:1/v1${rest}\n`;
  assertEquals(lines, [
    line("a", "upstream_error"),
    line("d", "truncated", " suppressed=6"),
    line("e", "upstream_error"),
  ]);
});

Deno.test("RequestHandler does not warn of clients that leave", () => {
  const lines: string[] = [];
  const { handler, plane, send } = setUp({ log: createLogger({ write: (line) => lines.push(line) }) });
  send();
  plane.senders[0]!.end("stopped");
  assertEquals([handler.stats.outcomes.cancelled, lines], [1, []]);
});

Deno.test("RequestHandler gives the engine what the frontend sent", () => {
  const { engine, plane, send } = setUp();
  send(7, { stream: false, headers: { a: "b" }, body: bytes("body") });
  const { body, headers, id, model, path, stream } = engine.requests[0]!;
  assertEquals([id, model, path, stream], ["req-1", "m", "/v1/chat/completions", false]);
  assertEquals({ ...headers }, { a: "b" });
  assertEquals(body, bytes("body"));
  assertEquals(plane.senders[0]!.ticket.peer.instanceId, instanceIdOf(7));
});

Deno.test("RequestHandler passes back-pressure on to the engine and back", () => {
  const { engine, plane, send } = setUp();
  send();
  const output = engine.outputs[0]!;
  let calls = 0;
  output.onWritable = () => calls++;
  output.head(200, "a");
  plane.senders[0]!.room = 1;
  assertEquals(output.data(bytes("a")), true);
  assertEquals(output.data(bytes("b")), false);
  plane.senders[0]!.release();
  assertEquals(calls, 1);
});

Deno.test("RequestHandler records one outcome per way a stream can be cut off, and aborts the engine", () => {
  const { engine, handler, plane, send } = setUp({ maxRunning: 10 });
  const ways = [
    ["stopped", "cancelled"],
    ["peer_lost", "dropped"],
    ["rejected", "dropped"],
    ["closed", "dropped"],
    ["overflow", "internal_error"],
  ] as const;
  for (const [why, outcome] of ways) {
    const before = handler.stats.outcomes[outcome];
    send();
    const output = engine.outputs.at(-1)!;
    output.head(200, "a");
    plane.senders.at(-1)!.end(why);
    assert(output.signal.aborted);
    output.end({ outcome: "ok", usage: null, finishReasons: [] }); // too late
    assertEquals(handler.stats.outcomes[outcome], before + 1);
  }
  const total = Object.values(handler.stats.outcomes).reduce((sum, count) => sum + count);
  assertEquals([total, handler.stats.outcomes.ok, handler.inFlight], [ways.length, 0, 0]);
});

Deno.test("RequestHandler is idle only when the last record of an ended stream has gone", () => {
  const { engine, handler, plane, send } = setUp();
  send();
  plane.senders[0]!.room = 0;
  engine.outputs[0]!.head(200, "a");
  engine.outputs[0]!.end({ outcome: "ok", usage: null, finishReasons: [] });
  assertEquals([handler.inFlight, handler.isIdle], [0, false]);
  plane.senders[0]!.release();
  assertEquals(handler.isIdle, true);
});

Deno.test("RequestHandler keeps its outcome when the consumer leaves behind the end", () => {
  const { engine, handler, plane, send } = setUp();
  send();
  plane.senders[0]!.room = 0;
  engine.outputs[0]!.head(200, "a");
  engine.outputs[0]!.end({ outcome: "ok", usage: null, finishReasons: [] });
  plane.senders[0]!.end("stopped");
  assertEquals([handler.stats.outcomes.ok, handler.stats.outcomes.cancelled], [1, 0]);
  assertEquals(handler.isIdle, true);
});

Deno.test("RequestHandler prepares a frontend once, whatever the number of requests", () => {
  const { messenger, send } = setUp();
  for (let i = 0; i < 3; i++) send();
  assertEquals(messenger.registrations, [`+${instanceIdOf(7)}`]);
});

Deno.test("RequestHandler refuses with a code in front of the text", async (t) => {
  function refusal(act: () => unknown): string {
    return assertThrows(act, TokenplaneError).wire ?? "";
  }
  await t.step("draining", () => {
    const { handler, send } = setUp();
    handler.stopAccepting();
    assert(refusal(() => send()).startsWith("unavailable: "));
  });
  await t.step("full, and free again", () => {
    const { engine, handler, send } = setUp({ maxRunning: 1 });
    send();
    assert(refusal(() => send()).startsWith("overloaded: "));
    engine.outputs[0]!.head(200, "a");
    engine.outputs[0]!.end({ outcome: "ok", usage: null, finishReasons: [] });
    send();
    assertEquals([handler.stats.accepted, handler.stats.refused.overloaded], [2, 1]);
  });
  await t.step("nonsense", () => {
    const { messenger, plane } = setUp();
    const act = () => messenger.deliver(GENERATE_HANDLER, new Uint8Array([0xc1]), 7);
    assert(refusal(act).startsWith("invalid_request: "));
    assertEquals(plane.senders.length, 0);
  });
  await t.step("a body over the limit", () => {
    const { send } = setUp({ limits: { maxBodyBytes: 1, maxHeaders: 1, maxHeaderChars: 1 } });
    assert(refusal(() => send()).startsWith("too_large: "));
  });
  await t.step("somebody else's ticket", () => {
    const { engine, messenger } = setUp();
    const act = () => messenger.deliver(GENERATE_HANDLER, encodeRequestMessage(request(8)), 7);
    assert(refusal(act).startsWith("invalid_request: "));
    assertEquals(engine.requests.length, 0);
    assertEquals(messenger.peer(instanceIdOf(8)), undefined);
  });
  await t.step("a stream that cannot be opened", () => {
    const { engine, handler, plane, send } = setUp();
    plane.refuses = "peer_lost";
    assertEquals(refusal(() => send()), "internal: The worker failed");
    assertEquals([engine.requests.length, handler.inFlight], [0, 0]);
  });
});

Deno.test("RequestHandler survives an engine that throws", () => {
  const { engine, handler, plane, send } = setUp();
  engine.run = () => {
    throw new Error("secret");
  };
  send();
  assertEquals(plane.senders[0]!.items.at(-1), "finalized");
  assertEquals(JSON.stringify(plane.senders[0]!.items).includes("secret"), false);
  assertEquals([handler.stats.outcomes.internal_error, handler.inFlight], [1, 0]);
});

Deno.test("RequestHandler ends everything on request", () => {
  const { engine, handler, plane, send } = setUp();
  send();
  send();
  engine.outputs[0]!.head(200, "a");
  handler.endAll("The worker is shutting down");
  assert(engine.outputs.every((output) => output.signal.aborted));
  assert(plane.senders.every((sender) => sender.ended === "finished"));
  assertEquals([handler.stats.outcomes.truncated, handler.inFlight], [2, 0]);
});

Deno.test("PeerPreparation makes room for a new frontend only by one that nobody keeps", () => {
  const messenger = new ScriptedMessenger();
  const preparation = new PeerPreparation(messenger);
  const prepare = (number: number) =>
    preparation.prepare(peerInfoOf(number), {
      workerId: workerIdOf(instanceIdOf(number)),
      peer: null,
      connection: number,
    });
  preparation.keep(peerInfoOf(10_000), "a");
  for (let i = 1; i < 1_024; i++) prepare(i);
  prepare(2_000);
  assertEquals(preparation.size, 1_024);
  assertEquals(messenger.peer(instanceIdOf(1)), undefined);
  assert(messenger.peer(instanceIdOf(10_000)) !== undefined);
  for (const number of [...Array.from({ length: 1_022 }, (_, i) => i + 2), 2_000]) {
    preparation.keep(peerInfoOf(number), "a");
  }
  assertEquals(assertThrows(() => prepare(3_000), TokenplaneError).code, "overloaded");
});
