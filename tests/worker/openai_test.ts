import { assert, assertEquals, assertThrows } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { TokenplaneError } from "../../src/errors.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import {
  DONE,
  FINISH,
  type Script,
  serving,
  startRequest,
  withEngine,
} from "../support/engine_under_test.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";

Deno.test("OpenAiEngine relays a stream byte for byte, whatever its framing", async (t) => {
  const content = '{"choices":[{"index":0,"delta":{"content":"\u{1F600}你"},"finish_reason":null}]}';
  const finish = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}';
  const framings: [string, string][] = [
    ["LF", `data: ${content}\n\ndata: ${finish}\n\ndata: [DONE]\n\n`],
    ["CRLF", `data: ${content}\r\n\r\ndata: ${finish}\r\n\r\ndata: [DONE]\r\n\r\n`],
    ["CR", `data: ${content}\r\rdata: ${finish}\r\rdata: [DONE]\r\r`],
    ["no space and comments", `: hi\n\ndata:${content}\n\n:\n\ndata:${finish}\n\ndata:[DONE]\n\n`],
    ["BOM", `\ufeffdata: ${content}\n\ndata: ${finish}\n\ndata: [DONE]\n\n`],
    ["no last blank line", `data: ${content}\n\ndata: ${finish}\n\ndata: [DONE]`],
  ];
  for (const [name, text] of framings) {
    await t.step(name, async () => {
      const bytes = new TextEncoder().encode(text);
      await withEngine(
        serving(async (connection) => {
          await connection.start();
          for (let at = 0; at < bytes.length; at += 7) await connection.chunk(bytes.slice(at, at + 7));
          await connection.finish();
        }),
        async (engine) => {
          const output = startRequest(engine);
          const summary = await output.ended;
          assertEquals([output.status, output.contentType], [200, "text/event-stream"]);
          assertEquals(output.bytes(), bytes);
          assertEquals([summary.outcome, summary.finishReasons], ["ok", ["stop"]]);
          assertEquals(engine.running, 0);
        },
      );
    });
  }
});

Deno.test("OpenAiEngine sends the client's body and headers, and its own where they are its own", async () => {
  let head = "";
  let body = "";
  await withEngine(
    serving(async (connection) => {
      ({ head, body } = connection);
      await connection.answer("200 OK", "application/json", "{}");
    }),
    async (engine) => {
      const request = chatRequest({ stream: false, odd: " ü " }, {
        headers: {
          authorization: "Bearer client",
          "x-request-id": "7",
          "accept-encoding": "gzip",
          host: "evil",
        },
      });
      await startRequest(engine, request).ended;
      assertEquals(body, new TextDecoder().decode(request.body));
      const lines = head.toLowerCase().split("\r\n");
      assertEquals(lines[0], "post /v1/chat/completions http/1.1");
      assert(lines.includes("authorization: bearer client"));
      assert(lines.includes("x-request-id: 7"));
      assertEquals(lines.filter((line) => line.startsWith("accept-encoding")), ["accept-encoding: identity"]);
      assertEquals(lines.filter((line) => line.startsWith("host")).length, 1);
      assert(!head.includes("evil"));
    },
  );
});

Deno.test("OpenAiEngine uses its own key in place of the client's when it has one", async () => {
  let head = "";
  await withEngine(
    serving(async (connection) => {
      head = connection.head;
      await connection.answer("200 OK", "application/json", "{}");
    }),
    async (engine) => {
      await startRequest(engine, chatRequest({}, { headers: { authorization: "Bearer client" } })).ended;
      assert(/authorization: Bearer ours/i.test(head));
      assert(!head.includes("client"));
    },
    { apiKey: "ours" },
  );
});

Deno.test("OpenAiEngine passes a body that is not streamed through and reads its usage", async () => {
  const body = '{"choices":[{"index":0,"finish_reason":"length"}],' +
    '"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}';
  await withEngine(
    serving((connection) => connection.answer("200 OK", "application/json; charset=utf-8", body)),
    async (engine) => {
      const output = startRequest(engine, chatRequest({ stream: false }));
      assertEquals(await output.ended, {
        outcome: "ok",
        usage: { promptTokens: 7, completionTokens: 1, totalTokens: 8 },
        finishReasons: ["length"],
      });
      assertEquals(output.text(), body);
      assertEquals(output.contentType, "application/json; charset=utf-8");
    },
  );
});

Deno.test("OpenAiEngine passes a long body through unread", async () => {
  const body = `{"text":"${"x".repeat(5_000)}"}`;
  await withEngine(
    serving((connection) => connection.answer("200 OK", "application/json", body)),
    async (engine) => {
      const output = startRequest(engine);
      const summary = await output.ended;
      assertEquals([summary.outcome, summary.usage], ["ok", null]);
      assertEquals(output.text(), body);
    },
    { maxObservedBytes: 1_000 },
  );
});

Deno.test("OpenAiEngine keeps an error's status, type and body", async (t) => {
  for (const status of ["400 Bad Request", "401 Unauthorized", "429 Too Many Requests", "503 Busy"]) {
    await t.step(status, async () => {
      const body = '{"error":{"message":"No","type":"x","param":null,"code":null}}';
      await withEngine(
        serving((connection) => connection.answer(status, "application/problem+json", body)),
        async (engine) => {
          const output = startRequest(engine);
          const summary = await output.ended;
          assertEquals(output.status, Number(status.slice(0, 3)));
          assertEquals(output.contentType, "application/problem+json");
          assertEquals(output.text(), body);
          // What a client asked for wrongly is no failure of the engine.
          assertEquals(summary.outcome, output.status < 500 ? "ok" : "upstream_error");
        },
      );
    });
  }
});

Deno.test("OpenAiEngine sees an error inside a 200 body", async () => {
  await withEngine(
    serving((connection) =>
      connection.answer("200 OK", "application/json", '{"error":{"message":"No slot"}}')
    ),
    async (engine) => {
      const summary = await startRequest(engine).ended;
      assertEquals(summary.outcome, "upstream_error");
      assert(summary.detail?.includes("No slot"));
    },
  );
});

Deno.test("OpenAiEngine answers with fixed text when the server gives nothing that could be passed on", async (t) => {
  const cases: [string, Script, number][] = [
    ["closes before a head", async (connection) => void await connection.readRequest(), 502],
    ["answers nonsense", async (connection) => {
      await connection.readRequest();
      await connection.write("SSH-2.0-nonsense\r\n\r\n");
    }, 502],
    ["encodes the body", async (connection) => {
      await connection.readRequest();
      await connection.write("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx");
      await connection.gone();
    }, 502],
    ["redirects", async (connection) => {
      await connection.readRequest();
      await connection.write("HTTP/1.1 307 Elsewhere\r\nlocation: /\r\ncontent-length: 0\r\n\r\n");
      await connection.gone();
    }, 502],
  ];
  for (const [name, script, status] of cases) {
    await t.step(name, async () => {
      await withEngine(script, async (engine) => {
        const output = startRequest(engine);
        const summary = await output.ended;
        assertEquals(output.status, status);
        assertEquals(JSON.parse(output.text()).error.message, "The engine gave no valid answer");
        assertEquals(summary.outcome, "upstream_error");
        assertEquals(engine.running, 0);
      });
    });
  }
});

Deno.test("OpenAiEngine answers 503 when nobody listens", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const engine = new OpenAiEngine({ clock: systemClock, url: `http://127.0.0.1:${port}/v1` });
  const output = startRequest(engine);
  const summary = await output.ended;
  assertEquals([output.status, summary.outcome], [503, "upstream_error"]);
  assertEquals(JSON.parse(output.text()).error.message, "The engine cannot be reached");
  assert(summary.detail?.includes("ECONNREFUSED"));
  await engine.close();
});

Deno.test("OpenAiEngine tells the server the request's id, unless a header that was passed on does", async () => {
  const heads: string[] = [];
  await withEngine(
    serving(async (connection) => {
      heads.push(connection.head.toLowerCase());
      await connection.answer("200 OK", "application/json", "{}");
    }),
    async (engine) => {
      await startRequest(engine, { ...chatRequest(), id: "told", headers: {} }).ended;
      await startRequest(engine, { ...chatRequest(), id: "told", headers: { "x-request-id": "passed" } })
        .ended;
    },
  );
  assertEquals(heads.map((head) => /^x-request-id: (.*)$/m.exec(head)?.[1]?.trim()), ["told", "passed"]);
});

Deno.test("OpenAiEngine uses a connection again and no more of them than its cap", async () => {
  await withEngine(
    serving(async (connection) => {
      await connection.start();
      await connection.chunk(FINISH + DONE);
      await connection.finish();
    }),
    async (engine, server) => {
      for (let i = 0; i < 3; i++) assertEquals((await startRequest(engine).ended).outcome, "ok");
      assertEquals(server.accepted, 1);
      const many = Array.from({ length: 10 }, () => startRequest(engine));
      for (const output of many) assertEquals((await output.ended).outcome, "ok");
      assert(server.accepted <= 3, `${server.accepted} connections`);
    },
    { maxConnections: 3 },
  );
});

Deno.test("OpenAiEngine serves a request although the pooled connection has just gone stale", async () => {
  let requests = 0;
  await withEngine(async (connection) => {
    await connection.readRequest();
    if (++requests === 2) return; // taken, and closed without a word
    await connection.answer("200 OK", "application/json", "{}");
    while (await connection.readRequest()) {
      if (++requests === 2) return;
    }
  }, async (engine) => {
    assertEquals((await startRequest(engine).ended).outcome, "ok");
    assertEquals((await startRequest(engine).ended).outcome, "ok");
  });
});

Deno.test("OpenAiEngine stops reading while its output is full and goes on when it is writable", async () => {
  const piece = "x".repeat(65_536);
  const total = 400; // 25 MiB: far more than sockets hold
  let written = 0;
  const stalled = Promise.withResolvers<void>();
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.start("text/plain");
    for (let i = 0; i < total; i++) {
      const timer = setTimeout(() => stalled.resolve(), 200);
      await connection.chunk(piece);
      clearTimeout(timer);
      written++;
    }
    await connection.finish();
    await connection.gone();
  }, async (engine) => {
    const output = new RecordingOutput();
    output.writable = false;
    engine.run(chatRequest(), output);
    await stalled.promise;
    assert(written < total / 2, `${written} pieces went out while nobody read`);
    assert(output.bytes().length < 1_048_576);
    output.release();
    await output.ended;
    assertEquals(output.bytes().length, total * piece.length);
  }, { idleTimeoutMs: 150, maxObservedBytes: 1_000 });
});

Deno.test("OpenAiEngine cuts a response when it is closed and refuses later ones", async () => {
  const sent = Promise.withResolvers<void>();
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.start();
    await connection.chunk("data: {}\n\n");
    await connection.gone();
  }, async (engine) => {
    const output = new RecordingOutput();
    output.onData = () => sent.resolve();
    engine.run(chatRequest(), output);
    await sent.promise;
    await engine.close();
    assertEquals(output.summary?.outcome, "truncated");
    assertEquals(startRequest(engine).status, 503);
    assertEquals(engine.running, 0);
  });
});

Deno.test("OpenAiEngine answers 500 to a request that cannot be sent", async () => {
  await withEngine(() => Promise.resolve(), async (engine) => {
    const output = startRequest(engine, chatRequest({}, { headers: { "x-bad": "a\r\nb: c" } }));
    assertEquals((await output.ended).outcome, "internal_error");
    assertEquals([output.status, engine.running], [500, 0]);
  });
});

Deno.test("OpenAiEngine refuses a URL it cannot use", () => {
  for (const url of ["", "localhost:8000", "ftp://127.0.0.1/v1", "unix:/x"]) {
    const error = assertThrows(() => new OpenAiEngine({ clock: systemClock, url }), TokenplaneError);
    assertEquals(error.code, "invalid_config");
  }
});
