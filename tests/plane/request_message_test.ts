import { assert, assertEquals, assertThrows } from "@std/assert";
import { encode, type ValueMap, type ValueType } from "@std/msgpack";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import {
  decodeRequestMessage,
  DEFAULT_REQUEST_LIMITS,
  encodeRequestMessage,
  type RequestMessage,
} from "../../src/plane/request_message.ts";

const INSTANCE = "01234567-89ab-4cde-8f01-23456789abcd";

function message(): RequestMessage {
  return {
    id: "req-1",
    path: "/v1/chat/completions",
    model: "mock",
    stream: true,
    ticket: {
      handle: { hi: 0xffff_ffff_ffff_ffffn, lo: 1n },
      routingSessionId: 7n,
      initialCredit: 32,
      slotByteBudget: 1_048_576,
      heartbeatIntervalMs: 5_000,
      lanes: 4,
      freeBeats: true,
      peer: { instanceId: INSTANCE, workerAddress: new Uint8Array([0x80]) },
    },
    headers: { "x-request-id": "7" },
    body: new TextEncoder().encode('{"a":"é"}'),
  };
}

/** The message as a map that a test can spoil. */
function map(): ValueMap & { ticket: ValueMap & { peer: ValueMap } } {
  return {
    v: 1,
    id: "req-1",
    path: "/v1/completions",
    model: "m",
    stream: false,
    ticket: {
      handle_hi: 1n,
      handle_lo: 1n,
      routing_session_id: 1n,
      initial_credit: 32,
      slot_byte_budget: 0,
      heartbeat_interval_ms: 5_000,
      lanes: 1,
      free_beats: false,
      peer: { instance_id: INSTANCE, worker_address: new Uint8Array([0x80]) },
    },
    headers: {},
    body: new Uint8Array(3),
  };
}

/** Header objects have no prototype, so that no name can be taken for one of its members. */
function plain(decoded: RequestMessage): RequestMessage {
  return { ...decoded, headers: { ...decoded.headers } };
}

Deno.test("decodeRequestMessage gives back what encodeRequestMessage took, in memory of its own", () => {
  const bytes = encodeRequestMessage(message());
  const decoded = decodeRequestMessage(bytes);
  bytes.fill(0);
  assertEquals(plain(decoded), message());
  const chosen = { ...message(), virtualWorker: 3 };
  assertEquals(plain(decodeRequestMessage(encodeRequestMessage(chosen))), chosen);
});

Deno.test("decodeRequestMessage takes smaller integers and ignores unknown keys", () => {
  const fields = { ...map(), later: [1, 2, 3] };
  Object.assign(fields.ticket, { handle_hi: 5, handle_lo: 6, initial_credit: 32n, later: null });
  const decoded = decodeRequestMessage(encode(fields));
  assertEquals(decoded.ticket.handle, { hi: 5n, lo: 6n });
  assertEquals(decoded.ticket.initialCredit, 32);
});

Deno.test("decodeRequestMessage refuses a message with a wrong field and names the field", async (t) => {
  const cases: [string, (fields: ReturnType<typeof map>) => unknown][] = [
    ["v", (fields) => fields.v = 2],
    ["v", (fields) => delete fields.v],
    ["id", (fields) => fields.id = ""],
    ["id", (fields) => fields.id = "a b"],
    ["id", (fields) => fields.id = "x".repeat(257)],
    ["id", (fields) => fields.id = 5],
    ["path", (fields) => fields.path = "/v1/other"],
    ["path", (fields) => fields.path = "//evil/v1/completions"],
    ["model", (fields) => fields.model = null],
    ["stream", (fields) => fields.stream = 1],
    ["virtual_worker", (fields) => fields.virtual_worker = -1],
    ["virtual_worker", (fields) => fields.virtual_worker = 65_536],
    ["headers", (fields) => fields.headers = []],
    ["headers", (fields) => fields.headers = { Host: "a" }],
    ["headers", (fields) => fields.headers = { "a b": "a" }],
    ["headers", (fields) => fields.headers = { a: "b\r\nc: d" }],
    ["headers", (fields) => fields.headers = { a: 1 }],
    ["headers", (fields) => fields.headers = { a: "x".repeat(8_193) }],
    ["headers", (fields) => fields.headers = Object.fromEntries(names(65))],
    ["body", (fields) => fields.body = "text"],
    ["ticket", (fields) => Object.assign(fields, { ticket: 5 })],
    ["handle_hi", (fields) => fields.ticket.handle_hi = -1],
    ["handle_hi", (fields) => fields.ticket.handle_hi = "1"],
    ["routing_session_id", (fields) => delete fields.ticket.routing_session_id],
    ["initial_credit", (fields) => fields.ticket.initial_credit = 0x1_0000_0000n],
    ["heartbeat_interval_ms", (fields) => fields.ticket.heartbeat_interval_ms = 0],
    ["lanes", (fields) => fields.ticket.lanes = 0],
    ["free_beats", (fields) => fields.ticket.free_beats = null],
    ["peer", (fields) => Object.assign(fields.ticket, { peer: [] })],
    ["instance_id", (fields) => fields.ticket.peer.instance_id = INSTANCE.toUpperCase()],
    ["worker_address", (fields) => fields.ticket.peer.worker_address = new Uint8Array()],
    ["worker_address", (fields) => fields.ticket.peer.worker_address = [1, 2]],
  ];
  for (const [name, spoil] of cases) {
    await t.step(`${name}: ${spoil.toString().slice(13)}`, () => {
      const fields = map();
      spoil(fields);
      const error = assertThrows(() => decodeRequestMessage(encode(fields)), TokenplaneError);
      assertEquals(error.code, "protocol");
      assert(error.message.includes(`"${name}"`), error.message);
    });
  }
});

Deno.test("decodeRequestMessage refuses bytes that a decoder should not see", async (t) => {
  const good = encode(map());
  const cases: [string, Uint8Array][] = [
    ["nothing", new Uint8Array()],
    ["something behind it", new Uint8Array([...good, 0xc0])],
    ["nesting", new Uint8Array(100_000).fill(0x91)],
    ["a claimed list of 4 billion", new Uint8Array([0xdd, 0xff, 0xff, 0xff, 0xff])],
    ["a claimed text of 4 billion", new Uint8Array([0xdb, 0xff, 0xff, 0xff, 0xff])],
    ["an extension", new Uint8Array([0xd4, 0x01, 0x00])],
    ["a reserved type", new Uint8Array([0xc1])],
    ["a list with very many values", encode({ ...map(), later: new Array(10_000).fill(0) as ValueType })],
    ["no map", encode([1])],
  ];
  for (const [name, bytes] of cases) {
    await t.step(name, () => {
      const { code } = assertThrows(() => decodeRequestMessage(bytes), TokenplaneError);
      assert(code === "protocol" || code === "too_large", code);
    });
  }
});

Deno.test("decodeRequestMessage refuses every cut of a message, and what is over a limit", () => {
  const good = encode(map());
  for (let length = 0; length < good.length; length++) {
    assertThrows(() => decodeRequestMessage(good.subarray(0, length)), TokenplaneError);
  }
  const limits = { ...DEFAULT_REQUEST_LIMITS, maxBodyBytes: 2 };
  const error = assertThrows(() => decodeRequestMessage(good, limits), TokenplaneError);
  assertEquals(error.code, "too_large");
});

Deno.test("decodeRequestMessage throws nothing but its own errors on any bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(250), fc.nat(255), (noise, at, byte) => {
      const spoiled = encode(map());
      if (at < spoiled.length) spoiled[at] = byte;
      for (const bytes of [noise, spoiled]) {
        try {
          decodeRequestMessage(bytes);
        } catch (error) {
          assert(error instanceof TokenplaneError, String(error));
        }
      }
    }),
    { examples: [[new Uint8Array(0), 140, 136]] },
  ); // a map for a key: the decoder's own error came through
});

function names(count: number): [string, string][] {
  return Array.from({ length: count }, (_, i) => [`h${i}`, ""]);
}
