/** Whether a pair can serve, found out by serving one handshake: which kinds of key the TLS library takes it says nowhere. */
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import { TokenplaneError } from "../../errors.ts";
import type { CertificatePair } from "./certificate.ts";

/** Both ends are here. */
const LIMIT_MS = 10_000;

/** Resolves when a handshake over loopback has succeeded. Throws `invalid_config`. @param name what to call the certificate */
export async function proveHandshake(pair: CertificatePair, name: string): Promise<void> {
  try {
    await handshake(pair);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TokenplaneError("invalid_config", `Cannot use ${name}: no handshake succeeds by it: ${why}`, {
      scope: "process",
      cause,
    });
  }
}

function handshake(pair: CertificatePair): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const server = createServer({ cert: pair.cert, key: pair.key });
  server.on("error", reject);
  server.on("tlsClientError", reject);
  server.on("secureConnection", (socket) => socket.on("error", () => {}).resume());
  const timer = setTimeout(() => reject(new Error("It took too long")), LIMIT_MS);
  let stop = () => {};
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo;
    // What it proves to others is theirs to judge.
    const client = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => resolve());
    client.on("error", reject);
    stop = () => client.destroy();
  });
  return promise.finally(() => {
    clearTimeout(timer);
    stop();
    server.close();
  });
}
