/** Keys, their limits and the certificate of a frontend with two shards: what holds for the process as a whole. */
import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { once } from "node:events";
import tls from "node:tls";
import { resolveSettings } from "../../src/config/resolve.ts";
import { Credentials } from "../../src/modes/credentials.ts";
import { Supervisor } from "../../src/modes/shards/supervisor.ts";
import { startWorker } from "../../src/modes/worker.ts";
import { createLogger, silentLogger } from "../../src/observe/log.ts";
import { selfSigned } from "../support/certificates.ts";
import { Page } from "../support/metrics_page.ts";
import { until } from "../support/until.ts";

const LIMIT_MS = 60_000;
const PROMPT = [{ role: "user", content: "Hi" }];

class World {
  readonly folder: string;
  readonly supervisor: Supervisor;
  readonly log: readonly string[];
  readonly #cert: string;

  constructor(folder: string, supervisor: Supervisor, log: readonly string[], cert: string) {
    this.folder = folder;
    this.supervisor = supervisor;
    this.log = log;
    this.#cert = cert;
  }

  get port(): number {
    return this.supervisor.http.port;
  }

  /** Asks on a connection of its own, which the kernel gives to either shard. */
  async ask(
    key: string,
    fields: Record<string, unknown> = {},
  ): Promise<{ response: Response; close: () => void }> {
    const client = Deno.createHttpClient({ caCerts: [this.#cert] });
    const response = await fetch(`https://127.0.0.1:${this.port}/v1/chat/completions`, {
      client,
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "mock", stream: true, max_tokens: 1, messages: PROMPT, ...fields }),
    });
    return { response, close: () => client.close() };
  }

  /** The status of a request that is read to its end. */
  async status(key: string): Promise<number> {
    const { response, close } = await this.ask(key);
    await response.text();
    close();
    return response.status;
  }

  async page(): Promise<Page> {
    using client = Deno.createHttpClient({ caCerts: [this.#cert] });
    return new Page(await (await fetch(`https://127.0.0.1:${this.port}/metrics`, { client })).text());
  }

  /** The names in the certificates that new connections get. */
  async names(count: number): Promise<Set<string>> {
    const names = new Set<string>();
    for (let i = 0; i < count; i++) {
      const socket = tls.connect({ port: this.port, host: "127.0.0.1", rejectUnauthorized: false });
      await once(socket, "secureConnect");
      names.add(socket.getPeerCertificate().subject.CN as string);
      socket.destroy();
    }
    return names;
  }
}

async function withShards(keys: string, test: (world: World) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const pair = await selfSigned({ name: "first" });
  const path = (name: string) => `${folder}/${name}`;
  await Deno.writeTextFile(path("tls.crt"), pair.cert);
  await Deno.writeTextFile(path("tls.key"), pair.key);
  await Deno.writeTextFile(path("keys"), keys);
  const settings = resolveSettings("frontend", [
    ...["--shards", "2", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--log-level", "silent"],
    ...["--tls-cert", path("tls.crt"), "--tls-key", path("tls.key"), "--api-key-file", path("keys")],
  ], {});
  const log: string[] = [];
  const logger = createLogger({ write: (line) => log.push(line) });
  const supervisor = await Supervisor.start(
    settings,
    settings,
    logger,
    await Credentials.load(settings, logger),
  );
  const worker = await startWorker(
    resolveSettings("worker", [
      ...["--frontend", `127.0.0.1:${supervisor.node.port}`, "--mock-ttft-ms", "1", "--mock-itl-ms", "5"],
    ], {}),
    silentLogger,
  );
  try {
    await until(() => worker.joined() === 2, "the worker to join both", LIMIT_MS);
    await deadline(test(new World(folder, supervisor, log, pair.cert)), LIMIT_MS);
  } finally {
    await supervisor.close();
    await worker.close();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("Shards hold a key to one rate and one number of requests at a time together, and forget those of a dead one", () =>
  withShards("sk-rate rpm=20 # rate\nsk-many concurrent=6 # many\n", async (world) => {
    const begunMs = performance.now();
    const statuses = await Promise.all(Array.from({ length: 40 }, () => world.status("sk-rate")));
    // One comes back each 3 s.
    const most = 20 + Math.ceil((performance.now() - begunMs) / 3_000);
    const served = statuses.filter((status) => status === 200).length;
    assert(served >= 20 && served <= most, `${served} were served`);
    assertEquals(statuses.filter((status) => status === 429).length, 40 - served);
    const page = await world.page();
    assertEquals(page.value("tokenplane_frontend_key_requests_total", { key: "rate" }), 40);
    assertEquals(
      page.value("tokenplane_frontend_key_limited_total", { key: "rate", limit: "rate" }),
      40 - served,
    );
    assert(page.value("tokenplane_tls_certificate_expiry_timestamp_seconds") > Date.now() / 1_000);

    const streams = [];
    while (streams.length < 6) {
      const one = await world.ask("sk-many", { max_tokens: 100_000 });
      assertEquals(one.response.status, 200);
      streams.push(one);
    }
    assertEquals(await world.status("sk-many"), 429);
    const running = async () =>
      (await world.page()).value("tokenplane_frontend_key_inflight_requests", { key: "many" });
    assertEquals(await running(), 6);
    // Both are cut off, whatever the kernel gave to which; with them the clients' streams.
    world.supervisor.terminate(0);
    world.supervisor.terminate(1);
    await until(
      () => world.log.filter((line) => line.includes("shard_restarted")).length === 2,
      "both to be back",
      LIMIT_MS,
    );
    for (const { response, close } of streams) {
      await response.body!.cancel().catch(() => {});
      close();
    }
    const again = [];
    while (again.length < 6) {
      const one = await world.ask("sk-many", { max_tokens: 100_000 });
      if (one.response.status === 200) again.push(one);
      else {
        await one.response.body?.cancel();
        one.close();
        await delay(50);
      }
    }
    assertEquals([await world.status("sk-many"), await running()], [429, 6]);
    for (const { response, close } of again) {
      await response.body!.cancel();
      close();
    }
    // Ended by their clients: free at once.
    while (await running() > 0) await delay(10);
    assertEquals(await world.status("sk-many"), 200);
  }));

Deno.test("Shards take over a new certificate and new keys, and one that starts later has them too", () =>
  withShards("sk-old\n", async (world) => {
    assertEquals(await world.names(8), new Set(["first"]));
    assertEquals(await world.status("sk-old"), 200);
    const pair = await selfSigned({ name: "second" });
    await Deno.writeTextFile(`${world.folder}/tls.crt`, pair.cert);
    await Deno.writeTextFile(`${world.folder}/tls.key`, pair.key);
    await Deno.writeTextFile(`${world.folder}/keys`, "sk-new\n");
    const isTold = (event: string) => world.log.some((line) => line.includes(event));
    await until(
      () => isTold("tls_certificate_reloaded") && isTold("api_keys_reloaded"),
      "both to be read",
      LIMIT_MS,
    );
    while ((await world.names(8)).has("first")) await delay(20);
    world.supervisor.terminate(1);
    await until(() => isTold("shard_restarted"), "the shard to be back", LIMIT_MS);
    assertEquals(await world.names(12), new Set(["second"]));
    const later = new World(world.folder, world.supervisor, world.log, pair.cert);
    for (let i = 0; i < 8; i++) {
      assertEquals([await later.status("sk-old"), await later.status("sk-new")], [401, 200]);
    }
  }));
