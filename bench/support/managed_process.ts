/** A child process with a place to run, a bounded record of what it said, and a bounded end. */

import { delay } from "@std/async";
import { findTool } from "./tools.ts";

/** How a process is started. */
export interface SpawnOptions {
  /** Cores it may use, as `taskset -c` writes them ("0", "1,3"). Not pinned when null or without `taskset`. */
  readonly cores?: string | null;
  /** Open files it may have; raised with `prlimit` where the machine allows it. */
  readonly openFiles?: number;
  /** Called with every line of its stdout. */
  readonly onLine?: (line: string) => void;
}

const TAIL_CHARACTERS = 8_192;
const STOP_MS = 3_000;
/** Long enough for `finally` blocks to remove their files once the processes are gone. */
const CLEAN_UP_MS = 200;
const running = new Set<ManagedProcess>();
let stopping = false;

/** A process we started. Ends with {@linkcode ManagedProcess.stop}, by its own pid. */
export class ManagedProcess {
  readonly name: string;
  readonly pid: number;
  readonly #child: Deno.ChildProcess;
  readonly #pumps: Promise<unknown>;
  readonly #onLine: ((line: string) => void) | undefined;
  #tail = "";
  #ended = false;

  private constructor(name: string, child: Deno.ChildProcess, onLine?: (line: string) => void) {
    this.name = name;
    this.pid = child.pid;
    this.#child = child;
    this.#onLine = onLine;
    this.#pumps = Promise.all([this.#pump(child.stdout, true), this.#pump(child.stderr, false)]);
    running.add(this);
    child.status.then(() => {
      this.#ended = true;
      running.delete(this);
    });
  }

  /** Starts `command`. The pid is the command's own: the wrappers replace themselves by it. */
  static async spawn(
    name: string,
    command: readonly string[],
    options: SpawnOptions = {},
  ): Promise<ManagedProcess> {
    const argv = [...command];
    const taskset = options.cores ? await findTool("taskset") : null;
    if (taskset !== null && options.cores) argv.unshift(taskset, "-c", options.cores);
    const limit = options.openFiles === undefined ? null : raisedOpenFiles(options.openFiles);
    const prlimit = limit === null ? null : await findTool("prlimit");
    if (prlimit !== null) argv.unshift(prlimit, `--nofile=${limit}`);
    const [program, ...args] = argv;
    if (program === undefined) throw new Error(`Cannot start "${name}": the command is empty`);
    if (stopping) throw new Error(`Cannot start "${name}": the benchmark was told to stop`);
    const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" })
      .spawn();
    return new ManagedProcess(name, child, options.onLine);
  }

  /** Whether it has exited. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The last of what it wrote, both outputs. */
  get tail(): string {
    return this.#tail.trim();
  }

  /** Waits until it exits, at most `ms` milliseconds, then ends it. The exit code, null for a signal. */
  async exited(ms: number): Promise<number | null> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<null>((resolve) => timer = setTimeout(() => resolve(null), ms));
    const status = await Promise.race([this.#child.status, late]);
    clearTimeout(timer);
    if (status === null) {
      await this.stop();
      return null;
    }
    await this.#pumps;
    return status.signal === null ? status.code : null;
  }

  /** Asks it to end, makes it end after three seconds, and waits for that. */
  async stop(): Promise<void> {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (this.#ended) break;
      try {
        this.#child.kill(signal);
      } catch {
        break; // it ended in between
      }
      for (let waited = 0; !this.#ended && waited < STOP_MS; waited += 20) await delay(20);
    }
    await this.#child.status;
    await this.#pumps;
  }

  async #pump(stream: ReadableStream<Uint8Array>, isStdout: boolean): Promise<void> {
    let rest = "";
    for await (
      const text of stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
    ) {
      this.#tail = (this.#tail + text).slice(-TAIL_CHARACTERS);
      if (!isStdout || this.#onLine === undefined) continue;
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#onLine(line);
    }
  }
}

/** The limits to set, as `prlimit` writes them; null when the inherited ones do. Only root may pass the hard one. */
function raisedOpenFiles(wanted: number): string | null {
  const limits = /^Max open files\s+(\d+)\s+(\d+)/m.exec(Deno.readTextFileSync("/proc/self/limits"));
  const [soft, hard] = [Number(limits?.[1] ?? Infinity), Number(limits?.[2] ?? Infinity)];
  if (soft >= wanted) return null;
  if (hard >= wanted) return `${wanted}:${hard}`;
  return Deno.uid() === 0 ? `${wanted}:${wanted}` : `${hard}:${hard}`;
}

/** On Ctrl-C or SIGTERM: ends every process that was started here, then this program, with an exit code other than 0. */
export function stopChildrenOnSignal(): void {
  const stop = async () => {
    stopping = true;
    await Promise.all([...running].map((process) => process.stop()));
    await delay(CLEAN_UP_MS);
    Deno.exit(130);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, stop);
}

/** Polls `ready` until it answers true. Throws when a process ends before that, or after `ms` milliseconds. */
export async function waitUntilReady(
  processes: readonly ManagedProcess[],
  ready: () => Promise<boolean>,
  ms = 20_000,
): Promise<void> {
  for (const start = performance.now(); performance.now() - start < ms; await delay(50)) {
    const dead = processes.find((process) => process.ended);
    if (dead !== undefined) throw new Error(`Process "${dead.name}" ended while it started: ${dead.tail}`);
    if (await ready()) return;
  }
  const said = processes.map((process) => `${process.name}: ${process.tail}`).join("\n");
  throw new Error(`Cannot start within ${ms} ms: ${said}`);
}

/** Whether something accepts connections on a loopback port. */
export async function acceptsConnections(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}

/** Whether a GET answers 200. */
export async function answersOk(url: string, client?: Deno.HttpClient): Promise<boolean> {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(1_000),
      ...(client === undefined ? {} : { client }),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
