/** What the tests of the UCX transport share: whether UCX is here, its environment, and a sink that records. */
import type { FrameSink, InboundConnection, MessageType } from "../../transports/contract.ts";
import { optionalTest } from "../support/optional.ts";
import { loadUcx } from "../../transports/ucx/library.ts";

/** Why UCX cannot be used here; null when it can. Loads it, outside of any test: it stays loaded. */
export const whyNoUcx: string | null = probe();

/** What the tests need, for those that are skipped without it. */
export const UCX_COMPONENT = "UCX (libucx0)";

/** Registers a test that needs libucp. */
export function ucxTest(name: string, fn: (t: Deno.TestContext) => Promise<void> | void): void {
  optionalTest(UCX_COMPONENT, whyNoUcx === null, name, fn);
}

/** Transports that every machine has. Neither needs a device. */
export const TLS_SETS: readonly string[] = ["tcp", "posix,sysv"];

/** Runs `fn` with a setting of the environment, then restores it. */
export async function withEnv<T>(settings: Record<string, string>, fn: () => Promise<T>): Promise<T> {
  const before = Object.keys(settings).map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of Object.entries(settings)) Deno.env.set(name, value);
  try {
    return await fn();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

/** Records what a transport delivers. */
export class RecordingSink implements FrameSink {
  frames: { type: MessageType; header: Uint8Array; payload: Uint8Array; from: InboundConnection }[] = [];
  lost: string[] = [];
  inboundClosed: string[] = [];
  refused: { peer: string; header: Uint8Array }[] = [];
  readEnds = 0;

  onFrame(from: InboundConnection, type: MessageType, header: Uint8Array, payload: Uint8Array): void {
    this.frames.push({ from, type, header: header.slice(), payload: payload.slice() });
  }
  onReadEnd(): void {
    this.readEnds++;
  }
  onInboundClosed(_from: InboundConnection, reason: string): void {
    this.inboundClosed.push(reason);
  }
  onLaneLost(peer: string, _lane: number, reason: string): void {
    this.lost.push(`${peer}: ${reason}`);
  }
  onShuttingDown(peer: string, header: Uint8Array): void {
    this.refused.push({ peer, header: header.slice() });
  }
}

/** Polls until `done` answers true. Throws after `ms`. */
export async function until(what: string, done: () => boolean, ms = 5_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!done()) {
    if (performance.now() > deadline) throw new Error(`Not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

function probe(): string | null {
  try {
    loadUcx();
    return null;
  } catch (caught) {
    return caught instanceof Error ? caught.message : String(caught);
  }
}
