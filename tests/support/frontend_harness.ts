/** A frontend on a real port, over a scripted plane and messenger. */
import { deadline } from "@std/async";
import net from "node:net";
import tls from "node:tls";
import type { Clock } from "../../src/clock.ts";
import { FrontendNode, type FrontendParts } from "../../src/frontend/node.ts";
import type { FrontendOptions } from "../../src/frontend/options.ts";
import { OUTCOMES } from "../../src/outcome.ts";
import { decodeRequestMessage, type RequestMessage } from "../../src/plane/request_message.ts";
import { selfSigned } from "./certificates.ts";
import { instanceIdOf, ScriptedMessenger } from "./scripted_messenger.ts";
import { ScriptedPlane, type ScriptedStream } from "./scripted_plane.ts";

const UNTIL_MS = 30_000;

/** The frontend's certificate where the tests are run behind TLS (`tls_rerun_test.ts`); null as a rule. */
export const CERTIFICATE = Deno.env.get("TESTS_OVER_TLS") === "on" ? await selfSigned() : null;

if (CERTIFICATE !== null) {
  const client = Deno.createHttpClient({ caCerts: [CERTIFICATE.cert] });
  const plainFetch = globalThis.fetch;
  globalThis.fetch = (input, init) => plainFetch(input, { client, ...init });
}

/** What one test works with. */
export class FrontendHarness {
  readonly messenger = new ScriptedMessenger();
  readonly plane = new ScriptedPlane();
  readonly node: FrontendNode;
  readonly requests: RequestMessage[] = [];
  port = 0;
  #waiters: ((stream: ScriptedStream) => void)[] = [];
  #unclaimed: ScriptedStream[] = [];

  constructor(options: Partial<FrontendOptions> = {}, parts: Partial<FrontendParts> = {}) {
    this.plane.onRegister = (stream) => {
      const waiter = this.#waiters.shift();
      if (waiter === undefined) this.#unclaimed.push(stream);
      else waiter(stream);
    };
    this.messenger.onAckRequest = (_peer, _handler, payload) => {
      this.requests.push(decodeRequestMessage(payload));
      return Promise.resolve();
    };
    this.node = new FrontendNode({
      messenger: this.messenger,
      plane: this.plane,
      options,
      certificate: CERTIFICATE,
      ...parts,
    });
  }

  get base(): string {
    return `${CERTIFICATE === null ? "http" : "https"}://127.0.0.1:${this.port}`;
  }

  async start(): Promise<this> {
    this.port = await this.node.start({ hostname: "127.0.0.1", port: 0 });
    return this;
  }

  /** Lets a worker join; returns its instance id. */
  join(number = 1, models: readonly string[] = ["m"], extra: Record<string, unknown> = {}): string {
    const id = instanceIdOf(number);
    this.messenger.call("_tp_join", {
      peer_info: { instance_id: id, worker_address: [0x80] },
      models: models.map((model) => ({ id: model, created: 1_700_000_000, owned_by: "test" })),
      engine: "fake",
      capacity: 0,
      ...extra,
    });
    return id;
  }

  /** The next stream that the frontend registers (or registered, if nobody has asked for it yet). */
  nextStream(): Promise<ScriptedStream> {
    const known = this.#unclaimed.shift();
    if (known !== undefined) return Promise.resolve(known);
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Posts a chat request; `fields` replace the defaults. */
  post(fields: Record<string, unknown> = {}, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.base}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chatBody(fields)),
      ...init,
    });
  }

  /** Outcomes counted so far, those that are not zero. */
  outcomes(): Record<string, number> {
    const sums: Record<string, number> = {};
    for (const { stream, unary } of Object.values(this.node.stats.requests)) {
      for (const outcome of OUTCOMES) {
        const count = stream.outcomes[outcome] + unary.outcomes[outcome];
        if (count > 0) sums[outcome] = (sums[outcome] ?? 0) + count;
      }
    }
    return sums;
  }

  async close(): Promise<void> {
    await this.node.close();
  }
}

/** Runs a test with a started frontend and one worker of model `m`. */
export async function withFrontend(
  options: Partial<FrontendOptions>,
  test: (harness: FrontendHarness) => Promise<void>,
  parts: { readonly clock?: Clock } = {},
): Promise<void> {
  const harness = await new FrontendHarness(options, parts).start();
  harness.join();
  try {
    await test(harness);
  } finally {
    await harness.close();
  }
}

/** A chat request's fields. */
export function chatBody(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return { model: "m", messages: [{ role: "user", content: "hi" }], stream: true, ...fields };
}

/** A chat request as it goes over the wire. */
export function rawChat(fields: Record<string, unknown> = {}, head = ""): string {
  const body = JSON.stringify(chatBody(fields));
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: ${body.length}\r\n${head}\r\n${body}`;
}

/** A TCP (or TLS) client that keeps what it read. */
export class RawClient {
  readonly socket: net.Socket;
  text = "";
  isClosed = false;
  #checks: (() => void)[] = [];

  private constructor(socket: net.Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      this.text += chunk;
      this.#check();
    });
    socket.on("error", () => {});
    socket.on("end", () => socket.end());
    socket.on("close", () => {
      this.isClosed = true;
      this.#check();
    });
  }

  static connect(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const target = { port, host: "127.0.0.1", allowHalfOpen: true };
      const socket = CERTIFICATE === null
        ? net.connect(target)
        : tls.connect({ ...target, ca: CERTIFICATE.cert });
      socket.once("error", reject);
      socket.once(CERTIFICATE === null ? "connect" : "secureConnect", () => resolve(new RawClient(socket)));
    });
  }

  send(text: string | Uint8Array): this {
    this.socket.write(text);
    return this;
  }

  /** Waits until what was read satisfies `isEnough`, or the connection is closed. */
  /** Waits for what makes `isEnough` true, or the end of the connection. Throws after half a minute: it never came. */
  async until(isEnough: (text: string) => boolean): Promise<string> {
    return await deadline(this.#until(isEnough), UNTIL_MS);
  }

  async #until(isEnough: (text: string) => boolean): Promise<string> {
    while (!isEnough(this.text) && !this.isClosed) {
      await new Promise<void>((resolve) => this.#checks.push(resolve));
    }
    return this.text;
  }

  async closed(): Promise<string> {
    while (!this.isClosed) await new Promise<void>((resolve) => this.#checks.push(resolve));
    return this.text;
  }

  async close(): Promise<void> {
    this.socket.destroy();
    await this.closed();
  }

  #check(): void {
    const checks = this.#checks;
    this.#checks = [];
    for (const check of checks) check();
  }
}

/** One response cut out of raw bytes. */
export interface RawResponse {
  readonly status: number;
  readonly head: string;
  readonly body: string;
  /** Sizes of the chunks, last (0) included; empty when the body is not chunked. */
  readonly chunks: readonly number[];
  readonly rest: string;
}

/** Parses one whole response with the strictness of the standard; null when it is not complete. Throws on bad framing. */
export function parseRaw(text: string): RawResponse | null {
  const split = text.indexOf("\r\n\r\n");
  if (split < 0) return null;
  const head = text.slice(0, split);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
  if (!/^transfer-encoding: chunked$/im.test(head)) {
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    const end = split + 4 + length;
    if (text.length < end) return null;
    return { status, head, body: text.slice(split + 4, end), chunks: [], rest: text.slice(end) };
  }
  let at = split + 4;
  let body = "";
  const chunks: number[] = [];
  for (;;) {
    const line = text.indexOf("\r\n", at);
    if (line < 0) return null;
    const hex = text.slice(at, line);
    if (!/^[0-9a-f]{1,8}$/i.test(hex)) throw new Error(`Bad chunk size "${hex}"`);
    const size = Number.parseInt(hex, 16);
    if (text.length < line + 2 + size + 2) return null;
    chunks.push(size);
    body += text.slice(line + 2, line + 2 + size);
    at = line + 2 + size;
    if (text.slice(at, at + 2) !== "\r\n") throw new Error("Bad end of a chunk");
    at += 2;
    if (size === 0) return { status, head, body, chunks, rest: text.slice(at) };
  }
}
