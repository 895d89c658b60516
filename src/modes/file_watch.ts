/**
 * Notices that files have changed by reading them: a rename over a file, a symbolic link that leads elsewhere (as
 * orchestrators mount secrets) and a write in place look alike then, and nothing is missed where events are, as on network
 * file systems.
 *
 * A change is told when two readings in a row were the same: between them nobody was writing, and of a certificate and its
 * key both have been replaced.
 */
import type { Clock, TimerHandle } from "../clock.ts";
import { createHash } from "node:crypto";

/** Time between two readings, ms. */
const INTERVAL_MS = 1_000;
/** A larger file is none of those that are read here. */
const MAX_FILE_BYTES = 1_048_576;

/** What a file holds, or why it cannot be read. */
export type FileContent = { readonly text: string } | { readonly fault: string };
/** Reads one file. */
export type ReadContent = (path: string) => Promise<FileContent>;

/** Takes what has changed; nothing is read again until it has. Must not reject. */
export type OnChange = (contents: readonly FileContent[]) => Promise<void> | void;

/** Reads a text file of at most 1 MiB, whatever it is that the path leads to. Never rejects. */
export async function readContent(path: string): Promise<FileContent> {
  try {
    // To open a pipe is to wait for its writer.
    if (!(await Deno.stat(path)).isFile) return { fault: "it is not a file" };
    using file = await Deno.open(path);
    const buffer = new Uint8Array(MAX_FILE_BYTES + 1);
    let length = 0;
    for (;;) {
      const count = await file.read(buffer.subarray(length));
      if (count === null) break;
      length += count;
      if (length > MAX_FILE_BYTES) return { fault: `it is larger than ${MAX_FILE_BYTES} bytes` };
    }
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(buffer.subarray(0, length)) };
  } catch (caught) {
    if (caught instanceof Deno.errors.NotFound) return { fault: "there is no such file" };
    if (caught instanceof Deno.errors.PermissionDenied) return { fault: "it may not be read" };
    if (caught instanceof TypeError) return { fault: "it is not UTF-8 text" };
    return { fault: caught instanceof Error ? caught.message : String(caught) };
  }
}

/** Watches some files that belong together. */
export class FileWatch {
  readonly #paths: readonly string[];
  readonly #clock: Clock;
  readonly #read: ReadContent;
  readonly #onChange: OnChange;
  /** Digests: what is in the files is not kept. */
  #told: string;
  #seen: string;
  #timer: TimerHandle | null = null;
  #isClosed = false;

  /** @param contents those that are known; the watch begins with them */
  constructor(
    paths: readonly string[],
    contents: readonly FileContent[],
    clock: Clock,
    onChange: OnChange,
    read: ReadContent = readContent,
  ) {
    this.#paths = paths;
    this.#clock = clock;
    this.#read = read;
    this.#onChange = onChange;
    this.#told = this.#seen = digestOf(contents);
    this.#arm();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  #arm(): void {
    if (this.#isClosed) return;
    this.#timer = this.#clock.setTimer(() => void this.#look(), INTERVAL_MS);
  }

  async #look(): Promise<void> {
    const contents = await Promise.all(this.#paths.map(this.#read));
    if (this.#isClosed) return;
    const digest = digestOf(contents);
    if (digest === this.#seen && digest !== this.#told) {
      this.#told = digest;
      await this.#onChange(contents);
    }
    this.#seen = digest;
    this.#arm();
  }
}

function digestOf(contents: readonly FileContent[]): string {
  return createHash("sha256").update(JSON.stringify(contents)).digest("hex");
}
