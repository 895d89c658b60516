import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { StagingStore } from "../../src/messenger/staging.ts";
import { type PullCalls, StagingPuller } from "../../src/messenger/staging_pull.ts";
import { MessengerNet } from "../support/messenger_net.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const WORKER = 0xba7333c2a9286a12n;

function pattern(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 31) >> 3;
  return bytes;
}

Deno.test("Messenger stages a one-way payload over the threshold, and only then", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair();
  const seen: Uint8Array[] = [];
  b.handleOneWay("_stream_batch", (payload) => void seen.push(payload.slice()));
  assertEquals(a.eagerBudget(b.instanceId, "_stream_batch"), 262_109);
  for (const length of [262_144, 262_145, 1_500_000]) {
    const payload = pattern(length);
    const parts = [payload.subarray(0, 100), payload.subarray(100)];
    const isStaged = length > 262_144;
    const admissions: unknown[] = [];
    const isAdmitted = a.sendOneWay(b.instanceId, 0, "_stream_batch", parts, (error) => {
      admissions.push(error);
      assertEquals(seen.length, 0, "the peer has it, and handles it before anything that is sent now");
      assertEquals(a.outbox.staging.size, 0);
    });
    assertEquals([isAdmitted, a.outbox.staging.size], [!isStaged, isStaged ? 1 : 0]);
    payload.fill(0);
    await net.pass(50);
    assertEquals(admissions, isStaged ? [null] : []);
    assertEquals(seen.length, 1);
    assertEquals(seen.pop(), pattern(length));
  }
  assertEquals([a.outbox.staging.size, a.outbox.staging.bytes], [0, 0]);
  await net.close();
});

Deno.test("Messenger stages large requests and their caller does not notice", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair();
  b.handleJson("length", (input) => (input as string).length);
  b.handleBytes("size", (payload) => new Uint8Array(payload.length));
  assertEquals(await net.run(a.requestJson(b.instanceId, "length", "x".repeat(2_000_000), 1_000)), 2_000_000);
  const answer = await net.run(a.requestBytes(b.instanceId, "size", new Uint8Array(300_000), 1_000));
  assertEquals([answer.length, a.outbox.staging.size], [300_000, 0]);
  await net.close();
});

Deno.test("Messenger frees a staged payload whose message could not leave", async () => {
  const net = new MessengerNet();
  const [a] = await net.pair();
  const errors: (string | undefined)[] = [];
  const payload = new Uint8Array(300_000);
  const peer = a.registerPeer({ ...a.peerInfo, instanceId: crypto.randomUUID() });
  a.unregisterPeer(peer.instanceId);
  a.sendOneWay(peer.instanceId, 0, "_m", [payload], (error) => errors.push(error?.code));
  await net.pass();
  assertEquals([errors, a.outbox.staging.size], [["peer_unknown"], 0]);
  await net.close();
});

Deno.test("Messenger refuses to stage more than its store takes", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair({ staging: { maxBytes: 500_000 } });
  net.network.partition("node-1", "node-2");
  const errors: (string | undefined)[] = [];
  for (let i = 0; i < 2; i++) {
    a.sendOneWay(b.instanceId, 0, "_m", [new Uint8Array(300_000)], (error) => errors.push(error?.code));
  }
  await net.pass(1);
  assertEquals([errors, a.outbox.staging.size], [["overloaded"], 1]);
  await net.close();
});

Deno.test("StagingStore names payloads as the specification does and hands them out in chunks", () => {
  const store = new StagingStore(WORKER, new VirtualClock());
  assertEquals(store.stage([pattern(10)], 10), ((WORKER << 64n) | 1n).toString());
  const handle = store.stage([pattern(1_200_000)], 1_200_000);
  assertEquals(BigInt(handle) & 0xffffn, 2n);
  const input = { handle: { hi: WORKER, lo: 2 } };
  assertEquals(store.acquire(input), {
    Ready: { lease_id: 1n, transfer_id: 1n, total_len: 1_200_000, chunk_size: 524_288, chunk_count: 3 },
  });
  const chunks = [0, 1, 2].map((chunk_index) => store.pull({ transfer_id: 1, chunk_index }));
  assertEquals(chunks.map((chunk) => chunk.length), [524_288, 524_288, 151_424]);
  for (const chunk_index of [-1, 3, 0.5, "0", null]) {
    assertThrows(() => store.pull({ transfer_id: 1, chunk_index }), TokenplaneError, "0 to 2");
  }
  store.detach({ ...input, lease_id: 1 });
  assertThrows(() => store.pull({ transfer_id: 1, chunk_index: 0 }), TokenplaneError, "unknown transfer");
  store.acquire(input);
  store.release({ ...input, lease_id: 2 });
  assertThrows(() => store.acquire(input), TokenplaneError, "nothing is staged");
  assertThrows(() => store.pull({ transfer_id: 2, chunk_index: 0 }), TokenplaneError, "unknown transfer");
  for (const bad of [null, {}, { handle: 1 }, { handle: { hi: 1, lo: 1 } }]) {
    assertThrows(() => store.acquire(bad), TokenplaneError);
    store.release(bad);
    store.detach(bad);
  }
  assertEquals([store.size, store.bytes], [1, 10]);
  store.clear();
});

Deno.test("StagingStore forgets what nobody touches, with one timer", () => {
  const clock = new VirtualClock();
  const store = new StagingStore(WORKER, clock, { expireMs: 100 });
  const errors: (string | undefined)[] = [];
  store.stage([pattern(1)], 1, (error) => errors.push(error?.code));
  clock.advance(50);
  store.stage([pattern(2)], 2);
  store.stage([pattern(3)], 3);
  assertEquals(clock.pendingTimers, 1);
  clock.advance(49);
  store.acquire({ handle: { hi: WORKER, lo: 1 } });
  clock.advance(60);
  assertEquals([store.size, store.expired], [1, 2], "the one that was acquired stays longer");
  clock.advance(100);
  assertEquals([store.size, store.bytes, store.expired, clock.pendingTimers], [0, 0, 3, 0]);
  assertEquals(errors, ["timeout"]);
});

Deno.test("StagingPuller does not believe what the sender says", async () => {
  const handle = ((WORKER << 64n) | 7n).toString();
  const good = { lease_id: 1, transfer_id: 2, total_len: 10, chunk_size: 10, chunk_count: 1 };
  const cases: [string, string, unknown, number, string][] = [
    ["another owner's handle", (7n << 64n).toString(), { Ready: good }, 10, "protocol"],
    ["a handle that is no number", "-1", { Ready: good }, 10, "protocol"],
    ["no answer", handle, null, 10, "protocol"],
    ["another kind of answer", handle, { Rdma: good }, 10, "protocol"],
    ["chunks that do not add up", handle, { Ready: { ...good, chunk_count: 2 } }, 10, "protocol"],
    ["chunks of no bytes", handle, { Ready: { ...good, chunk_size: 0 } }, 10, "protocol"],
    [
      "a million chunks",
      handle,
      { Ready: { ...good, total_len: 1e6, chunk_size: 1, chunk_count: 1e6 } },
      1,
      "protocol",
    ],
    ["too much", handle, { Ready: { ...good, total_len: 2_000, chunk_size: 2_000 } }, 10, "too_large"],
    [
      "more than may be under way",
      handle,
      { Ready: { ...good, total_len: 900, chunk_size: 900 } },
      10,
      "overloaded",
    ],
    ["a short chunk", handle, { Ready: good }, 9, "protocol"],
    ["a long chunk", handle, { Ready: good }, 11, "protocol"],
  ];
  for (const [name, header, answer, chunkBytes, code] of cases) {
    const puller = new StagingPuller({ maxPayloadBytes: 1_000, maxTotalBytes: 500 });
    let released = 0;
    const calls: PullCalls = {
      acquire: () => Promise.resolve(answer),
      pull: () => Promise.resolve(new Uint8Array(chunkBytes)),
      release: () => void released++,
      detach: () => {},
    };
    const error = await assertRejects(
      () => puller.fetch(header, WORKER, calls),
      TokenplaneError,
      undefined,
      name,
    );
    assertEquals([error.code, puller.bytes, released], [code, 0, 0], name);
  }
  const puller = new StagingPuller();
  const calls: PullCalls = {
    acquire: () => Promise.resolve({ Ready: good }),
    pull: () => Promise.resolve(pattern(10)),
    release: (input) => assertEquals(input, { handle: { hi: WORKER, lo: 7n }, lease_id: 1n }),
    detach: () => assert(false),
  };
  assertEquals(await puller.fetch(handle, WORKER, calls), pattern(10));
});
