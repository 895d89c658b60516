/** The C programs of the rig, compiled when they are first needed and again when their source changes. */

import { fromFileUrl } from "./paths.ts";
import { findTool, missingTool } from "./tools.ts";

const SOURCES = new URL("../native/", import.meta.url);
const OUTPUT = new URL("../out/", import.meta.url);
const HEADERS = ["histogram.h", "sse_stream.h", "tls.h"];

/** Paths of the compiled programs. */
export interface NativeTools {
  readonly client: string;
  readonly source: string;
  /** The client with TLS; null without OpenSSL's headers. */
  readonly tlsClient: string | null;
}

/** What to do when {@linkcode buildNative} answers null. */
export const NO_COMPILER = missingTool("cc", "gcc libc6-dev");
/** What to do when there is no client with TLS. */
export const NO_OPENSSL = missingTool("openssl/ssl.h", "libssl-dev");

const OPENSSL_HEADER = "/usr/include/openssl/ssl.h";

/** Compiles what is out of date. Null without a C compiler; throws when a source does not compile. */
export async function buildNative(): Promise<NativeTools | null> {
  const cc = await findTool("cc") ?? await findTool("gcc");
  if (cc === null) return null;
  await Deno.mkdir(OUTPUT, { recursive: true });
  const hasOpenssl = await modifiedAt(OPENSSL_HEADER) > 0;
  const [client, source, tlsClient] = await Promise.all([
    compile(cc, "sse_client"),
    compile(cc, "sse_source"),
    hasOpenssl ? compile(cc, "sse_client", "sse_client_tls", ["-DWITH_TLS", "-lssl", "-lcrypto"]) : null,
  ]);
  return { client, source, tlsClient };
}

async function compile(
  cc: string,
  name: string,
  output = name,
  flags: readonly string[] = [],
): Promise<string> {
  const source = fromFileUrl(new URL(`${name}.c`, SOURCES));
  const target = fromFileUrl(new URL(output, OUTPUT));
  const inputs = [source, ...HEADERS.map((header) => fromFileUrl(new URL(header, SOURCES)))];
  const newest = Math.max(...await Promise.all(inputs.map(modifiedAt)));
  if (await modifiedAt(target) > newest) return target;
  const { success, stderr } = await new Deno.Command(cc, { args: ["-O2", "-o", target, source, ...flags] })
    .output();
  if (!success) throw new Error(`Cannot compile "${name}.c": ${new TextDecoder().decode(stderr).trim()}`);
  return target;
}

async function modifiedAt(path: string): Promise<number> {
  try {
    return (await Deno.stat(path)).mtime?.getTime() ?? 0;
  } catch {
    return 0;
  }
}
