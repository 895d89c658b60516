/** From settings to the options of the parts. Settings bear the names of the options, so most go over unseen. */
import type { FrontendSettings, StartSettings, WorkerSettings } from "../config/schema/mod.ts";
import { DEFAULT_FRONTEND_OPTIONS, type FrontendOptions } from "../frontend/options.ts";
import { DEFAULT_MUX_OPTIONS, type FlushPolicy, type MuxOptions } from "../mux/options.ts";
import { byteTokenizer } from "../routing/prompt/tokenizer.ts";
import type { MockOptions } from "../worker/engines/mock.ts";
import type { SimulatedOptions } from "../worker/engines/mocker/simulated_engine.ts";
import type { OpenAiOptions } from "../worker/engines/openai_options.ts";

/** Settings of the streams, which every mode has. */
export type StreamSettings = Pick<
  FrontendSettings,
  keyof FrontendSettings & keyof StartSettings & keyof WorkerSettings
>;
/** Settings of the mock, as `start` and `worker` have them. */
export type MockSettings = Pick<StartSettings, keyof StartSettings & keyof WorkerSettings>;

/** Options of the frontend. */
export function toFrontendOptions(settings: FrontendSettings | StartSettings): Partial<FrontendOptions> {
  const { overloadStatus, ...rest } = shared(settings, DEFAULT_FRONTEND_OPTIONS);
  return { ...rest, overloadStatus: OVERLOAD_STATUS[overloadStatus] };
}

/** Options of the mux. `flush` and `streamSetup` belong to one side only; their absence means the default. */
export function toMuxOptions(
  settings: StreamSettings & { readonly flush?: "auto" | "step"; readonly streamSetup?: "ticket" | "attach" },
): Partial<MuxOptions> {
  const { asyncOpenAck, flush, ...rest } = shared(settings, DEFAULT_MUX_OPTIONS);
  return {
    ...rest,
    asyncOpenAck: asyncOpenAck === "on",
    flush: flushPolicy(flush ?? "auto", settings.batchMs),
  };
}

/** Options of the mock engine, but for its clock. */
export function toMockOptions(settings: MockSettings): Omit<MockOptions, "clock" | "onStep"> {
  return {
    ttftMs: settings.mockTtftMs,
    itlMs: settings.mockItlMs,
    speedupRatio: settings.speedupRatio,
    seed: settings.mockSeed,
    defaultTokens: settings.mockDefaultTokens,
    maxTokens: settings.mockMaxTokens,
    eventBytes: settings.mockEventBytes,
  };
}

/** Options of the simulated engine, but for its clock and where it reports its caches. */
export function toSimulatedOptions(
  settings: MockSettings,
): Omit<SimulatedOptions, "clock" | "onStep" | "cacheEvents"> {
  return {
    tokenizer: byteTokenizer,
    virtualWorkers: settings.virtualWorkers,
    kvBlocks: settings.mockKvBlocks,
    blockSize: settings.kvBlockSize,
    maxSequences: settings.mockMaxSequences,
    maxBatchedTokens: settings.mockMaxBatchedTokens,
    hasChunkedPrefill: settings.mockChunkedPrefill === "on",
    hasPrefixCaching: settings.mockPrefixCaching === "on",
    speedupRatio: settings.speedupRatio,
    limits: { defaultTokens: settings.mockDefaultTokens, maxTokens: settings.mockMaxTokens },
    seed: settings.mockSeed,
    eventBytes: settings.mockEventBytes,
  };
}

/** Options of the OpenAI-compatible engine, but for its clock and address. */
export function toOpenAiOptions(settings: WorkerSettings): Omit<OpenAiOptions, "clock" | "url"> {
  return {
    ...(settings.engineApiKey === null ? {} : { apiKey: settings.engineApiKey }),
    maxConnections: settings.engineMaxConnections,
    connectTimeoutMs: settings.engineConnectTimeoutMs,
    headersTimeoutMs: settings.engineHeadersTimeoutMs,
    idleTimeoutMs: settings.engineIdleTimeoutMs,
    wholeTimeoutMs: settings.wholeTimeoutMs,
    doneGraceMs: settings.engineDoneGraceMs,
    maxEventBytes: settings.engineMaxEventBytes,
    maxObservedBytes: settings.engineMaxObservedBytes,
    missingDone: settings.engineMissingDone,
  };
}

const OVERLOAD_STATUS = Object.freeze({ "429": 429, "503": 503, "529": 529 } as const);

function flushPolicy(flush: "auto" | "step", batchMs: number): FlushPolicy {
  if (flush === "step") return { kind: "manual" };
  if (batchMs === 0) return { kind: "auto", onAdmission: true, maxLingerMs: null };
  return { kind: "auto", onAdmission: false, maxLingerMs: batchMs };
}

function shared<S extends object, D extends object>(settings: S, defaults: D): Pick<S, keyof S & keyof D> {
  const names = new Set(Object.keys(defaults));
  return Object.fromEntries(Object.entries(settings).filter(([name]) => names.has(name))) as Pick<
    S,
    keyof S & keyof D
  >;
}
