/** Histograms and counts of operations as plain numbers: what stats objects are made of. */

/** Bucket bounds `first`, `2 first`, `4 first` … */
export function doublingBounds(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, k) => first * 2 ** k);
}

/** Bounds of handler, lane and anchor durations, in seconds (wire: buckets A). */
export const DURATION_BOUNDS: readonly number[] = Object.freeze(doublingBounds(0.0005, 16));

/** A histogram of plain numbers; bucket bounds are upper and inclusive. */
export class Histogram {
  readonly bounds: Float64Array;
  /** One count per bound and one for what is beyond the last; not cumulative. */
  readonly counts: Float64Array;
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = Float64Array.from(bounds);
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds } = this;
    let index = 0;
    while (index < bounds.length && value > bounds[index]!) index++;
    this.counts[index]!++;
    this.sum += value;
    this.count++;
  }
}

/** How one kind of operation went: a duration, in seconds, for each time. */
export class OperationStats {
  readonly success: Histogram;
  readonly error: Histogram;

  constructor(bounds: readonly number[] = DURATION_BOUNDS) {
    this.success = new Histogram(bounds);
    this.error = new Histogram(bounds);
  }

  /** Counts one; `ms` is what it took, 0 for what is done within the call. */
  observe(isSuccess: boolean, ms = 0): void {
    (isSuccess ? this.success : this.error).observe(ms / 1_000);
  }
}
