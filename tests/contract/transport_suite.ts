/** The transport contract, as tests. Every transport passes all of them. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { MAX_FRAME_BYTES, MessageType } from "../../transports/contract.ts";
import { type Node, type NodeOptions, numbered, numberIn, RecordingSink } from "./transport_harness.ts";
import type { TransportHarness } from "./transport_harness.ts";

type Body = (t: Context) => Promise<void>;

const HEADER = new Uint8Array([1, 2, 3]);
const { message, response, ack, event } = MessageType;

/** One test's nodes. */
class Context {
  readonly harness: TransportHarness;
  readonly #nodes: Node[] = [];

  constructor(harness: TransportHarness) {
    this.harness = harness;
  }

  async node(options: NodeOptions = {}): Promise<Node> {
    const transport = this.harness.transport(options);
    const sink = new RecordingSink();
    await transport.start(sink);
    const node = { id: crypto.randomUUID(), transport, sink };
    this.#nodes.push(node);
    return node;
  }

  /** Two nodes, the first of which knows the second. */
  async pair(options: NodeOptions = {}): Promise<[Node, Node]> {
    const [a, b] = [await this.node(options), await this.node(options)];
    a.transport.register(b.id, b.transport.addressEntry());
    return [a, b];
  }

  arrived(node: Node, count: number): Promise<void> {
    return this.harness.until(() => node.sink.frames.length >= count, `${count} frames`);
  }

  async close(): Promise<void> {
    await this.harness.run(Promise.all(this.#nodes.map((node) => node.transport.shutdown(200))));
  }
}

/** Registers the suite for one transport. */
export function testTransport(name: string, newHarness: () => TransportHarness): void {
  for (const [title, body] of SCENARIOS) {
    Deno.test(`${name} transport ${title}`, async () => {
      const context = new Context(newHarness());
      try {
        await body(context);
      } finally {
        await context.close();
      }
    });
  }
}

const SCENARIOS: [string, Body][] = [
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

  [
    "fails what waits for a peer that is not there, and lets nothing of it ride the next connection",
    async (t) => {
      const [a, b] = await t.pair({ queueFrames: 256 });
      const peer = crypto.randomUUID();
      a.transport.register(peer, t.harness.deadEntry());
      const log: string[] = [];
      a.sink.onEachLost = (_peer, lane) => log.push(`lost ${lane}`);
      let waiting = 0;
      for (let i = 0; i < 400; i++) {
        const isAdmitted = a.transport.send(peer, 0, message, HEADER, [numbered(i)], (error) => {
          log.push(error?.code ?? "admitted");
        });
        if (!isAdmitted) waiting++;
      }
      assert(waiting >= 144, `${waiting} frames wait`);
      await t.harness.until(() => a.sink.lost.length > 0, "the lane to be lost");
      assertEquals(log, [...new Array<string>(waiting).fill("connection"), "lost 0"]);
      a.transport.register(peer, b.transport.addressEntry());
      assertEquals(a.transport.send(peer, 0, message, HEADER, [numbered(1_000)]), true);
      await t.arrived(b, 1);
      await t.harness.linger();
      assertEquals(b.sink.frames.map((frame) => numberIn(frame.payload)), [1_000]);
      assertEquals(a.sink.lost.length, 1);
    },
  ],

  ["holds what is sent from a failed admission until the loss has been told", async (t) => {
    const [a, b] = await t.pair({ queueFrames: 2 });
    const peer = crypto.randomUUID();
    a.transport.register(peer, t.harness.deadEntry());
    let wasLost = false;
    let again: boolean | null = null;
    a.sink.onEachLost = () => {
      if (!wasLost) a.transport.register(peer, b.transport.addressEntry());
      wasLost = true;
    };
    for (let i = 0; i < 3; i++) {
      a.transport.send(peer, 0, message, HEADER, [numbered(i)], () => {
        again ??= a.transport.send(peer, 0, message, HEADER, [numbered(77)]);
      });
    }
    await t.arrived(b, 1);
    assertEquals([wasLost, again], [true, false]);
    assertEquals(b.sink.frames.map((frame) => numberIn(frame.payload)), [77]);
  }],

  ["dials a lost lane again and leaves the others alone", async (t) => {
    const [a, b] = await t.pair({ lanes: 2 });
    for (const lane of [0, 1]) a.transport.send(b.id, lane, message, HEADER, [numbered(lane)]);
    await t.arrived(b, 2);
    const cut = b.sink.frames.find((frame) => numberIn(frame.payload) === 1)!.from;
    cut.close("test");
    await t.harness.until(() => a.sink.lost.length === 1 && b.sink.closed.length === 1, "the loss");
    assertEquals([a.sink.lost[0]!.peer, a.sink.lost[0]!.lane, b.sink.closed[0]], [b.id, 1, cut]);
    for (const lane of [0, 1]) a.transport.send(b.id, lane, message, HEADER, [numbered(10 + lane)]);
    await t.arrived(b, 4);
    const [kept, anew] = [10, 11].map((n) =>
      b.sink.frames.find((frame) => numberIn(frame.payload) === n)!.from
    );
    assertEquals(kept, b.sink.frames.find((frame) => numberIn(frame.payload) === 0)!.from);
    assert(anew !== cut);
    assertEquals(a.sink.lost.length, 1);
  }],

  ["keeps lanes independent of one another", async (t) => {
    const [a, b] = await t.pair({ lanes: 2 });
    for (const lane of [0, 1]) a.transport.send(b.id, lane, message, HEADER, [numbered(lane)]);
    await t.arrived(b, 2);
    const first = b.sink.frames.find((frame) => numberIn(frame.payload) === 0)!.from;
    const resume = t.harness.pause(b.transport, first);
    const chunk = new Uint8Array(65_536);
    let isFull = false;
    for (let i = 0; i < 1_000 && !isFull; i++) isFull = !a.transport.send(b.id, 0, message, HEADER, [chunk]);
    assert(isFull);
    for (let i = 0; i < 50; i++) a.transport.send(b.id, 1, message, HEADER, [numbered(100 + i)]);
    await t.harness.until(
      () => b.sink.frames.some((f) => f.payload.length === 4 && numberIn(f.payload) === 149),
      "lane 1",
    );
    resume();
    await t.harness.until(
      () => a.transport.stats.framesOut[0] === b.transport.stats.framesIn[0],
      "lane 0 to catch up",
    );
  }],

  ["reads on while its own sends cannot leave", async (t) => {
    const [a, b] = await t.pair();
    b.transport.register(a.id, a.transport.addressEntry());
    a.transport.send(b.id, 0, message, HEADER, [numbered(0)]);
    await t.arrived(b, 1);
    const resume = t.harness.pause(b.transport, b.sink.frames[0]!.from);
    const chunk = new Uint8Array(65_536);
    let isFull = false;
    for (let i = 0; i < 1_000 && !isFull; i++) isFull = !a.transport.send(b.id, 0, message, HEADER, [chunk]);
    for (let i = 0; i < 500; i++) b.transport.send(a.id, 0, message, HEADER, [numbered(i)]);
    await t.arrived(a, 500);
    resume();
    await t.harness.until(() => a.transport.stats.framesOut[0] === b.transport.stats.framesIn[0], "the rest");
  }],

  ["fails what waits when a peer is unregistered", async (t) => {
    const [a, b] = await t.pair({ queueFrames: 2 });
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 5; i++) {
      a.transport.send(b.id, 0, message, HEADER, [numbered(i)], (e) => codes.push(e?.code));
    }
    a.transport.unregister(b.id);
    assertEquals(codes, ["connection", "connection", "connection"]);
    assertEquals(a.sink.lost.map((loss) => loss.lane), [0]);
    assertEquals(a.transport.stats.peers, 0);
    a.transport.unregister(b.id);
    assertEquals((await t.harness.run(sendError(a, b.id, 0, [])))?.code, "peer_unknown");
  }],

  ["moves to a new address when a peer is registered again", async (t) => {
    const [a, b] = await t.pair();
    const c = await t.node();
    a.transport.send(b.id, 0, message, HEADER, [numbered(1)]);
    await t.arrived(b, 1);
    a.transport.register(b.id, b.transport.addressEntry());
    assertEquals(a.sink.lost.length, 0, "the same address changes nothing");
    a.transport.register(b.id, c.transport.addressEntry());
    assertEquals(a.sink.lost.length, 1);
    a.transport.send(b.id, 0, message, HEADER, [numbered(2)]);
    await t.arrived(c, 1);
    assertEquals(b.sink.frames.length, 1);
  }],

  ["refuses messages while draining, and nothing else", async (t) => {
    const [a, b] = await t.pair();
    b.transport.register(a.id, a.transport.addressEntry());
    b.transport.beginDrain((header) => header[0] === 0xff);
    a.transport.send(b.id, 0, message, HEADER, [numbered(1)]);
    a.transport.send(b.id, 0, response, HEADER, [numbered(2)]);
    a.transport.send(b.id, 0, message, new Uint8Array([0xff]), [numbered(3)]);
    a.transport.send(b.id, 0, ack, HEADER, [numbered(4)]);
    b.transport.send(a.id, 0, message, HEADER, [numbered(5)]);
    await t.harness.until(() => a.sink.refused.length === 1, "the refusal");
    await t.arrived(b, 3);
    await t.arrived(a, 1);
    assertEquals(a.sink.refused, [{ peer: b.id, header: HEADER }]);
    assertEquals(b.sink.frames.map((frame) => numberIn(frame.payload)), [2, 3, 4]);
    assertEquals(b.transport.stats.rejections, { drain_rejected: 1 });
    await t.harness.run(a.transport.checkHealth(b.id, 1_000));
    const c = await t.node();
    c.transport.register(b.id, b.transport.addressEntry());
    c.transport.send(b.id, 0, response, HEADER, [numbered(6)]);
    await t.arrived(b, 4);
  }],

  ["writes out what was admitted before it shuts down, and then sends no more", async (t) => {
    const [a, b] = await t.pair();
    for (let i = 0; i < 100; i++) {
      a.transport.send(b.id, 0, message, HEADER, [numbered(i), new Uint8Array(10_000)]);
    }
    const first = a.transport.shutdown(2_000);
    assertEquals((await t.harness.run(sendError(a, b.id, 0, [])))?.code, "closed");
    await t.harness.run(Promise.all([first, a.transport.shutdown(2_000)]));
    await t.harness.until(() => b.sink.closed.length === 1, "the connection to close");
    assertEquals(b.sink.frames.length, 100);
    assertEquals([a.transport.stats.connections, b.transport.stats.connections], [0, 0]);
  }],

  ["does not wait for ever for a peer that does not read", async (t) => {
    const [a, b] = await t.pair();
    a.transport.send(b.id, 0, message, HEADER, [numbered(0)]);
    await t.arrived(b, 1);
    const resume = t.harness.pause(b.transport, b.sink.frames[0]!.from);
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 500; i++) {
      a.transport.send(b.id, 0, message, HEADER, [new Uint8Array(65_536)], (e) => codes.push(e?.code));
    }
    await t.harness.run(a.transport.shutdown(50));
    assert(codes.includes("connection"));
    resume();
  }],

  ["says whether a peer can be reached", async (t) => {
    const [a, b] = await t.pair();
    await t.harness.run(a.transport.checkHealth(b.id, 1_000));
    a.transport.send(b.id, 0, message, HEADER, []);
    await t.arrived(b, 1);
    await t.harness.run(a.transport.checkHealth(b.id, 1_000));
    a.transport.register("gone", t.harness.deadEntry());
    for (const [peer, code] of [["nobody", "peer_unknown"], ["gone", "connection"]] as const) {
      const error = await assertRejects(
        () => t.harness.run(a.transport.checkHealth(peer, 1_000)),
        TokenplaneError,
      );
      assertEquals(error.code, code);
    }
  }],

  ["survives a sink that throws", async (t) => {
    const bugs: unknown[] = [];
    const a = await t.node();
    const b = await t.node({ onBug: (caught) => void bugs.push(caught) });
    a.transport.register(b.id, b.transport.addressEntry());
    b.sink.onEachFrame = (frame) => {
      if (numberIn(frame.payload) === 1) throw new Error("handler");
    };
    for (let i = 0; i < 3; i++) a.transport.send(b.id, 0, message, HEADER, [numbered(i)]);
    await t.arrived(b, 3);
    assertEquals(bugs.length, 1);
    assertEquals(b.sink.closed.length, 0);
  }],

  ["delivers nothing more of a connection that its sink closed", async (t) => {
    const [a, b] = await t.pair();
    b.sink.onEachFrame = (frame) => frame.from.close("enough");
    for (let i = 0; i < 50; i++) a.transport.send(b.id, 0, message, HEADER, [numbered(i)]);
    await t.harness.until(() => a.sink.lost.length === 1 && b.sink.closed.length === 1, "the close");
    assertEquals(b.sink.frames.length, 1);
  }],
];

/** Sends and resolves with what its admission says. */
function sendError(
  from: Node,
  peer: string,
  lane: number,
  parts: Uint8Array[],
): Promise<TokenplaneError | null> {
  return new Promise((resolve) => {
    if (from.transport.send(peer, lane, message, HEADER, parts, resolve)) resolve(null);
  });
}
