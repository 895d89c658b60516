/**
 * denoland/deno#18985: `conn.write` takes only a part of a large buffer, and a second write meanwhile lands inside the
 * first. A large frame and a small one in the same tick, a slow reader: both must arrive whole.
 */
import { assertEquals } from "@std/assert";
import { FrameReader } from "../../transports/tcp/frame_reader.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { RecordingSink } from "../contract/transport_harness.ts";

Deno.test("TcpTransport keeps an 8 MB frame and a small one apart with a slow reader", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const transport = new TcpTransport();
  await transport.start(new RecordingSink());
  transport.register("peer", new TextEncoder().encode(`127.0.0.1:${listener.addr.port}`));
  transport.send("peer", 0, 0, new Uint8Array(1), [new Uint8Array(8_000_000).fill(1)]);
  transport.send("peer", 0, 0, new Uint8Array(1), [new Uint8Array(6).fill(2)]);
  const conn = await listener.accept();
  const reader = new FrameReader();
  const sizes: number[] = [];
  while (sizes.length < 2) {
    const count = await conn.read(reader.space().subarray(0, 65_536));
    if (count === null) break;
    reader.take(count, (_type, _header, payload) => {
      const fill = payload[0]!;
      assertEquals(payload.findIndex((byte) => byte !== fill), -1, "one frame inside another");
      return sizes.push(payload.length) > 0;
    });
  }
  assertEquals(sizes, [8_000_000, 6]);
  conn.close();
  listener.close();
  await transport.shutdown(100);
});
