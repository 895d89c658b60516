import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import {
  advertisedEndpoints,
  decodeEndpoints,
  encodeEndpoints,
  type Endpoint,
  type LocalInterface,
  selectEndpoint,
} from "../../transports/tcp/endpoints.ts";
import { isInSubnet } from "../../transports/tcp/ip.ts";
import { hex, unhex } from "../support/hex.ts";

function endpoint(host: string, prefix = 24, numa: number | null = null, name = "eth0"): Endpoint {
  return { name, host, port: 9_000, prefix, numa };
}

function local(
  address: string,
  cidr: string,
  family: "IPv4" | "IPv6" = "IPv4",
  name = "eth0",
): LocalInterface {
  return { name, family, address, cidr };
}

Deno.test("encodeEndpoints writes the entries of the specification, and decodeEndpoints reads them", () => {
  const golden: [Endpoint[], string][] = [
    [
      [{ name: "", host: "127.0.0.1", port: 5_555, prefix: 32, numa: null }],
      "9195a0a93132372e302e302e31cd15b320c0",
    ],
    [[endpoint("10.0.0.7", 24, 1)], "9195a465746830a831302e302e302e37cd23281801"],
  ];
  for (const [endpoints, text] of golden) {
    assertEquals(hex(encodeEndpoints(endpoints)), text);
    assertEquals(decodeEndpoints(unhex(text)), endpoints);
    assertEquals(decodeEndpoints(unhex(text + "c0c0")), endpoints, "what follows is ignored");
  }
});

Deno.test("decodeEndpoints reads the text forms", () => {
  const forms: Record<string, [string, number]> = {
    "tcp://10.0.0.7:80": ["10.0.0.7", 80],
    "grpc://host.example:65535": ["host.example", 65_535],
    "localhost:0": ["localhost", 0],
    "tcp://[::1]:7000": ["::1", 7_000],
  };
  for (const [text, [host, port]] of Object.entries(forms)) {
    const [found] = decodeEndpoints(new TextEncoder().encode(text));
    assertEquals([found?.host, found?.port], [host, port], text);
  }
});

Deno.test("decodeEndpoints refuses what is no entry", () => {
  const bad: Record<string, Uint8Array> = {
    "nothing": new Uint8Array(0),
    "text without port": new TextEncoder().encode("localhost"),
    "port out of range": new TextEncoder().encode("localhost:65536"),
    "another scheme": new TextEncoder().encode("http://localhost:80"),
    "long text": new TextEncoder().encode("a".repeat(600) + ":80"),
    "no endpoint": unhex("90"),
    "endpoint that is no array": unhex("9101"),
    "ip that is no text": unhex("9195a00101 20c0"),
    "port that is text": unhex("9195a0a93132372e302e302e31a13120c0"),
    "cut short": unhex("9195a0a93132372e302e302e31cd15b3"),
    "count beyond the bytes": unhex("ddffffffff95a0"),
    "nested deeply": unhex("91".repeat(40)),
  };
  for (const [name, entry] of Object.entries(bad)) {
    const error = assertThrows(() => decodeEndpoints(entry), TokenplaneError, undefined, name);
    assertEquals(["protocol", "too_large"].includes((error as TokenplaneError).code), true, name);
  }
});

Deno.test("decodeEndpoints throws nothing but its own errors on noise", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(3), (noise, children) => {
      if (noise.length > 0 && children > 0) noise[0] = 0x90 + children;
      try {
        decodeEndpoints(noise);
      } catch (caught) {
        assertEquals(caught instanceof TokenplaneError, true);
      }
    }),
    { numRuns: 500 },
  );
});

Deno.test("advertisedEndpoints names the bound address, or every interface of a wildcard's family", () => {
  const interfaces = (): LocalInterface[] => [
    local("127.0.0.1", "127.0.0.1/8", "IPv4", "lo"),
    local("10.0.0.7", "10.0.0.7/24"),
    local("fe80::1", "fe80::1/64", "IPv6"),
    local("2001:db8::7", "2001:db8::7/64", "IPv6"),
  ];
  const seen = (host: string, list = interfaces): string[] =>
    advertisedEndpoints(host, 1, list).map((e) => `${e.name} ${e.host}/${e.prefix}`);
  assertEquals(seen("10.0.0.7"), [" 10.0.0.7/32"]);
  assertEquals(seen("::1"), [" ::1/128"]);
  assertEquals(seen("0.0.0.0"), ["eth0 10.0.0.7/24"]);
  assertEquals(seen("::"), ["eth0 2001:db8::7/64"]);
  assertEquals(seen("0.0.0.0", () => []), ["lo 127.0.0.1/8"]);
  assertEquals(seen("::", () => []), ["lo ::1/128"]);
});

Deno.test("selectEndpoint prefers NUMA node, then subnet, then what is not loopback", () => {
  const here = (): LocalInterface[] => [local("10.0.0.9", "10.0.0.9/24")];
  const loopback = endpoint("127.0.0.1", 8, null, "lo");
  const far = endpoint("192.168.1.1");
  const near = endpoint("10.0.0.7");
  const nearOnNode = endpoint("10.0.0.8", 24, 1);
  const farOnNode = endpoint("192.168.1.2", 24, 1);
  const choose = (list: Endpoint[], numa: number | null = null): Endpoint => selectEndpoint(list, here, numa);
  assertEquals(choose([loopback, far, near, farOnNode, nearOnNode], 1), nearOnNode);
  assertEquals(choose([loopback, near, farOnNode], 1), farOnNode);
  assertEquals(choose([loopback, far, near]), near);
  assertEquals(choose([loopback, far]), far);
  assertEquals(choose([loopback, endpoint("127.0.0.2", 8)]), loopback);
});

Deno.test("isInSubnet masks with the prefix and never mixes families", () => {
  const cases: [string, string, number, boolean][] = [
    ["10.0.0.1", "10.0.0.254", 24, true],
    ["10.0.0.1", "10.0.1.1", 24, false],
    ["10.0.0.1", "10.0.1.1", 23, true],
    ["10.0.0.1", "10.0.0.1", 32, true],
    ["10.0.0.1", "99.9.9.9", 0, true],
    ["2001:db8::1", "2001:db8:0:0:ffff::1", 64, true],
    ["2001:db8::1", "2001:db9::1", 32, false],
    ["::ffff:10.0.0.1", "10.0.0.1", 0, false],
    ["host", "host", 8, false],
    ["300.0.0.1", "300.0.0.1", 8, false],
    ["1::2::3", "1::2::3", 8, false],
  ];
  for (const [a, b, prefix, expected] of cases) {
    assertEquals(isInSubnet(a, b, prefix), expected, `${a} ${b}/${prefix}`);
  }
});
