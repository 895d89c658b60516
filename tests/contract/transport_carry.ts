/** The transport contract: frames get there, whole and in order. */
import { assert, assertEquals } from "@std/assert";
import { MAX_FRAME_BYTES, MessageType } from "../../transports/contract.ts";
import type { TokenplaneError } from "../../src/errors.ts";
import { HEADER, numbered, numberIn, type Scenario, sendError } from "./transport_harness.ts";

const { message, response, ack, event } = MessageType;

/** See the head of this file. */
export const CARRY_SCENARIOS: Scenario[] = [
  ["carries one frame and joins the payload's parts", async (t) => {
    const [a, b] = await t.pair();
    const parts = [new Uint8Array([9]), new Uint8Array(0), new Uint8Array([8, 7])];
    assertEquals(a.transport.send(b.id, 0, message, HEADER, parts), true);
    await t.arrived(b, 1);
    const [frame] = b.sink.frames;
    assertEquals([frame!.type, frame!.header, frame!.payload], [message, HEADER, new Uint8Array([9, 8, 7])]);
    assertEquals(b.sink.reads, 1);
    assertEquals(a.transport.stats.framesOut[message], 1);
    assertEquals(b.transport.stats.framesIn[message], 1);
    assertEquals([a.transport.stats.bytesOut[message], b.transport.stats.bytesIn[message]], [6, 6]);
  }],

  ["lets the caller reuse its buffers once a send returned true", async (t) => {
    const [a, b] = await t.pair();
    const [header, payload] = [new Uint8Array([1]), new Uint8Array(100_000).fill(1)];
    for (const value of [1, 2, 3]) {
      header.fill(value);
      payload.fill(value);
      assertEquals(a.transport.send(b.id, 0, message, header, [payload]), true);
    }
    header.fill(99);
    payload.fill(99);
    await t.arrived(b, 3);
    for (const [i, frame] of b.sink.frames.entries()) {
      assertEquals([frame.header[0], frame.payload[0], frame.payload[99_999]], [i + 1, i + 1, i + 1]);
    }
  }],

  ["carries frames both ways on connections of their own", async (t) => {
    const [a, b] = await t.pair();
    b.transport.register(a.id, a.transport.addressEntry());
    a.transport.send(b.id, 0, message, HEADER, [numbered(1)]);
    b.transport.send(a.id, 0, response, HEADER, [numbered(2)]);
    await t.arrived(a, 1);
    await t.arrived(b, 1);
    assertEquals([a.sink.frames[0]!.type, b.sink.frames[0]!.type], [response, message]);
  }],

  ["keeps the order of many frames on one connection", async (t) => {
    const [a, b] = await t.pair();
    for (let i = 0; i < 200; i++) a.transport.send(b.id, 0, message, HEADER, [numbered(i)]);
    await t.arrived(b, 200);
    assertEquals(
      b.sink.frames.map((frame) => numberIn(frame.payload)),
      Array.from({ length: 200 }, (_, i) => i),
    );
    assertEquals(new Set(b.sink.frames.map((frame) => frame.from.id)).size, 1);
  }],

  ["carries every message type, mixed", async (t) => {
    const [a, b] = await t.pair();
    const types = [event, message, ack, response, message, ack, event, response];
    for (const type of types) a.transport.send(b.id, 0, type, HEADER, [new Uint8Array([type])]);
    await t.arrived(b, types.length);
    assertEquals(b.sink.frames.map((frame) => frame.type), types);
    assertEquals(b.transport.stats.framesIn, [2, 2, 2, 2, 0]);
  }],

  ["carries empty headers and payloads", async (t) => {
    const [a, b] = await t.pair();
    const empty = new Uint8Array(0);
    a.transport.send(b.id, 0, message, empty, []);
    a.transport.send(b.id, 0, message, HEADER, [empty]);
    a.transport.send(b.id, 0, message, empty, [HEADER]);
    await t.arrived(b, 3);
    assertEquals(b.sink.frames.map((f) => [f.header.length, f.payload.length]), [[0, 0], [3, 0], [0, 3]]);
  }],

  ["carries the largest frame and refuses a larger one", async (t) => {
    const [a, b] = await t.pair();
    const payload = new Uint8Array(MAX_FRAME_BYTES - HEADER.length);
    payload[payload.length - 1] = 7;
    assertEquals(a.transport.maxFrameBytes(b.id), MAX_FRAME_BYTES);
    assertEquals(a.transport.send(b.id, 0, message, HEADER, [payload]), true);
    const over = await t.harness.run(sendError(a, b.id, 0, [payload, new Uint8Array(1)]));
    assertEquals(over?.code, "too_large");
    await t.arrived(b, 1);
    assertEquals([b.sink.frames[0]!.payload.length, b.sink.frames[0]!.payload.at(-1)], [payload.length, 7]);
  }],

  ["connects three nodes to each other", async (t) => {
    const nodes = [await t.node(), await t.node(), await t.node()];
    for (const from of nodes) {
      for (const to of nodes.filter((other) => other !== from)) {
        from.transport.register(to.id, to.transport.addressEntry());
        from.transport.send(to.id, 0, message, HEADER, [numbered(nodes.indexOf(from))]);
      }
    }
    for (const node of nodes) await t.arrived(node, 2);
    for (const [i, node] of nodes.entries()) {
      const senders = node.sink.frames.map((frame) => numberIn(frame.payload)).sort();
      assertEquals(senders, [0, 1, 2].filter((other) => other !== i));
    }
  }],

  ["tells once that a peer is unknown", async (t) => {
    const a = await t.node();
    const errors: (TokenplaneError | null)[] = [];
    assertEquals(a.transport.send("nobody", 0, message, HEADER, [], (error) => errors.push(error)), false);
    assertEquals(errors.length, 0, "not before send has returned");
    await t.harness.linger();
    assertEquals(errors.map((error) => error?.code), ["peer_unknown"]);
    assertEquals(a.transport.send("nobody", 0, message, HEADER, []), false);
  }],

  ["keeps the order of a burst that is larger than the queue", async (t) => {
    const [a, b] = await t.pair({ queueFrames: 16 });
    const order: number[] = [];
    const failures: unknown[] = [];
    let waited = 0;
    for (let i = 0; i < 1_100; i++) {
      const isAdmitted = a.transport.send(b.id, 0, message, HEADER, [numbered(i)], (error) => {
        if (error !== null) failures.push(error);
        order.push(i);
      });
      if (!isAdmitted) waited++;
    }
    assert(waited >= 1_000, `${waited} sends waited`);
    await t.arrived(b, 1_100);
    const all = Array.from({ length: 1_100 }, (_, i) => i);
    assertEquals(b.sink.frames.map((frame) => numberIn(frame.payload)), all);
    assertEquals([order, failures], [all.slice(1_100 - waited), []]);
    assertEquals(a.transport.stats.backpressure, waited);
  }],

  ["does not let a newcomer overtake what waits", async (t) => {
    const [a, b] = await t.pair({ queueFrames: 4 });
    let next = 0;
    const sendNext = (): void => {
      if (next < 300) a.transport.send(b.id, 0, message, HEADER, [numbered(next++)], sendNext);
    };
    for (let i = 0; i < 20; i++) sendNext();
    await t.harness.until(() => {
      sendNext();
      return b.sink.frames.length === 300;
    }, "300 frames");
    assertEquals(
      b.sink.frames.map((frame) => numberIn(frame.payload)),
      Array.from({ length: 300 }, (_, i) => i),
    );
  }],
];
