/**
 * Metrics: plain numbers that the parts count, read when someone scrapes.
 *
 * Nothing on a path knows this file. A part keeps a stats object; whoever builds the process adds a collector for each
 * series, with its labels bound once.
 *
 * ```ts
 * const stats = { batchesSent: 0, dropped: { stale_epoch: 0 } };
 * const collectors = new Collectors();
 * collectors.add("tokenplane_mux_batches_sent_total", "Batches sent.", "counter", () => stats.batchesSent);
 * collectors.add("tokenplane_mux_records_dropped_total", "Records dropped.", "counter", (emit) => {
 *   for (const [reason, count] of Object.entries(stats.dropped)) emit(count, { reason });
 * });
 * const { contentType, body } = await collectors.page();
 * ```
 */
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from "prom-client";
import { TokenplaneError } from "../errors.ts";

/** Label values of one sample; they come from closed sets. */
export type Labels = Readonly<Record<string, string>>;
/** Gives one sample. */
export type Emit = (value: number, labels?: Labels) => void;
/** Reads a series: returns its one value, or gives any number of samples to `emit`. */
export type Read = (emit: Emit) => number | void;

/** Counts by bucket, as the stats objects keep them. */
export interface HistogramCounts {
  /** Upper bounds, inclusive, rising. */
  readonly bounds: ArrayLike<number>;
  /** One count per bound and one beyond; not cumulative. */
  readonly counts: ArrayLike<number>;
  readonly sum: number;
  readonly count: number;
}
/** Gives one histogram. */
export type EmitHistogram = (histogram: HistogramCounts, labels?: Labels) => void;

/** How values of one series and the same labels from several isolates become one. */
export type Merge = "sum" | "max";
/** One series as plain data, which can go to another isolate. */
export type Series = MetricObjectWithValues<MetricValue<string>>;

/**
 * prom-client's series that are wrong on Deno (delay of the event loop) or look at every socket of the process while
 * no token moves: 8 ms with 2,000 clients.
 */
const UNFIT = /^tokenplane_(?:nodejs_(?:eventloop_lag|active_)|process_open_fds)/;
/** No isolate that is worth its name measures so rarely: prom-client's own figure is of no use on Deno. */
const NEVER_MS = 2 ** 31 - 1;

interface Sample {
  readonly value: number;
  readonly labels: Record<string, string | number>;
  readonly metricName?: string;
}

/** The series of one process, or of one isolate of it. */
export class Collectors {
  readonly #registry = new Registry();

  /** @param options `process`: also the runtime's own series (CPU, memory); they run timers */
  constructor(options: { readonly process?: boolean } = {}) {
    if (options.process !== true) return;
    const register = this.#registry;
    collectDefaultMetrics({ register, prefix: "tokenplane_", eventLoopMonitoringPrecision: NEVER_MS });
    for (const { name } of register.getMetricsAsArray()) {
      if (UNFIT.test(name)) register.removeSingleMetric(name);
    }
    this.add("tokenplane_process_open_fds", "Open file descriptors.", "gauge", (emit) => {
      const count = openDescriptors();
      if (count > 0) emit(count);
    });
  }

  /** Adds a counter or a gauge. Throws `internal` when the name is taken. */
  add(name: string, help: string, type: "counter" | "gauge", read: Read, merge: Merge = "sum"): void {
    this.#register(name, help, type, merge, () => {
      const samples: Sample[] = [];
      const value = read((value, labels) => samples.push({ value, labels: { ...labels } }));
      if (typeof value === "number") samples.push({ value, labels: {} });
      return samples;
    });
  }

  /** Adds a histogram. Throws `internal` when the name is taken. */
  addHistogram(name: string, help: string, read: (emit: EmitHistogram) => HistogramCounts | void): void {
    this.#register(name, help, "histogram", "sum", () => {
      const samples: Sample[] = [];
      const emit: EmitHistogram = (histogram, labels) => expand(samples, name, histogram, labels);
      const histogram = read(emit);
      if (histogram !== undefined) emit(histogram);
      return samples;
    });
  }

  /** All series, in Prometheus text form. */
  async page(): Promise<{ contentType: string; body: string }> {
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  /** All series as data, for {@linkcode mergedPage}. */
  series(): Promise<Series[]> {
    return this.#registry.getMetricsAsJSON();
  }

  #register(name: string, help: string, type: string, merge: Merge, values: () => Sample[]): void {
    if (this.#registry.getSingleMetric(name) !== undefined) {
      throw new TokenplaneError("internal", `Cannot add the metric "${name}": the name is taken`);
    }
    const get = () => Promise.resolve({ name, help, type, values: values(), aggregator: merge });
    // What the registry asks of a metric is its name and `get`; its own classes keep values, which ours must not.
    this.#registry.registerMetric({ name, help, get, reset: () => {} } as unknown as Metric);
  }
}

/** What `/metrics` answers. */
export interface MetricsPage {
  readonly contentType: string;
  readonly body: string;
}

/** One page of the series of several isolates, in Prometheus text form. */
export async function mergedPage(
  isolates: readonly Series[][],
): Promise<{ contentType: string; body: string }> {
  const registry = AggregatorRegistry.aggregate([...isolates]);
  return { contentType: registry.contentType, body: await registry.metrics() };
}

function expand(samples: Sample[], name: string, histogram: HistogramCounts, labels: Labels = {}): void {
  let total = 0;
  for (let i = 0; i < histogram.bounds.length; i++) {
    total += histogram.counts[i]!;
    samples.push({
      value: total,
      labels: { ...labels, le: histogram.bounds[i]! },
      metricName: `${name}_bucket`,
    });
  }
  samples.push({ value: histogram.count, labels: { ...labels, le: "+Inf" }, metricName: `${name}_bucket` });
  samples.push({ value: histogram.sum, labels: { ...labels }, metricName: `${name}_sum` });
  samples.push({ value: histogram.count, labels: { ...labels }, metricName: `${name}_count` });
}

/** What the kernel says of the directory's size: the number of its entries, since Linux 6.2. 0: unknown. */
function openDescriptors(): number {
  try {
    return Deno.statSync("/proc/self/fd").size;
  } catch {
    return 0;
  }
}
