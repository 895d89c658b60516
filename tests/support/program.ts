/** The program as a child process, for tests of what only a whole process shows: exit codes, signals, stderr. */

/** How to run the program: from source, or as a compiled file. */
export const FROM_SOURCE: readonly string[] = Object.freeze([
  Deno.execPath(),
  "run",
  "--allow-all",
  new URL("../../main.ts", import.meta.url).pathname,
]);

/** What a finished process left. */
export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program to its end. */
export async function runProgram(
  args: readonly string[],
  env: Record<string, string> = {},
  command = FROM_SOURCE,
): Promise<Finished> {
  await using program = new Program(args, env, command);
  return await program.finished();
}

/** A running program. Disposing of it kills it, if it is still there, and waits. */
export class Program implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<unknown>;
  #stdout = "";
  #stderr = "";
  #isOver = false;
  #wakeReader: () => void = () => {};

  constructor(args: readonly string[], env: Record<string, string> = {}, command = FROM_SOURCE) {
    const [executable, ...first] = command;
    this.#child = new Deno.Command(executable!, {
      args: [...first, ...args],
      env: { NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#reading = Promise.all([
      this.#read(this.#child.stdout, (text) => this.#stdout += text),
      this.#read(this.#child.stderr, (text) => this.#stderr += text),
    ]).finally(() => {
      this.#isOver = true;
      this.#wakeReader();
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** Waits until stdout matches; throws with all output when the program ends before. */
  async ready(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#stdout);
      if (match !== null) return match;
      if (this.#isOver) {
        throw new Error(`The program ended without ${pattern}:\n${this.#stdout}${this.#stderr}`);
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wakeReader = resolve;
      await promise;
    }
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  async finished(): Promise<Finished> {
    const { code } = await this.#child.status;
    await this.#reading;
    return { code, stdout: this.#stdout, stderr: this.#stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
    await this.finished();
  }

  async #read(stream: ReadableStream<Uint8Array>, add: (text: string) => void): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      add(text);
      this.#wakeReader();
    }
  }
}

/** A streaming chat request, as a client sends it. */
export function chat(
  url: string,
  fields: Record<string, unknown>,
  init: RequestInit = {},
): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "mock",
      stream: true,
      messages: [{ role: "user", content: "Hi" }],
      ...fields,
    }),
    ...init,
  });
}

/** The events of a finished stream, without `data: `. */
export function eventsOf(text: string): string[] {
  return text.split("\n\n").filter((event) => event !== "").map((event) => event.replace(/^data: /, ""));
}
