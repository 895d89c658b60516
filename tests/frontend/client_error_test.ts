/**
 * `node:http` gives the parser of a connection back before it reports what could not be parsed, and the connection goes
 * on feeding it: what came next would be taken for a request of whoever has the parser then.
 */
import { assert, assertEquals } from "@std/assert";
import { deadline } from "@std/async";
import { CERTIFICATE, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";

const GARBAGE = "GARBAGE\r\n\r\n";
const LIMIT_MS = 5_000;
const bytes = (text: string) => new TextEncoder().encode(text);

/** A client that is told what is wrong with its bytes, and keeps its half of the connection open. */
async function offend(port: number): Promise<Deno.TcpConn | Deno.TlsConn> {
  const offender = CERTIFICATE === null
    ? await Deno.connect({ port })
    : await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [CERTIFICATE.cert] });
  await offender.write(bytes(GARBAGE));
  const answer = new Uint8Array(1_000);
  const count = await offender.read(answer);
  assert(new TextDecoder().decode(answer.subarray(0, count!)).startsWith("HTTP/1.1 400 "));
  return offender;
}

Deno.test("A request behind garbage is nobody's: the next connection is not answered in its place", () =>
  withFrontend({}, async (harness) => {
    for (let round = 0; round < 5; round++) {
      using offender = await offend(harness.port);
      const next = await RawClient.connect(harness.port);
      next.send("GET /live HTTP/1.1\r\nhost: t\r\n\r\n");
      await next.until((text) => text.endsWith("}"));
      const seen = next.text.length;
      const models = "GET /v1/models HTTP/1.1\r\nhost: t\r\nx-request-id: offender\r\n\r\n";
      await offender.write(bytes(models + rawChat()));
      // By the time that this one is answered the server has read the others.
      for (let i = 0; i < 3; i++) {
        const other = await RawClient.connect(harness.port);
        other.send("GET /live HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        await other.closed();
      }
      assertEquals(next.text.slice(seen), "");
      next.send("GET /live HTTP/1.1\r\nhost: t\r\n\r\n");
      await next.until((text) => text.slice(seen).endsWith("}"));
      assert(!next.text.includes("offender"), next.text);
      await next.close();
    }
    assertEquals(harness.outcomes(), {});
  }));

Deno.test("A client that leaves behind garbage does not end the request of the next connection", () =>
  withFrontend({}, async (harness) => {
    using offender = await offend(harness.port);
    const next = await RawClient.connect(harness.port);
    const request = rawChat();
    next.send(request.slice(0, request.length - 5));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await offender.closeWrite();
    await new Promise((resolve) => setTimeout(resolve, 20));
    next.send(request.slice(-5));
    const stream = await deadline(harness.nextStream(), LIMIT_MS);
    stream.head().data("data: [DONE]\n\n").finish().flush();
    await next.until((text) => text.endsWith("0\r\n\r\n"));
    assert(next.text.startsWith("HTTP/1.1 200 "), next.text);
    await next.close();
  }));
