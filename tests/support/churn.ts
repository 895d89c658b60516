/**
 * Clients that come and go in every way a client can, and a worker that answers each with its own secret.
 *
 * Whatever arrives at a connection must be the beginning of exactly what that connection asked for: one byte of someone
 * else's response, a byte too many or one out of order, and it is not.
 */
import { decodeRequestMessage } from "../../src/plane/request_message.ts";
import { type FrontendHarness, parseRaw, RawClient } from "./frontend_harness.ts";
import type { ScriptedStream } from "./scripted_plane.ts";
import type { Rng } from "../sim/rng.ts";

/** One answer: `count` events of `size` bytes, each full of the secret. */
export interface Plan {
  readonly secret: string;
  readonly count: number;
  readonly size: number;
}

/** The event that bears `index`. */
export function eventOf({ secret, size }: Plan, index: number): string {
  const mark = `<${secret}.${index}>`;
  return `data: ${mark.repeat(Math.max(1, Math.ceil(size / mark.length)))}\n\n`;
}

/** The whole body. */
export function bodyOf(plan: Plan): string {
  let body = "";
  for (let index = 0; index < plan.count; index++) body += eventOf(plan, index);
  return body;
}

/** Plays the worker: every few ms one event of each running stream, as one read would bring them. */
export class SecretWorker {
  readonly #harness: FrontendHarness;
  readonly #running = new Map<ScriptedStream, { readonly plan: Plan; sent: number }>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(harness: FrontendHarness, stepMs: number) {
    this.#harness = harness;
    const registered = new Map<bigint, ScriptedStream>();
    harness.plane.onRegister = (stream) => void registered.set(stream.ticket.handle.lo, stream);
    harness.messenger.onAckRequest = (_peer, _handler, payload) => {
      const { body, ticket } = decodeRequestMessage(payload);
      const { plan } = JSON.parse(new TextDecoder().decode(body)) as { plan: Plan };
      const stream = registered.get(ticket.handle.lo)!;
      registered.delete(ticket.handle.lo);
      stream.head();
      this.#running.set(stream, { plan, sent: 0 });
      return Promise.resolve();
    };
    this.#timer = setInterval(() => this.#step(), stepMs);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #step(): void {
    for (const [stream, state] of this.#running) {
      if (stream.cancelled !== null) {
        this.#running.delete(stream);
      } else if (state.sent < state.plan.count) {
        stream.data(eventOf(state.plan, state.sent++));
      } else {
        this.#running.delete(stream);
        stream.finish();
      }
    }
    // The harness keeps every stream; thousands of them are of no use any more.
    this.#harness.plane.streams.length = 0;
    this.#harness.plane.delivered();
  }
}

/** What a client may do. */
export const MANNERS = Object.freeze(
  ["close", "keep_alive", "pipeline", "reset", "leave", "leave_unanswered", "half_close"] as const,
);
/** One of {@linkcode MANNERS}. */
export type Manner = (typeof MANNERS)[number];

let lastSecret = 0;

function newPlan(rng: Rng): Plan {
  // Mostly tokens; some so large that the kernel does not take an event at once.
  const size = rng.chance(1 / 12) ? rng.int(20_000, 170_000) : rng.int(20, 320);
  return { secret: (++lastSecret).toString(36).padStart(6, "z"), count: rng.int(1, 8), size };
}

function requestOf(plan: Plan, head = ""): string {
  const body = JSON.stringify({
    model: "m",
    messages: [{ role: "user", content: "hi" }],
    stream: true,
    plan,
  });
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: ${body.length}\r\n${head}\r\n${body}`;
}

/** One client, from its connection to its end. Returns the responses it has seen whole; throws when bytes are wrong. */
export async function runClient(port: number, manner: Manner, rng: Rng): Promise<number> {
  const client = await RawClient.connect(port);
  const plans = Array.from({ length: 3 }, () => newPlan(rng));
  const [first] = plans as [Plan];
  try {
    switch (manner) {
      case "close":
        client.send(requestOf(first, "connection: close\r\n"));
        await client.closed();
        return checkAll(client, [first], true);
      case "keep_alive":
        for (let done = 1; done <= plans.length; done++) {
          client.send(requestOf(plans[done - 1]!));
          await client.until((text) => responsesIn(text) >= done);
        }
        return checkAll(client, plans, true);
      case "pipeline":
        client.send(plans.map((plan) => requestOf(plan)).join(""));
        await client.until((text) => responsesIn(text) >= plans.length);
        return checkAll(client, plans, true);
      case "half_close":
        client.send(requestOf(first));
        client.socket.end();
        await client.closed();
        return checkAll(client, [first], false);
      case "reset":
        client.send(requestOf(first));
        await client.until((text) => text.includes("data: "));
        client.socket.resetAndDestroy();
        await client.closed();
        return checkAll(client, [first], false);
      case "leave":
        client.send(plans.map((plan) => requestOf(plan)).join(""));
        await client.until((text) => text.includes("data: "));
        return checkAll(client, plans, false);
      case "leave_unanswered":
        client.send(requestOf(first));
        return checkAll(client, [first], false);
    }
  } finally {
    await client.close();
    // Also what came after the last look.
    checkAll(client, plans, false);
  }
}

/** End of a chunked body; no event contains it. */
function responsesIn(text: string): number {
  return text.split("\r\n0\r\n\r\n").length - 1;
}

function checkAll(client: RawClient, plans: readonly Plan[], areWhole: boolean): number {
  let rest = client.text;
  for (const [done, plan] of plans.entries()) {
    const expected = bodyOf(plan);
    const response = parseRaw(rest);
    if (response !== null) {
      if (response.status !== 200 || response.body !== expected) throw wrong(plan, response.body, expected);
      rest = response.rest;
      continue;
    }
    if (areWhole) throw new Error(`The response of ${plan.secret} is cut after ${rest.length} bytes`);
    const body = partialBody(rest);
    if (!expected.startsWith(body)) throw wrong(plan, body, expected);
    return done;
  }
  if (rest !== "") throw new Error(`${rest.length} bytes too many: ${JSON.stringify(rest.slice(0, 200))}`);
  return plans.length;
}

/** The data that a cut response brought. */
function partialBody(text: string): string {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return "";
  let at = head + 4;
  let body = "";
  for (;;) {
    const line = text.indexOf("\r\n", at);
    if (line < 0) return body;
    const hex = text.slice(at, line);
    if (!/^[0-9a-f]{1,8}$/i.test(hex)) throw new Error(`Bad chunk size ${JSON.stringify(hex.slice(0, 100))}`);
    const size = Number.parseInt(hex, 16);
    body += text.slice(line + 2, line + 2 + size);
    at = line + 2 + size + 2;
    if (at >= text.length) return body;
  }
}

function wrong({ secret }: Plan, body: string, expected: string): Error {
  let at = 0;
  while (at < body.length && body[at] === expected[at]) at++;
  const found = JSON.stringify(body.slice(Math.max(0, at - 20), at + 80));
  return new Error(`The response of ${secret} is wrong at byte ${at} of ${expected.length}: ${found}`);
}
