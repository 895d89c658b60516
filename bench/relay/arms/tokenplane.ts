/** tokenplane: the frontend is the relay, a worker with the mock engine makes the tokens. */

import { answersOk, ManagedProcess, waitUntilReady } from "../../support/managed_process.ts";
import { freePort } from "../../support/tools.ts";
import { NO_OPENSSL } from "../../support/native.ts";
import type { Arm } from "./arm.ts";
import { CERT_FILE, KEY_FILE, writeCertificate } from "./tls_files.ts";

/** One isolate, so that arms compare per core; a build without shards has only one and does not know the flag. */
async function oneShard(tokenplane: readonly string[]): Promise<string[]> {
  const [program = "", ...args] = [...tokenplane, "frontend", "--help"];
  const { stdout } = await new Deno.Command(program, { args, stdin: "null", stderr: "null" }).output();
  return new TextDecoder().decode(stdout).includes("--shards") ? ["--shards", "1"] : [];
}

/** An arm with further flags for frontend and worker. @param isTls whether it serves clients by TLS */
export function tokenplaneArm(
  name: string,
  frontendFlags: readonly string[],
  workerFlags: readonly string[] = [],
  isTls = false,
): Arm {
  return {
    name,
    unavailable: ({ native }) =>
      Promise.resolve(isTls && (native?.tlsClient ?? null) === null ? NO_OPENSSL : null),
    async start(context) {
      const port = freePort();
      const cert = isTls ? await writeCertificate(context.scratch) : null;
      const files = [
        "--tls-cert",
        `${context.scratch}/${CERT_FILE}`,
        "--tls-key",
        `${context.scratch}/${KEY_FILE}`,
      ];
      const node = `127.0.0.1:${freePort()}`;
      const openFiles = context.openFiles === undefined ? {} : { openFiles: context.openFiles };
      const frontend = await ManagedProcess.spawn("frontend", [
        ...context.tokenplane,
        "frontend",
        ...["--listen", `127.0.0.1:${port}`, "--node-listen", node],
        ...await oneShard(context.tokenplane),
        ...frontendFlags,
        ...(isTls ? files : []),
        ...context.frontendFlags ?? [],
      ], { cores: context.relayCores, ...openFiles });
      const worker = await ManagedProcess.spawn("worker", [
        ...context.tokenplane,
        "worker",
        ...["--frontend", node, "--node-listen", "127.0.0.1:0", "--model", "mock", "--engine", "mock"],
        ...["--mock-ttft-ms", String(context.ttftMs), "--mock-itl-ms", String(context.stepMs)],
        ...["--mock-event-bytes", String(context.eventBytes)],
        ...workerFlags,
        ...context.workerFlags ?? [],
      ], { cores: context.otherCores, ...openFiles });
      using client = Deno.createHttpClient({ caCerts: cert === null ? [] : [cert] });
      try {
        const url = `${isTls ? "https" : "http"}://127.0.0.1:${port}/health`;
        await waitUntilReady([frontend, worker], () => answersOk(url, client));
      } catch (error) {
        await frontend.stop();
        await worker.stop();
        throw error;
      }
      const processes = { port, relay: [frontend], producers: [worker] };
      return isTls ? { ...processes, isTls } : { ...processes, metricsPort: port };
    },
  };
}
