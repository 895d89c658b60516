import { assert, assertEquals, assertInstanceOf, assertStringIncludes } from "@std/assert";
import { type Environment, resolveCommand, resolveSettings } from "../../src/config/resolve.ts";
import { findUnreachable } from "../../src/config/rules.ts";
import { TokenplaneError } from "../../src/errors.ts";

function refusal(args: readonly string[], env: Environment = {}): string {
  try {
    resolveCommand(args, env);
  } catch (caught) {
    assertInstanceOf(caught, TokenplaneError);
    assertEquals(caught.code, "invalid_config");
    assertEquals(caught.scope, "process");
    assert(!/[\r\n]/.test(caught.message), "one line");
    return caught.message;
  }
  throw new Error(`Nothing was refused: ${args.join(" ")}`);
}

Deno.test("resolveSettings gives the documented defaults", () => {
  const frontend = resolveSettings("frontend", [], {});
  assertEquals(frontend.listen, { host: "127.0.0.1", port: 8000 });
  assertEquals(frontend.nodeListen, { host: "127.0.0.1", port: 7000 });
  assertEquals([frontend.lanes, frontend.batchMs, frontend.initialCredit], [4, 5, 32]);
  assertEquals(frontend.apiKeys, []);
  assertEquals(frontend.drainTimeout, 30);
  const worker = resolveSettings("worker", ["--frontend", "h:1"], {});
  assertEquals(worker.nodeListen, { host: "127.0.0.1", port: 0 });
  assertEquals(worker.models, ["mock"]);
  assertEquals([worker.mockTtftMs, worker.mockItlMs, worker.speedupRatio], [50, 20, 1]);
  assertEquals(resolveSettings("start", [], {}).workers, 2);
});

Deno.test("resolveSettings takes each form of a flag, repeats and variables", () => {
  const worker = resolveSettings(
    "worker",
    ["--frontend", "a:1", "--frontend=[::1]:2", "--model", "x/y", "--model", "z", "--speedup-ratio", "2.5"],
    { TOKENPLANE_MODEL: "ignored", TOKENPLANE_LANES: "2", DYN_VELO_RESPONSE_BATCH_MS: "0", PATH: "/bin" },
  );
  assertEquals(worker.frontends, [{ host: "a", port: 1 }, { host: "::1", port: 2 }]);
  assertEquals(worker.models, ["x/y", "z"]);
  assertEquals([worker.speedupRatio, worker.lanes, worker.batchMs], [2.5, 2, 0]);
  const start = resolveSettings("start", [], { TOKENPLANE_MODEL: "a, b", TOKENPLANE_API_KEY: "k1,k2" });
  assertEquals(start.models, ["a", "b"]);
  assertEquals(start.apiKeys, ["k1", "k2"]);
});

Deno.test("resolveSettings lets the flag win over the variable, and the variable agree with its alias", () => {
  const env = { TOKENPLANE_BATCH_MS: "3", DYN_VELO_RESPONSE_BATCH_MS: "3", DYN_RESPONSE_PLANE: "velo" };
  assertEquals(resolveSettings("frontend", [], env).batchMs, 3);
  assertEquals(resolveSettings("frontend", ["--batch-ms", "9"], env).batchMs, 9);
  assertEquals(resolveSettings("frontend", [], env).plane, "mux");
  // A variable of another mode is none of ours, but it is a known one.
  assertEquals(resolveSettings("frontend", [], { TOKENPLANE_FRONTEND: "a:1" }).batchMs, 5);
});

Deno.test("resolveCommand knows help and version, also behind other flags", () => {
  assertEquals(resolveCommand([], {}), { kind: "help", mode: null });
  assertEquals(resolveCommand(["--help"], {}), { kind: "help", mode: null });
  assertEquals(resolveCommand(["worker", "--nonsense", "-h"], {}), { kind: "help", mode: "worker" });
  assertEquals(resolveCommand(["--version"], {}), { kind: "version" });
});

const worker = ["worker", "--frontend", "a:1"];
const FAR = ['--node-listen "127.0.0.1:0"', "--node-listen :0"];
const REFUSALS: Array<[name: string, args: string[], env: Environment, ...parts: string[]]> = [
  ["unknown mode", ["strat"], {}, '"strat"', "start, frontend, worker", 'did you mean "start"'],
  ["unknown flag", ["start", "--lanse", "3"], {}, '"--lanse"', 'did you mean "--lanes"'],
  ["unknown flag with =", ["start", "--api-kye=sk-1"], {}, '"--api-kye"', 'did you mean "--api-key"'],
  ["short flag", ["start", "-l", "3"], {}, '"-l"'],
  ["negated flag", ["start", "--no-lanes"], {}, '"--no-lanes"'],
  ["prototype", ["start", "--__proto__", "3"], {}, '"--__proto__"'],
  ["dotted flag", ["start", "--lanes.x", "3"], {}, '"--lanes.x"'],
  ["flag of another mode", ["frontend", "--engine", "mock"], {}, "--engine", '"frontend"', "worker"],
  ["positional", ["start", "now"], {}, '"now"', "flags only"],
  ["positional behind --", ["start", "--", "now"], {}, '"now"', "flags only"],
  ["missing value at the end", ["start", "--lanes"], {}, "--lanes", "without a value", "1 to 16"],
  ["missing value before a flag", ["start", "--lanes", "--workers", "1"], {}, "--lanes", "without a value"],
  ["empty value", ["start", "--listen="], {}, "--listen", "without a value", "HOST:PORT"],
  ["given twice", ["start", "--lanes", "1", "--lanes", "1"], {}, "--lanes", "twice"],
  ["too small", ["start", "--lanes", "0"], {}, '--lanes "0"', "1 to 16"],
  ["too large", ["start", "--lanes", "17"], {}, '--lanes "17"', "1 to 16"],
  ["negative", ["start", "--lanes=-1"], {}, '--lanes "-1"'],
  ["not whole", ["start", "--lanes", "1.5"], {}, '"1.5"', "whole numbers"],
  ["exponent", ["start", "--lanes", "1e1"], {}, '"1e1"'],
  ["hex", ["start", "--lanes", "0x2"], {}, '"0x2"'],
  ["word for a number", ["start", "--batch-ms", "five"], {}, '"five"', "0 to 1000"],
  ["infinite", [...worker, "--speedup-ratio", "Infinity"], {}, '"Infinity"', "0.001 to 100000"],
  ["zero ratio", [...worker, "--speedup-ratio", "0"], {}, "--speedup-ratio"],
  ["bad choice", ["start", "--stream-setup", "later"], {}, '--stream-setup "later"', '"ticket", "attach"'],
  ["port too large", ["start", "--listen", "127.0.0.1:65536"], {}, '"127.0.0.1:65536"', "0 to 65535"],
  ["no port", ["start", "--listen", "127.0.0.1"], {}, '"127.0.0.1"'],
  ["bare IPv6", ["start", "--listen", "::1:80"], {}, '"::1:80"', "[IPV6]:PORT"],
  ["port 0 to dial", ["worker", "--frontend", "a:0"], {}, '"a:0"', "1 to 65535"],
  ["line feed", ["start", "--listen", "a\nb:1"], {}, '"a\\nb:1"'],
  ["huge value", ["start", "--listen", "x".repeat(99_999)], {}, "…"],
  ["secret", ["start", "--api-key", "two words"], {}, "--api-key (hidden)"],
  ["certificate alone", ["frontend", "--tls-cert", "a"], {}, "--tls-cert without --tls-key"],
  ["key alone", ["start"], { TOKENPLANE_TLS_KEY: "a" }, "TOKENPLANE_TLS_KEY without --tls-cert"],
  [
    "egress past TLS",
    ["frontend", "--tls-cert", "a", "--tls-key", "b", "--egress", "ring"],
    {},
    '--egress "ring" with --tls-cert',
    '"socket"',
  ],
  [
    "limit of no key",
    ["frontend", "--key-requests-per-minute", "5"],
    {},
    "--key-requests-per-minute 5 without --api-key or --api-key-file",
  ],
  [
    "places of no key",
    ["start", "--key-concurrent-requests", "5"],
    {},
    "--key-concurrent-requests 5 without",
  ],
  ["environment value", ["start"], { TOKENPLANE_LANES: "99" }, 'TOKENPLANE_LANES "99"', "1 to 16"],
  ["environment empty", ["start"], { TOKENPLANE_LANES: "" }, "TOKENPLANE_LANES without a value"],
  ["environment list", ["start"], { TOKENPLANE_MODEL: "a,,b" }, "TOKENPLANE_MODEL without a value"],
  [
    "environment name",
    ["start"],
    { TOKENPLANE_LANSE: "1" },
    '"TOKENPLANE_LANSE"',
    'did you mean "TOKENPLANE_LANES"',
  ],
  [
    "alias value",
    ["start"],
    { DYN_VELO_RESPONSE_BATCH_MS: "5ms" },
    'DYN_VELO_RESPONSE_BATCH_MS "5ms"',
    "0 to 1000",
  ],
  ["alias plane", ["start"], { DYN_RESPONSE_PLANE: "quic" }, 'DYN_RESPONSE_PLANE "quic"', '"mux"'],
  [
    "alias against twin",
    ["start"],
    { TOKENPLANE_BATCH_MS: "1", DYN_VELO_RESPONSE_BATCH_MS: "2" },
    'TOKENPLANE_BATCH_MS "1"',
    'DYN_VELO_RESPONSE_BATCH_MS "2"',
    "must agree",
  ],
  ["no frontend", ["worker"], {}, "--frontend", "TOKENPLANE_FRONTEND"],
  ["openai without url", [...worker, "--engine", "openai"], {}, '--engine "openai"', "--engine-url"],
  ["url with mock", [...worker, "--engine-url", "http://a/v1"], {}, "--engine-url", '--engine "mock"'],
  [
    "mock flag with openai",
    [...worker, "--engine", "openai", "--engine-url", "http://a/v1"],
    { TOKENPLANE_MOCK_SEED: "1" },
    "TOKENPLANE_MOCK_SEED",
    '--engine "openai"',
  ],
  [
    "step with openai",
    [...worker, "--engine", "openai", "--engine-url", "http://a/v1", "--flush", "step"],
    {},
    '--flush "step"',
    '"openai"',
  ],
  ["step with batch", ["start", "--flush", "step", "--batch-ms", "1"], {}, "--flush", "--batch-ms"],
  ["url scheme", [...worker, "--engine", "openai", "--engine-url", "ftp://a/v1"], {}, '"ftp://a/v1"'],
  ["url user", [...worker, "--engine", "openai", "--engine-url", "http://u:pw@a/v1"], {}, "//(hidden)@a"],
  ["loopback to another machine", ["worker", "--frontend", "10.0.0.5:7000"], {}, ...FAR, '"10.0.0.5:7000"'],
  [
    "one of several on another machine",
    [...worker, "--frontend", "[fd00::1]:7000", "--node-listen", "localhost:9"],
    {},
    '--node-listen "localhost:9"',
    '"[fd00::1]:7000"',
  ],
  [
    "another machine by variable",
    ["worker"],
    { TOKENPLANE_FRONTEND: "127.0.0.1:1,192.168.1.9:7000" },
    ...FAR,
    "TOKENPLANE_FRONTEND",
  ],
  ["shards beyond the last port", ["frontend", "--node-listen", ":65534", "--shards", "3"], {}, "--shards 3"],
  ["budgets", ["start", "--slot-byte-budget", "9000", "--peer-byte-budget", "8000"], {}, "9000", "8000"],
  ["bodies", ["start", "--max-body-bytes-in-flight", "2048"], {}, "--max-body-bytes", "2048"],
];

Deno.test("resolveSettings lets a worker listen on loopback where its frontends may be there", () => {
  for (
    const args of [
      ...["127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "localhost:1", ":1", "some.host:1"].map((one) => [one]),
      ["10.0.0.5:1", "--node-listen", ":0"],
      ["10.0.0.5:1", "--advertise-host", "10.0.0.6"],
    ]
  ) resolveSettings("worker", ["--frontend", ...args], {});
  resolveSettings("frontend", ["--node-listen", ":65534", "--shards", "2"], {});
});

Deno.test("findUnreachable names frontends that may be elsewhere, and nobody once a host is advertised", () => {
  const values = resolveSettings("worker", ["--frontend", "some.host:1", "--frontend", "localhost:2"], {});
  assertEquals(findUnreachable({ ...values }), [{ host: "some.host", port: 1 }]);
  assertEquals(findUnreachable({ ...values, advertiseHost: "other.host" }), []);
  assertEquals(findUnreachable({ ...values, nodeListen: { host: "0.0.0.0", port: 0 } }), []);
});

for (const [name, args, env, ...parts] of REFUSALS) {
  Deno.test(`resolveCommand refuses in one line that names it: ${name}`, () => {
    const message = refusal(args, env);
    for (const part of parts) assertStringIncludes(message, part);
    for (const secret of ["sk-1", "two words", "u:pw"]) assert(!message.includes(secret), message);
    assert(message.length < 600, message);
  });
}

Deno.test("resolveCommand refuses settings of the mock's other way of keeping time", () => {
  const worker = ["worker", "--frontend", "127.0.0.1:7000"];
  const cases: [string[], string][] = [
    [
      ["--mock-timing", "simulated", "--mock-itl-ms", "5"],
      '--mock-itl-ms with --mock-timing "simulated": it is for "fixed"',
    ],
    [["--virtual-workers", "4"], '--virtual-workers with --mock-timing "fixed": it is for "simulated"'],
  ];
  for (const [args, message] of cases) {
    assertStringIncludes(refusal([...worker, ...args]), message);
  }
});
