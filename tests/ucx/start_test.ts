import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { checkPlatform, checkVersion } from "../../transports/ucx/layouts.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { RecordingSink, ucxTest, withEnv } from "./support.ts";

async function startError(transport: UcxTransport): Promise<TokenplaneError> {
  const error = await assertRejects(() => transport.start(new RecordingSink()), TokenplaneError);
  assertEquals([error.code, error.scope, error.message.includes("\n")], ["invalid_config", "process", false]);
  await transport.shutdown(100);
  return error;
}

Deno.test("UcxTransport says in one line that the library is missing", async () => {
  const error = await startError(new UcxTransport({ library: "libucp-is-not-here.so.0" }));
  assertEquals(
    error.message,
    "UCX not available: libucp-is-not-here.so.0: cannot open shared object file: No such file or directory",
  );
});

Deno.test("UcxTransport says in one line that a library is not UCX", async () => {
  const error = await startError(new UcxTransport({ library: "libc.so.6" }));
  assertEquals(error.message.startsWith("UCX not available: "), true);
});

Deno.test("checkVersion takes what the layouts were compared with and nothing else", () => {
  for (const minor of [13, 14, 16, 18, 22]) checkVersion({ major: 1, minor, release: 0 });
  for (const [major, minor] of [[1, 12], [1, 23], [2, 13], [0, 13]] as const) {
    const error = assertThrows(() => checkVersion({ major, minor, release: 1 }), TokenplaneError);
    assertEquals(error.code, "invalid_config");
    assertEquals(
      error.message,
      `UCX not available: version ${major}.${minor}.1 is installed, 1.13 to 1.22 are supported`,
    );
  }
});

Deno.test("checkPlatform takes 64-bit Linux and nothing else", () => {
  checkPlatform("linux", "x86_64");
  checkPlatform("linux", "aarch64");
  for (const [os, arch] of [["darwin", "aarch64"], ["windows", "x86_64"]] as const) {
    assertThrows(() => checkPlatform(os, arch), TokenplaneError, "it needs 64-bit Linux");
  }
});

const TABLE = [
  ["nonsense", 'UCX not available: cannot make a context: no such device (UCX_TLS is "nonsense")'],
  [
    "self",
    'UCX not available: its transports cannot reach another worker: destination is unreachable (UCX_TLS is "self")',
  ],
] as const;

for (const [tls, message] of TABLE) {
  ucxTest(
    `UcxTransport says in one line that UCX_TLS=${tls} cannot wire up, and leaves nothing behind`,
    async () => {
      await withEnv({ UCX_TLS: tls }, async () => {
        await startError(new UcxTransport());
        const before = [...Deno.readDirSync("/proc/self/fd")].length;
        assertEquals((await startError(new UcxTransport())).message, message);
        assertEquals([...Deno.readDirSync("/proc/self/fd")].length, before);
      });
    },
  );
}

ucxTest("UcxTransport names the device setting that no device fits", async () => {
  await withEnv({ UCX_TLS: "tcp", UCX_NET_DEVICES: "no-such-device" }, async () => {
    const error = await startError(new UcxTransport());
    assertEquals(error.message.endsWith('(UCX_TLS is "tcp", UCX_NET_DEVICES is "no-such-device")'), true);
  });
});

Deno.test("UcxTransport refuses options out of range", () => {
  for (
    const options of [
      { eagerMax: 0 },
      { eagerMax: 16_777_217 },
      { outstanding: { maxFrames: 0, maxBytes: 1 } },
      { outstanding: { maxFrames: 1, maxBytes: 0 } },
      { maxWaiting: 0 },
      { spinMs: -1 },
      { backstopMs: 0 },
      { peerTimeoutMs: 1 },
      { dialTimeoutMs: Number.NaN },
    ]
  ) {
    const error = assertThrows(() => new UcxTransport(options), TokenplaneError);
    assertEquals(error.code, "invalid_config");
  }
});
