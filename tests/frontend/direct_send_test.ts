import { assert, assertEquals, assertThrows } from "@std/assert";
import { deadline } from "@std/async";
import type { ServerResponse } from "node:http";
import net from "node:net";
import tls from "node:tls";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import { DescriptorTable } from "../../src/frontend/egress/descriptor_table.ts";
import { closeAbandoned, DirectSend, useDescriptorTable } from "../../src/frontend/egress/direct_send.ts";
import { SendRing } from "../../src/frontend/egress/send_ring.ts";
import { SocketSink } from "../../src/frontend/egress/socket_sink.ts";
import { frameChunk, ownChunk, PREFIX_BYTES } from "../../src/frontend/egress/chunk_slab.ts";
import { connected, directWays, GET, openDescriptors, SINK_HOST, withSink } from "../support/direct_sink.ts";
import { parseRaw } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

const LIMIT_MS = 10_000;
const bytes = (text: string) => new TextEncoder().encode(text);

await chooseEgress("auto"); // what is loaded once stays open, and is no leak of a test

Deno.test({
  name:
    "SendRing tells every target of a hand-over, whoever throws, before the memory is used again (needs io_uring)",
  ignore: SendRing.open() === null,
}, async () => {
  const ring = SendRing.open()!;
  const { socket, client, close } = await connected();
  const direct = DirectSend.open(socket)!;
  const told: string[] = [];
  const memory = bytes("abcdef");
  const noting = (name: string) => ({ onSent: (sent: number) => void told.push(`${name} ${sent}`) });
  const throwing = (name: string) => ({
    onSent() {
      throw new Error(name);
    },
  });
  ring.begin();
  ring.send(direct.descriptor, memory, 0, 2, throwing("first"), true);
  ring.send(direct.descriptor, memory, 2, 4, throwing("second"), true);
  ring.send(direct.descriptor, memory, 4, 6, noting("c"), true);
  ring.send(-1, memory, 0, 6, noting("bad"), false);
  assertThrows(() => ring.flush(), Error, "first");
  assertEquals(told, ["c 2", "bad -9"]);
  // Nothing is left over for the next hand-over.
  ring.send(direct.descriptor, memory, 0, 1, noting("next"), true);
  assertEquals(told.slice(2), ["next 1"]);
  await client.until((text) => text === "abcdefa");
  direct.close();
  await close();
});

Deno.test("DirectSend.open duplicates the descriptor, and close gives it back once", async () => {
  const { socket, client, close } = await connected();
  const before = openDescriptors();
  const direct = DirectSend.open(socket)!;
  assertEquals(openDescriptors(), before + 1);
  assertEquals(direct.send(bytes("abc")), 3);
  await client.until((text) => text === "abc");
  direct.close();
  assertEquals(openDescriptors(), before);

  // The next file gets the number; what was closed must touch it no more.
  using file = await Deno.open("/proc/self/status");
  assertEquals(openDescriptors(), before + 1);
  direct.close();
  assertEquals(direct.send(bytes("stray")), 0);
  assertEquals(openDescriptors(), before + 1);
  assert((await file.read(new Uint8Array(10)))! > 0);
  assertEquals(client.text, "abc");
  await close();
});

Deno.test("DirectSend.open refuses what is no open TCP connection", async () => {
  const { socket, close } = await connected();
  assertEquals(DirectSend.open(new net.Socket()), null);
  socket.destroy();
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const before = openDescriptors();
  assertEquals(DirectSend.open(socket), null);
  assertEquals(openDescriptors(), before);
  for (const handle of [null, undefined, {}, { fdForIpc: () => -1 }, { fdForIpc: () => undefined }]) {
    assertEquals(DirectSend.open({ _handle: handle } as unknown as net.Socket), null);
  }
  const failing = {
    fdForIpc: () => {
      throw new Error("EBADF");
    },
  };
  assertEquals(DirectSend.open({ _handle: failing } as unknown as net.Socket), null);
  await close();
});

Deno.test("DirectSend.open refuses an encrypted connection: its bytes would leave in clear", async () => {
  const { socket, close } = await connected();
  const encrypted = new tls.TLSSocket(socket, { isServer: true });
  encrypted.on("error", () => {});
  const before = openDescriptors();
  assertEquals(DirectSend.open(encrypted), null);
  assertEquals(openDescriptors(), before);
  // Even where the handle shows the connection's own descriptor.
  const shown = { encrypted: true, _handle: { fdForIpc: () => 1_000 } };
  assertEquals(DirectSend.open(shown as unknown as net.Socket), null);
  encrypted.destroy();
  await close();
});

Deno.test("DirectSend.send says how much a full socket took, then nothing, and loses nothing", async () => {
  const { socket, client, close } = await connected();
  client.socket.pause();
  const direct = DirectSend.open(socket)!;
  const piece = new Uint8Array(1 << 20).fill(0x61);
  let sent = 0;
  let took = 0;
  do {
    took = direct.send(piece);
    sent += took;
  } while (took > 0);
  assert(sent > 0 && sent % piece.length !== 0, `${sent} bytes: the last send was short`);
  client.socket.resume();
  await client.until((text) => text.length >= sent);
  assertEquals(client.text.length, sent);
  direct.close();
  await close();
});

Deno.test("DirectSend.send to a client that reset gives 0 and no signal", async () => {
  const { socket, client, close } = await connected();
  const direct = DirectSend.open(socket)!;
  client.socket.resetAndDestroy();
  await client.closed();
  await until(() => direct.send(bytes("x")) === 0, "the reset is seen");
  assertEquals(direct.send(bytes("x")), 0);
  direct.close();
  await close();
});

Deno.test("DescriptorTable knows what is open; closeAbandoned closes it and lets the client know", async () => {
  const table = new DescriptorTable();
  assertEquals([table.isEmpty, table.add(-1), table.add(1 << 20), table.isEmpty], [true, false, false, true]);
  for (const descriptor of [0, 31, 32, 63, (1 << 20) - 1]) assertEquals(table.add(descriptor), true);
  table.remove(32);
  assertEquals(new DescriptorTable(table.memory).takeAll(), [0, 31, 63, (1 << 20) - 1]);
  assertEquals([table.isEmpty, table.takeAll()], [true, []]);

  const { socket, client, close } = await connected();
  useDescriptorTable(table);
  try {
    const closed = DirectSend.open(socket)!;
    assertEquals(table.isEmpty, false);
    closed.close();
    assertEquals(table.isEmpty, true);
    const before = openDescriptors();
    const left = DirectSend.open(socket)!;
    left.send(bytes("last"));
    closeAbandoned(table);
    assertEquals([table.isEmpty, openDescriptors()], [true, before]);
    await client.until((text) => text === "last");
    await deadline(client.closed(), LIMIT_MS);
  } finally {
    useDescriptorTable(null);
  }
  await close();
});

for (const [way, egress] of directWays()) {
  Deno.test(`SocketSink by ${way} keeps the order when a slow client makes sends short, and sends directly again after`, async () => {
    const rounds = 3;
    let expected = "";
    let blocked = 0;
    let finished = false;
    let resume: () => void = () => {};
    const serve = (response: ServerResponse) => {
      response.writeHead(200);
      let number = 0;
      const sink = egress.sink(response, { ...SINK_HOST, onWritable: () => resume() });
      const write = (size: number): boolean => {
        const text = `${number++}.`.padEnd(size, String.fromCharCode(97 + number % 26));
        expected += text;
        const start = (number === 1 ? sink.headRoom : 0) + PREFIX_BYTES;
        const buffer = ownChunk(size, start - PREFIX_BYTES);
        buffer.set(bytes(text), start);
        const end = start + size;
        return sink.write(buffer, frameChunk(buffer, start, end), start, end, end + 2);
      };
      void (async () => {
        for (let round = 0; round < rounds; round++) {
          write(100);
          await new Promise((resolve) => setTimeout(resolve, 5));
          // Small and large in turn, until the socket is full; a bit more in spite of it.
          while (write(number % 3 === 0 ? 700_000 : 120));
          for (let i = 0; i < 5; i++) assertEquals(write(64), false);
          assertEquals(sink.blocked, true);
          blocked++;
          const { promise, resolve } = Promise.withResolvers<void>();
          resume = resolve;
          await promise;
          assertEquals(sink.blocked, false);
          resume = () => {};
        }
        sink.end();
        finished = true;
      })();
    };
    await withSink(serve, async (client) => {
      client.socket.pause();
      client.send(GET);
      for (let round = 1; round <= rounds; round++) {
        await until(() => blocked >= round, "the sink is blocked");
        client.socket.resume();
        await until(() => blocked > round || finished, "the sink goes on", LIMIT_MS);
        if (!finished) client.socket.pause();
      }
      const text = await deadline(client.until((text) => text.endsWith("\r\n0\r\n\r\n")), LIMIT_MS);
      const { body } = parseRaw(text)!;
      assertEquals(body.length, expected.length);
      assert(body === expected, "every byte is in its place");
    });
  });
}

Deno.test("chooseEgress finds that head and end of a response can leave with chunks", async () => {
  const egress = await chooseEgress("ffi");
  const serve = (response: ServerResponse) => {
    response.writeHead(200);
    const sink = egress.sink(response, SINK_HOST);
    response.end(`${sink.headRoom > 0}`);
  };
  await withSink(serve, async (client) => {
    client.send(GET);
    const text = await client.until((seen) => seen.endsWith("\r\n0\r\n\r\n"));
    assertEquals(parseRaw(text)!.body, "true");
  });
});

/** A ring that has the kernel take no more than `most` bytes of each send. */
function shortRing(response: ServerResponse, most: number): SendRing {
  const direct = DirectSend.open(response.socket!)!;
  response.once("close", () => direct.close());
  const send: SendRing["send"] = (_descriptor, buffer, start, end, target) => {
    const taken = direct.send(buffer.subarray(start, Math.min(end, start + most)));
    target.onSent(taken === 0 ? -11 : taken, buffer, start, end);
  };
  return { send, submit() {} } as unknown as SendRing;
}

Deno.test("SocketSink completes the last send wherever the kernel cuts it, and keeps the connection", async () => {
  const frameBytes = 3 + 4 + 2;
  const headBytes = 200;
  for (let cut = 0; cut <= headBytes + frameBytes + 5; cut++) {
    const closed = Promise.withResolvers<void>();
    const serve = (response: ServerResponse) => {
      response.writeHead(200);
      const sink = new SocketSink(
        response,
        SINK_HOST,
        shortRing(response, cut),
        true,
      );
      const start = sink.headRoom + PREFIX_BYTES;
      assert(sink.headRoom > 0 && sink.headRoom <= headBytes, `a head of ${sink.headRoom} bytes`);
      const buffer = ownChunk(4, sink.headRoom);
      buffer.set(bytes("last"), start);
      sink.writeLast(buffer, frameChunk(buffer, start, start + 4), start, start + 4, start + 6);
      response.once("close", () => closed.resolve());
    };
    await withSink(serve, async (client) => {
      for (let round = 1; round <= 2; round++) {
        client.send(GET);
        const text = await client.until((seen) => seen.split("\r\n0\r\n\r\n").length > round);
        const first = parseRaw(text)!;
        assertEquals(first.body, "last", `cut at ${cut}`);
        if (round === 2) assertEquals(parseRaw(first.rest)!.body, "last", `cut at ${cut}`);
        await closed.promise;
      }
    });
  }
});
