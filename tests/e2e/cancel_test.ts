/**
 * BerriAI/litellm#30244, over the whole path: the client leaves, in each phase and with streaming on and off, and the
 * engine's server sees its connection close within 200 ms. A thousand of them leave nothing behind.
 */
import { assert, assertEquals } from "@std/assert";
import { RawClient } from "../support/frontend_harness.ts";
import { LiveSystem, openSockets } from "../support/live_system.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";
import { until } from "../support/until.ts";

const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n';
const STOP = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const DONE = "data: [DONE]\n\n";
/** What the issue asks for. Tried up to three times: a busy machine may stop us for longer than we take. */
const LIMIT_MS = 200;

/** How a client leaves. */
const LEAVING: Record<string, (client: RawClient) => void> = {
  // A client that ends its side alone is taken to have left: no client of this API does so and still waits.
  "half-closes": (client) => client.socket.end(),
  "destroys": (client) => client.socket.destroy(),
  "resets": (client) => client.socket.resetAndDestroy(),
};

function request(stream: boolean, port: number): string {
  const body = JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "hi" }] });
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n` +
    `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** A phase: how far the server answers, and what shows the client that it has come to that point. */
interface Phase {
  readonly stream: boolean;
  readonly answer: (connection: ScriptedConnection) => Promise<void>;
  readonly isReached: (text: string) => boolean;
}

const PHASES: Record<string, Phase> = {
  "before the head": { stream: true, answer: () => Promise.resolve(), isReached: () => true },
  "behind the first event": {
    stream: true,
    answer: async (connection) => {
      await connection.start();
      await connection.chunk(EVENT);
    },
    isReached: (text) => text.includes(EVENT),
  },
  "inside an event": {
    stream: true,
    answer: async (connection) => {
      await connection.start();
      await connection.chunk(EVENT + EVENT.slice(0, 20));
    },
    isReached: (text) => text.includes(EVENT + EVENT.slice(0, 20)),
  },
  "before the head of a whole body": {
    stream: false,
    answer: () => Promise.resolve(),
    isReached: () => true,
  },
  "inside a whole body": {
    stream: false,
    answer: async (connection) => {
      await connection.write(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{",
      );
    },
    isReached: () => true,
  },
};

for (const [phase, { answer, isReached, stream }] of Object.entries(PHASES)) {
  Deno.test(`a client that leaves ${phase} stops the engine within ${LIMIT_MS} ms`, async (t) => {
    const answered: (() => void)[] = [];
    const gone: (() => void)[] = [];
    await using server = new ScriptedServer(async (connection) => {
      if (!await connection.readRequest()) return;
      await answer(connection);
      answered.shift()!();
      await connection.gone();
      gone.shift()!();
    });
    await using system = await LiveSystem.start();
    await system.addOpenAi(server.url);
    const leaveOnce = async (leave: (client: RawClient) => void): Promise<number> => {
      const isAnswered = new Promise<void>((resolve) => answered.push(resolve));
      const isGone = new Promise<void>((resolve) => gone.push(resolve));
      const client = await RawClient.connect(system.port);
      client.send(request(stream, system.port));
      await isAnswered;
      await client.until(isReached);
      const left = performance.now();
      leave(client);
      await isGone;
      const late = performance.now() - left;
      await system.quiet();
      await client.close();
      return late;
    };
    let leavings = 0;
    for (const [how, leave] of Object.entries(LEAVING)) {
      await t.step(how, async () => {
        let late = Infinity;
        for (let tries = 0; tries < 3 && late >= LIMIT_MS; tries++) {
          late = await leaveOnce(leave);
          leavings++;
        }
        assert(late < LIMIT_MS, `${late} ms`);
      });
    }
    assertEquals(system.outcomes(), { cancelled: leavings });
  });
}

Deno.test("a client that leaves between the last event and [DONE] ends a finished stream once", async () => {
  await using server = new ScriptedServer(async (connection) => {
    if (!await connection.readRequest()) return;
    await connection.start();
    await connection.chunk(EVENT + STOP);
    await connection.gone();
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url);
  const client = await RawClient.connect(system.port);
  client.send(request(true, system.port));
  await client.until((text) => text.includes(STOP));
  client.socket.destroy();
  await system.quiet();
  assertEquals(system.outcomes(), { cancelled: 1 });
  await client.close();
});

Deno.test("1,000 clients that leave leave no descriptor behind", async () => {
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      await connection.start();
      await connection.chunk(EVENT);
      await connection.gone();
    }
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url);
  const batch = async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(system.port)));
    for (const client of clients) client.send(request(true, system.port));
    await Promise.all(
      clients.map((client, index) => client.until((text) => index % 3 === 0 || text.includes(EVENT))),
    );
    clients.forEach(({ socket }, index) => index % 2 === 0 ? socket.destroy() : socket.resetAndDestroy());
    await Promise.all(clients.map((client) => client.closed()));
  };
  await batch();
  await system.quiet();
  const before = openSockets();
  for (let i = 0; i < 50; i++) await batch();
  await system.quiet();
  await until(() => openSockets() <= before, `${openSockets()} sockets to be ${before} again`);
  const { cancelled, ...others } = system.outcomes();
  // A client that left before its request was read was no request.
  assert(cancelled! > 600 && cancelled! <= 1_020, `${cancelled} were cancelled`);
  assertEquals(others, {});
});

Deno.test("clients that stay are answered while others leave", async () => {
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      await connection.start();
      for (let i = 0; i < 20; i++) await connection.chunk(EVENT);
      await connection.chunk(STOP + DONE);
      await connection.finish();
    }
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url);
  const kept = Array.from({ length: 100 }, async (_, index) => {
    const response = await system.post("/v1/chat/completions", {
      model: "m",
      stream: true,
      messages: [{ role: "user", content: `${index}` }],
    });
    if (index % 2 === 0) return await response.body!.cancel();
    assertEquals(await response.text(), EVENT.repeat(20) + STOP + DONE);
  });
  await Promise.all(kept);
  await system.quiet();
  const { ok = 0, cancelled = 0, ...others } = system.outcomes();
  assertEquals([ok + cancelled, ok >= 50, others], [100, true, {}]);
});
