/**
 * What the supervisor and a shard say to each other. No token and no request ever does.
 *
 * | phase | supervisor | shard |
 * |---|---|---|
 * | start | | `loaded` |
 * | | `start` | `listening` when workers can join, `accepting` when clients are served, or `failed` |
 * | serve | `certificate`, `keys` when files have changed | |
 * | | `process` at each change of any shard | `offer` at each change of its workers |
 * | scrape | `collect` to each; `page` to who asked | `scrape` when someone asks it for `/metrics`; `collected` |
 * | end | `drain`, `close` | `drained`, `closed` |
 */
import type { HostPort } from "../../config/host_port.ts";
import type { FrontendSettings, StartSettings } from "../../config/schema/mod.ts";
import type { ErrorCode } from "../../errors.ts";
import type { KeySet } from "../../frontend/keys/key_ring.ts";
import type { CertificatePair } from "../../frontend/tls/certificate.ts";
import type { MetricsPage } from "../../observe/metrics.ts";
import type { Series } from "../../observe/metrics.ts";
import type { ModelCard } from "../../routing/worker.ts";

/** What each shard must know of all of them. */
export interface ProcessState {
  /** Models that every accepting shard has a worker for. */
  readonly models: readonly ModelCard[];
  /** Node addresses of the shards, in the form in which workers dial them. */
  readonly shards: readonly string[];
}

/** Part of a `KeyMemory`. */
export interface KeyMemoryShare {
  readonly shared: SharedArrayBuffer;
  readonly columns: number;
  readonly column: number;
}

/** How to start. */
export interface ShardStart {
  readonly kind: "start";
  readonly index: number;
  readonly settings: FrontendSettings | StartSettings;
  /** The shared port, or 0 for the first shard to choose one. */
  readonly http: HostPort;
  readonly nodeListen: HostPort;
  readonly advertiseHost: string | null;
  /** Memory of a `DescriptorTable`. */
  readonly descriptors: SharedArrayBuffer;
  /** Memory of the `LoadBoard` that all shards share. */
  readonly board: SharedArrayBuffer;
  readonly certificate: CertificatePair | null;
  readonly keys: KeySet;
  readonly keyMemory: KeyMemoryShare;
  readonly process: ProcessState;
  /** In place of one that died: it waits for the workers before it takes clients. */
  readonly isRestart: boolean;
}

/** From the supervisor. */
export type ShardCommand =
  | ShardStart
  | { readonly kind: "process"; readonly process: ProcessState }
  | { readonly kind: "certificate"; readonly certificate: CertificatePair }
  | { readonly kind: "keys"; readonly keys: KeySet }
  | { readonly kind: "collect"; readonly id: number }
  | { readonly kind: "page"; readonly id: number; readonly page: MetricsPage }
  | { readonly kind: "drain"; readonly timeoutMs: number }
  | { readonly kind: "close" };

/** From a shard. Nothing may be said to it before `loaded`: it would not be heard. */
export type ShardEvent =
  | { readonly kind: "loaded" }
  | { readonly kind: "listening"; readonly node: HostPort }
  | { readonly kind: "accepting"; readonly http: HostPort }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "offer"; readonly models: readonly ModelCard[]; readonly workers: number }
  | { readonly kind: "scrape"; readonly id: number }
  | { readonly kind: "collected"; readonly id: number; readonly series: Series[] }
  | { readonly kind: "drained" }
  | { readonly kind: "closed" };
