import { assert, assertEquals, assertRejects } from "@std/assert";
import { deadline } from "@std/async";
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import { DirectSend } from "../../src/frontend/egress/direct_send.ts";
import type { FrontendOptions } from "../../src/frontend/options.ts";
import { TokenplaneError } from "../../src/errors.ts";
import { createLogger } from "../../src/observe/log.ts";
import { selfSigned } from "../support/certificates.ts";
import { FrontendHarness, rawChat } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

const UNTIL_MS = 20_000;
const LIVE = "GET /live HTTP/1.1\r\nhost: t\r\n\r\n";
const pair = await selfSigned({ name: "first" });

/** Runs a test with a frontend behind TLS; what it logged is in `log`. */
async function withTls(
  options: Partial<FrontendOptions>,
  test: (harness: FrontendHarness, log: string[]) => Promise<void>,
): Promise<void> {
  const lines: string[] = [];
  const log = createLogger({ level: "info", write: (line) => lines.push(line) });
  const harness = await new FrontendHarness(options, { certificate: pair, log }).start();
  harness.join();
  try {
    await deadline(test(harness, lines), UNTIL_MS);
  } finally {
    await harness.close();
  }
}

/** A connection whose handshake is done. */
async function secured(port: number, extra: tls.ConnectionOptions = {}): Promise<tls.TLSSocket> {
  const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...extra });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}

/** A connection that has not begun a handshake. */
async function connected(
  port: number,
): Promise<{ socket: net.Socket; closed: Promise<unknown>; text: () => string }> {
  const socket = net.connect(port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("data", (piece: string) => text += piece).on("error", () => {});
  const closed = new Promise((resolve) => socket.once("close", resolve));
  await once(socket, "connect");
  return { socket, closed, text: () => text };
}

/** The status that a secured connection's next request gets. */
async function ask(socket: tls.TLSSocket, request = LIVE): Promise<string> {
  socket.write(request);
  const [answer] = await once(socket, "data");
  return String(answer).slice(0, 12);
}

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  Deno.test(`Frontend serves HTTP/1.1 over ${version}`, () =>
    withTls({}, async (harness) => {
      const socket = await secured(harness.port, {
        minVersion: version,
        maxVersion: version,
        ALPNProtocols: ["h2", "http/1.1"],
      });
      assertEquals([socket.getProtocol(), socket.alpnProtocol], [version, "http/1.1"]);
      assertEquals(await ask(socket), "HTTP/1.1 200");
      // Kept alive.
      assertEquals(await ask(socket), "HTTP/1.1 200");
      socket.destroy();
    }));
}

Deno.test("Frontend behind TLS refuses a client that speaks HTTP/2 alone", () =>
  withTls({}, async (harness) => {
    await assertRejects(() => secured(harness.port, { ALPNProtocols: ["h2"] }), Error);
  }));

Deno.test("Frontend behind TLS closes plain HTTP, garbage and half a hello without a word of HTTP", () =>
  withTls({ tlsHandshakeTimeoutMs: 300 }, async (harness, log) => {
    const logged = log.length;
    const served = await secured(harness.port);
    for (
      const text of [
        LIVE,
        "\0".repeat(5_000),
        "\x16\x03\x01\x02\x00\x01",
        "\x16\x03\x01\xff\xff" + "x".repeat(70_000),
      ]
    ) {
      const client = await connected(harness.port);
      client.socket.write(text, "latin1");
      await client.closed;
      // At most an alert record.
      assert(client.text().length <= 7 && !client.text().includes("HTTP"), JSON.stringify(client.text()));
    }
    assertEquals(await ask(served), "HTTP/1.1 200");
    served.destroy();
    assertEquals(log.slice(logged), []);
  }));

Deno.test("Frontend behind TLS cuts a handshake that does not end in time", () =>
  withTls({ tlsHandshakeTimeoutMs: 200 }, async (harness) => {
    const silent = await connected(harness.port);
    const slow = await connected(harness.port);
    // Some bytes now and then must not prolong it.
    const timer = setInterval(() => slow.socket.write("\x16"), 50);
    await Promise.all([silent.closed, slow.closed]);
    clearInterval(timer);
  }));

Deno.test("Frontend behind TLS has the oldest handshakes give way beyond their limit, and no client that it serves", () =>
  withTls({ tlsHandshakeTimeoutMs: 60_000, maxTlsHandshakes: 4 }, async (harness) => {
    const served = await Promise.all([1, 2, 3].map(() => secured(harness.port)));
    const idle = [];
    for (let i = 0; i < 4; i++) idle.push(await connected(harness.port));
    for (const client of served) assertEquals(await ask(client), "HTTP/1.1 200");
    // One more, which is honest: it takes the place of the oldest and is served.
    const honest = await secured(harness.port);
    await idle[0]!.closed;
    assertEquals(await ask(honest), "HTTP/1.1 200");
    // Its handshake is done, so there is room for one.
    const last = await connected(harness.port);
    assertEquals(await ask(await secured(harness.port)), "HTTP/1.1 200");
    await idle[1]!.closed;
    assertEquals([idle[2]!.socket.destroyed, idle[3]!.socket.destroyed, last.socket.destroyed], [
      false,
      false,
      false,
    ]);
    for (const client of served) assertEquals(await ask(client), "HTTP/1.1 200");
    for (const client of [...served, honest]) client.destroy();
    for (const client of [...idle, last]) client.socket.destroy();
  }));

Deno.test("FrontendNode.useCertificate is what new connections see; open ones go on", () =>
  withTls({}, async (harness) => {
    const before = await secured(harness.port);
    assertEquals(before.getPeerCertificate().subject.CN, "first");
    harness.node.useCertificate(await selfSigned({ name: "second" }));
    const after = await secured(harness.port);
    assertEquals(after.getPeerCertificate().subject.CN, "second");
    assertEquals(after.getProtocol(), "TLSv1.3");
    for (const socket of [before, after]) assertEquals(await ask(socket), "HTTP/1.1 200");
    before.destroy();
    after.destroy();
  }));

for (const egress of ["socket", "portable"] as const) {
  Deno.test(`Frontend behind TLS holds back a stream whose client does not read, egress ${egress}`, () =>
    withTls({ egress }, async (harness) => {
      // It reads when it is told to, and nothing reads for it.
      const client = await Deno.connectTls({
        hostname: "127.0.0.1",
        port: harness.port,
        caCerts: [pair.cert],
      });
      await client.write(new TextEncoder().encode(rawChat()));
      const stream = await harness.nextStream();
      stream.head();
      const item = new Uint8Array(16 * 1024).fill(0x78);
      let made = 0;
      while (!stream.isPaused && made < 64 * 1024 * 1024) {
        stream.data(item).flush();
        made += item.length;
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      assert(stream.isPaused && made < 16 * 1024 * 1024, `${made} bytes were taken`);
      const buffer = new Uint8Array(65_536);
      let read = 0;
      while (stream.isPaused || read < made) read += (await client.read(buffer))!;
      stream.data("data: [DONE]\n\n").finish().flush();
      let tail = "";
      while (!tail.endsWith("0\r\n\r\n")) {
        tail += new TextDecoder().decode(buffer.subarray(0, (await client.read(buffer))!));
      }
      assertEquals(harness.outcomes(), { ok: 1 });
      client.close();
    }));

  Deno.test(`Frontend behind TLS cancels a stream whose client leaves, egress ${egress}`, () =>
    withTls({ egress }, async (harness) => {
      const client = await secured(harness.port);
      client.write(rawChat());
      const stream = await harness.nextStream();
      stream.head().data("data: 0\n\n").flush();
      await once(client, "data");
      client.destroy();
      await until(() => stream.cancelled !== null, "the stream to be cancelled");
      await until(() => harness.node.openRequests === 0, "no open request");
      assertEquals(harness.outcomes(), { cancelled: 1 });
    }));
}

Deno.test("Frontend behind TLS lets streams end when it drains, and says that it does", () =>
  withTls({}, async (harness) => {
    const client = await secured(harness.port);
    client.write(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 0\n\n").flush();
    await once(client, "data");
    const drained = harness.node.drain(10_000);
    assertEquals(await ask(await secured(harness.port), LIVE.replace("/live", "/health")), "HTTP/1.1 503");
    stream.data("data: [DONE]\n\n").finish().flush();
    await drained;
    assertEquals(harness.outcomes(), { ok: 1 });
    client.destroy();
  }));

Deno.test("chooseEgress stays with the socket's own writes behind TLS, and refuses what goes past it", async () => {
  assertEquals((await chooseEgress("auto", pair)).name, "socket");
  for (const choice of ["ffi", "ring"] as const) {
    await assertRejects(
      () => chooseEgress(choice, pair),
      TokenplaneError,
      `Cannot use egress "${choice}": behind TLS this runtime offers no more than "socket"; use "auto"`,
    );
  }
});

Deno.test("DirectSend has no way past a connection that is encrypted", async () => {
  const server = tls.createServer({ ...pair });
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port));
  });
  const accepted = once(server, "secureConnection");
  const client = await secured(port);
  const [socket] = await accepted as [tls.TLSSocket];
  assertEquals([DirectSend.open(socket), DirectSend.of(socket)], [null, null]);
  client.destroy();
  socket.destroy();
  await new Promise<void>((resolve) => server.close(() => resolve()));
});
