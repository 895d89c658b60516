/** Runs one mode until it is told to stop. */
import { formatHostPort, type HostPort } from "../config/host_port.ts";
import type { Command } from "../config/resolve.ts";
import { createLogger } from "../observe/log.ts";
import type { Running } from "./running.ts";
import { serveFrontend } from "./serve.ts";
import { firstStopSignal } from "./signals.ts";
import { startAllInOne } from "./start.ts";
import { startWorker } from "./worker.ts";

/** A command that starts something. */
export type ModeCommand = Exclude<Command, { kind: "help" | "version" }>;

/** Starts, says on stdout that it is ready, waits for a stop signal, drains, closes. */
export async function runMode(command: ModeCommand): Promise<void> {
  const { logLevel, logFormat, drainTimeout } = command.settings;
  const log = createLogger({ level: logLevel, format: logFormat });
  // Heard from the first moment on: a signal while starting must not be lost, nor kill without clean-up.
  const stopped = firstStopSignal();
  const { running, ready } = await start(command, log);
  say(ready);
  const signal = await stopped;
  log.info("draining", { signal, timeout_s: drainTimeout });
  await running.drain(drainTimeout * 1_000);
  await running.close();
  log.info("stopped", { signal });
}

async function start(
  command: ModeCommand,
  log: ReturnType<typeof createLogger>,
): Promise<{ running: Running; ready: string }> {
  switch (command.kind) {
    case "start": {
      const { settings } = command;
      const running = await startAllInOne(settings, log);
      return {
        running,
        ready:
          `tokenplane serves on ${schemeOf(settings)}://${
            formatHostPort(running.http)
          } with ${settings.workers} mock ` +
          `workers until Ctrl-C; try:\n${
            curlLine(running.http, settings.models[0] ?? "mock", {
              needsKey: settings.apiKeys.length > 0 || settings.apiKeyFile !== null,
              isTls: settings.tlsCert !== null,
            })
          }`,
      };
    }
    case "frontend": {
      const { settings } = command;
      const running = await serveFrontend(settings, settings, log);
      return {
        running,
        ready: `tokenplane frontend serves on ${schemeOf(settings)}://${
          formatHostPort(running.http)
        }, workers join at ${formatHostPort(running.node)}`,
      };
    }
    case "worker": {
      const { settings } = command;
      const running = await startWorker(settings, log);
      return {
        running,
        ready: `tokenplane worker listens on ${formatHostPort(running.node)}, serves ${
          settings.models.join(", ")
        } to ${settings.frontends.map(formatHostPort).join(", ")}${
          running.status === null ? "" : `, shows metrics at http://${formatHostPort(running.status)}`
        }`,
      };
    }
  }
}

/** A line to paste into a POSIX shell. */
export function curlLine(
  http: HostPort,
  model: string,
  { needsKey = false, isTls = false }: { readonly needsKey?: boolean; readonly isTls?: boolean } = {},
): string {
  const host = http.host === "0.0.0.0" ? "127.0.0.1" : http.host === "::" ? "::1" : http.host;
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] });
  const key = needsKey ? ' -H "authorization: Bearer $TOKENPLANE_API_KEY"' : "";
  // The name in the certificate is hardly that of loopback.
  return `curl -N${isTls ? "k https" : " http"}://${
    formatHostPort({ host, port: http.port })
  }/v1/chat/completions` +
    ` -H 'content-type: application/json'${key} -d '${body.replaceAll("'", "'\\''")}'`;
}

function schemeOf({ tlsCert }: { readonly tlsCert: string | null }): string {
  return tlsCert === null ? "http" : "https";
}

function say(text: string): void {
  try {
    Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  } catch {
    // Nobody reads it; the service is what matters.
  }
}
