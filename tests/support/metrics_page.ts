/** A page in Prometheus text form, as a test wants to read it. */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** See the head of this file. */
export class Page {
  readonly #samples: readonly Sample[];
  readonly #types = new Map<string, string>();

  constructor(text: string) {
    for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) this.#types.set(name!, type!);
    this.#samples = text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
      const match = LINE.exec(line);
      if (match === null) throw new Error(`Cannot read the sample "${line}"`);
      const [, name, labels, value] = match;
      const pairs = [...(labels ?? "").matchAll(LABEL)].map(([, key, text]) => [key!, text!]);
      return { name: name!, labels: Object.fromEntries(pairs), value: Number(value) };
    });
  }

  static async read(url: string): Promise<Page> {
    return new Page(await (await fetch(url)).text());
  }

  /** The one sample of exactly these labels. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const found = this.#samples.filter((sample) => sample.name === name && sameLabels(sample.labels, labels));
    if (found.length !== 1) {
      throw new Error(`Cannot read ${name} ${JSON.stringify(labels)}: there are ${found.length} of it`);
    }
    return found[0]!.value;
  }

  /** All samples of a name together. */
  sum(name: string): number {
    return this.#samples.filter((sample) => sample.name === name).reduce((sum, { value }) => sum + value, 0);
  }

  /** `type name{label,…}` of every series, sorted; a histogram is one, with its bounds: `first … last (how many)`. */
  shapes(): string[] {
    const shapes = new Map<string, Set<number>>();
    const seen = new Set<string>();
    for (const { name, labels } of this.#samples) {
      const base = name.replace(/_(?:bucket|sum|count)$/, "");
      const series = this.#types.get(base) === "histogram" ? base : name;
      const keys = Object.keys(labels).filter((key) => key !== "le").sort();
      const shape = `${this.#types.get(series)} ${series}{${keys.join(",")}}`.replace("{}", "");
      const bounds = shapes.get(shape) ?? new Set();
      shapes.set(shape, bounds);
      if (labels["le"] !== undefined) bounds.add(Number(labels["le"].replace("+Inf", "Infinity")));
      seen.add(series);
    }
    for (const [name, type] of this.#types) {
      if (!seen.has(name)) shapes.set(`${type} ${name} (empty)`, new Set());
    }
    return [...shapes].map(([shape, bounds]) => shape + inWords(bounds)).sort((a, b) => a < b ? -1 : 1);
  }
}

function inWords(bounds: ReadonlySet<number>): string {
  const finite = [...bounds].filter(Number.isFinite).sort((a, b) => a - b);
  return finite.length === 0 ? "" : ` ${finite[0]} … ${finite.at(-1)} (${finite.length})`;
}

function sameLabels(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}
