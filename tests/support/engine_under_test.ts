/** The openai engine in front of a scripted server. */
import { systemClock } from "../../src/clock.ts";
import type { EngineRequest } from "../../src/worker/engines/engine.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import type { OpenAiOptions } from "../../src/worker/engines/openai_options.ts";
import { chatRequest, RecordingOutput } from "./recording_output.ts";
import { type ScriptedConnection, ScriptedServer } from "./scripted_server.ts";

/** What a scripted server does on one connection. */
export type Script = (connection: ScriptedConnection) => Promise<void>;
type Options = Omit<OpenAiOptions, "clock" | "url">;

/** The event that says why a stream ended. */
export const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
/** The event that ends a stream. */
export const DONE = "data: [DONE]\n\n";

/** An engine in front of a scripted server; both are gone when `body` is through. */
export async function withEngine(
  script: Script,
  body: (engine: OpenAiEngine, server: ScriptedServer) => Promise<void>,
  options: Options = {},
): Promise<void> {
  await using server = new ScriptedServer(script);
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url, ...options });
  try {
    await body(engine, server);
  } finally {
    await engine.close();
  }
}

/** Runs a request and gives what comes back. */
export function startRequest(engine: OpenAiEngine, request: EngineRequest = chatRequest()): RecordingOutput {
  const output = new RecordingOutput();
  engine.run(request, output);
  return output;
}

/** Serves every request on a connection with the same answer. */
export function serving(answer: Script): Script {
  return async (connection) => {
    while (await connection.readRequest()) await answer(connection);
  };
}
