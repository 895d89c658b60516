/** Runs `peer_main.ts`: a transport in a process of its own, for tests and benchmarks between processes. */

/** What can be asked of a peer. */
export type PeerCommand =
  | { do: "register"; peer: string; entry: string }
  | { do: "flood"; to: string; count: number; bytes: number; verify?: boolean; lanes?: number }
  | { do: "await"; frames: number }
  | { do: "stall"; ms: number }
  | { do: "sleep"; ms: number }
  | { do: "health"; peer: string; timeoutMs: number }
  | { do: "report" }
  | { do: "stop"; deadlineMs: number };

/** What a peer answers. */
export interface PeerReport {
  admitted?: number;
  failed?: number;
  health?: string;
  sends?: Record<string, number>;
  outstanding?: number;
  buffersTaken?: number;
  /** Mask of caught signals, as `/proc/self/status` writes it. */
  signals?: string;
  /** Duration of the command. */
  ms?: number;
  /** CPU that the process used meanwhile. */
  cpuMs?: number;
  /** Frames received so far. */
  frames?: number;
  /** Of these, with other content or in another order than sent. */
  wrong?: number;
  lanesLost?: string[];
}

/** How a peer is started. */
export interface PeerOptions {
  readonly transport: "tcp" | "ucx";
  /** Settings of the transport. */
  readonly options?: object;
  /** Checks order and content of what comes in. */
  readonly verify?: boolean;
  readonly env?: Record<string, string>;
  /** A core to run on, as `taskset -c` takes it. */
  readonly core?: string;
}

const START_MS = 30_000;

/** One peer. Ends with {@linkcode PeerProcess.end} or `await using`. */
export class PeerProcess implements AsyncDisposable {
  /** Its address entry, base64. */
  readonly entry: string;
  readonly #child: Deno.ChildProcess;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  readonly #waiting = new Map<number, PromiseWithResolvers<PeerReport>>();
  readonly #done: Promise<void>;
  #nextTag = 1;

  private constructor(child: Deno.ChildProcess, lines: AsyncIterator<string>, entry: string) {
    this.entry = entry;
    this.#child = child;
    this.#stdin = child.stdin.getWriter();
    this.#done = this.#read(lines);
  }

  /** Starts a peer. Throws with its one line when its transport cannot start. */
  static async start(options: PeerOptions): Promise<PeerProcess> {
    const program = new URL("./peer_main.ts", import.meta.url).pathname;
    const argument = JSON.stringify({
      transport: options.transport,
      verify: options.verify ?? false,
      options: options.options ?? {},
    });
    const args = ["run", "-A", "-q", program, argument];
    const command = options.core === undefined
      ? [Deno.execPath(), ...args]
      : ["taskset", "-c", options.core, Deno.execPath(), ...args];
    const child = new Deno.Command(command[0]!, {
      args: command.slice(1),
      env: options.env ?? {},
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const lines = linesOf(child.stdout);
    const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
    const first = await lines.next();
    clearTimeout(timer);
    const said = first.done
      ? { error: "it ended" }
      : JSON.parse(first.value) as { entry?: string; error?: string };
    if (said.entry === undefined) {
      await child.stdin.close().catch(() => {});
      for await (const _ of { [Symbol.asyncIterator]: () => lines });
      await child.status;
      throw new Error(said.error ?? "Cannot start peer");
    }
    return new PeerProcess(child, lines, said.entry);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Runs one command; rejects when the process ends before it answers. */
  async ask(command: PeerCommand): Promise<PeerReport> {
    const tag = this.#nextTag++;
    const answer = Promise.withResolvers<PeerReport>();
    this.#waiting.set(tag, answer);
    await this.#stdin.write(new TextEncoder().encode(`${JSON.stringify({ tag, ...command })}\n`)).catch(
      () => {},
    );
    return await answer.promise;
  }

  /** Ends it at once, as the kernel does to a process out of memory. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#done;
    await this.#stdin.abort().catch(() => {});
  }

  /** Stops or continues it. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  /** Shuts its transport down and ends it. */
  async end(): Promise<void> {
    try {
      await this.ask({ do: "stop", deadlineMs: 1_000 });
      await this.#stdin.close();
    } catch {
      // It has ended before.
    }
    await this.#child.status;
    await this.#done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 10_000);
    await this.end();
    clearTimeout(timer);
  }

  async #read(lines: AsyncIterator<string>): Promise<void> {
    for (let line = await lines.next(); !line.done; line = await lines.next()) {
      const { tag, ...report } = JSON.parse(line.value) as PeerReport & { tag: number };
      this.#waiting.get(tag)?.resolve(report);
      this.#waiting.delete(tag);
    }
    for (const answer of this.#waiting.values()) answer.reject(new Error("The peer process ended"));
    this.#waiting.clear();
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** Tells two peers of each other, as "a" and "b". */
export async function introduce(a: PeerProcess, b: PeerProcess): Promise<void> {
  await a.ask({ do: "register", peer: "b", entry: b.entry });
  await b.ask({ do: "register", peer: "a", entry: a.entry });
}
