import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { MessageType } from "../../transports/contract.ts";
import { encodeFrame } from "../../transports/tcp/frame.ts";
import { COALESCE_THRESHOLD, SendQueue } from "../../transports/tcp/send_queue.ts";
import type { Socket } from "../../transports/tcp/socket.ts";
import { SocketWriter } from "../../transports/tcp/socket_writer.ts";
import { newTcpStats } from "../../transports/tcp/tcp_stats.ts";

const LIMITS = { maxFrames: 256, maxBytes: 1_048_576 };
const NO_LIMITS = { maxFrames: 1e9, maxBytes: 1e9 };
const EMPTY = new Uint8Array(0);

function queueOf(limits = LIMITS): SendQueue {
  return new SendQueue(limits, () => 0);
}

function drain(queue: SendQueue): { frames: number; bytes: Uint8Array }[] {
  const chunks = [];
  for (let chunk = queue.take(); chunk !== null; chunk = queue.take()) {
    chunks.push({ frames: chunk.frames, bytes: chunk.bytes.slice(0, chunk.length) });
  }
  return chunks;
}

/** A socket that takes at most `most` bytes a write, and fails once `failAfter` bytes are through. */
function fakeSocket(
  most: number,
  failAfter = Infinity,
): { socket: Socket; written: number[]; calls: number[] } {
  const written: number[] = [];
  const calls: number[] = [];
  let isBusy = false;
  const socket = {
    write: async (bytes: Uint8Array) => {
      assert(!isBusy, "two writes at a time");
      isBusy = true;
      await Promise.resolve();
      isBusy = false;
      if (written.length >= failAfter) throw new Error("broken pipe");
      const count = Math.min(most, bytes.length);
      written.push(...bytes.subarray(0, count));
      calls.push(bytes.length);
      return count;
    },
  } as unknown as Socket;
  return { socket, written, calls };
}

Deno.test("SendQueue makes of a burst one chunk with the bytes of sequential writes", () => {
  const queue = queueOf();
  const expected: number[] = [];
  for (let i = 0; i < 100; i++) {
    const header = new Uint8Array(i % 7).fill(i);
    const payload = new Uint8Array(i).fill(255 - i);
    assert(queue.tryPush(0, header, [payload.subarray(0, 3), payload.subarray(3)], payload.length));
    expected.push(...encodeFrame(0, header, payload));
  }
  const chunks = drain(queue);
  assertEquals([chunks.length, chunks[0]!.frames], [1, 100]);
  assertEquals([...chunks[0]!.bytes], expected);
});

Deno.test("SendQueue keeps chunks within 64 KiB and 1,024 frames", () => {
  const queue = queueOf(NO_LIMITS);
  for (let i = 0; i < 3_000; i++) {
    queue.tryPush(0, EMPTY, [new Uint8Array(i < 2_500 ? 1 : 10_000)], i < 2_500 ? 1 : 10_000);
  }
  const chunks = drain(queue);
  for (const chunk of chunks) assert(chunk.bytes.length <= COALESCE_THRESHOLD && chunk.frames <= 1_024);
  assertEquals(chunks.reduce((sum, chunk) => sum + chunk.frames, 0), 3_000);
  assertEquals(chunks[0]!.frames, 1_024);
});

Deno.test("SendQueue stages a frame at the threshold and gives a larger one a chunk of its own", () => {
  const queue = queueOf();
  const at = new Uint8Array(COALESCE_THRESHOLD);
  const over = new Uint8Array(COALESCE_THRESHOLD + 1);
  for (const payload of [EMPTY, at, over, EMPTY, EMPTY]) queue.tryPush(0, EMPTY, [payload], payload.length);
  assertEquals(drain(queue).map((chunk) => chunk.bytes.length), [11, at.length + 11, over.length + 11, 22]);
});

Deno.test("SendQueue is bounded in frames and in bytes, and takes any one frame when empty", () => {
  const byFrames = queueOf({ maxFrames: 3, maxBytes: 1_000 });
  assertEquals([1, 2, 3, 4].map(() => byFrames.tryPush(0, EMPTY, [], 0)), [true, true, true, false]);
  const byBytes = queueOf({ maxFrames: 100, maxBytes: 100 });
  const payload = new Uint8Array(39);
  assertEquals([1, 2, 3].map(() => byBytes.tryPush(0, EMPTY, [payload], 39)), [true, true, false]);
  assertEquals([byBytes.frames, byBytes.bytes], [2, 100]);
  byBytes.take();
  assertEquals([byBytes.frames, byBytes.bytes], [0, 0]);
  assert(byBytes.tryPush(0, EMPTY, [new Uint8Array(5_000)], 5_000));
});

Deno.test("SocketWriter writes a burst at once, in full, whatever the socket takes", async () => {
  for (const most of [1, 7, 1_000_000]) {
    const queue = queueOf();
    const { socket, written, calls } = fakeSocket(most);
    const stats = newTcpStats();
    const writer = new SocketWriter(socket, queue, { onRoom() {}, onWriteFailed() {} }, stats, () => 0);
    const expected: number[] = [];
    for (let i = 0; i < 10; i++) {
      const payload = new Uint8Array(20).fill(i);
      queue.tryPush(1, EMPTY, [payload], 20);
      writer.kick();
      expected.push(...encodeFrame(1, EMPTY, payload));
    }
    await writer.idle();
    assertEquals(written, expected);
    assertEquals(calls[0], expected.length, "one write for the burst");
    assertEquals([stats.writes, stats.framesWritten, stats.bytesWritten], [1, 10, expected.length]);
  }
});

Deno.test("SocketWriter reports one failure and writes nothing more", async () => {
  const queue = queueOf();
  const { socket, written } = fakeSocket(10, 20);
  const failures: unknown[] = [];
  const stats = newTcpStats();
  const writer = new SocketWriter(
    socket,
    queue,
    { onRoom() {}, onWriteFailed: (e) => void failures.push(e) },
    stats,
    () => 0,
  );
  for (let i = 0; i < 5; i++) queue.tryPush(0, EMPTY, [new Uint8Array(20)], 20);
  writer.kick();
  await writer.idle();
  queue.tryPush(0, EMPTY, [], 0);
  writer.kick();
  await writer.idle();
  assertEquals([failures.length, written.length, stats.framesWritten], [1, 20, 0]);
});

Deno.test("SocketWriter stops between chunks although the queue is refilled", async () => {
  const queue = queueOf();
  const { socket } = fakeSocket(1_000_000);
  const stats = newTcpStats();
  const refill = (): void => void queue.tryPush(0, EMPTY, [], 0);
  const writer = new SocketWriter(socket, queue, { onRoom: refill, onWriteFailed() {} }, stats, () => 0);
  refill();
  writer.kick();
  for (let i = 0; i < 50; i++) await Promise.resolve();
  const before = stats.writes;
  assert(before > 2);
  writer.stop();
  for (let i = 0; i < 50; i++) await Promise.resolve();
  assert(stats.writes <= before + 1);
  await writer.idle();
});

Deno.test("SendQueue and SocketWriter put any frames on the wire as they are", async () => {
  const frame = fc.record({
    type: fc.integer({ min: 0, max: 4 }),
    sizes: fc.array(fc.nat(40_000), { maxLength: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(frame, { maxLength: 20 }),
      fc.integer({ min: 1_000, max: 90_000 }),
      async (frames, most) => {
        const queue = queueOf(NO_LIMITS);
        const { socket, written } = fakeSocket(most);
        const writer = new SocketWriter(
          socket,
          queue,
          { onRoom() {}, onWriteFailed() {} },
          newTcpStats(),
          () => 0,
        );
        let expected = 0;
        let checksum = 0;
        for (const [i, { type, sizes }] of frames.entries()) {
          const parts = sizes.map((size) => new Uint8Array(size).fill(i + 1));
          const joined = new Uint8Array(parts.flatMap((part) => [...part]));
          queue.tryPush(type as MessageType, EMPTY, parts, joined.length);
          writer.kick();
          for (const byte of encodeFrame(type as MessageType, EMPTY, joined)) {
            checksum = (checksum * 31 + byte) >>> 0;
          }
          expected += 11 + joined.length;
          if (i % 5 === 4) await Promise.resolve();
        }
        await writer.idle();
        assertEquals(written.length, expected);
        assertEquals(written.reduce((sum, byte) => (sum * 31 + byte) >>> 0, 0), checksum);
      },
    ),
    { numRuns: 20 },
  );
});
