import { assertEquals } from "@std/assert";
import { formatHostPort, parseHostPort } from "../../src/config/host_port.ts";

const GOOD: Array<[string, string, number]> = [
  ["127.0.0.1:8000", "127.0.0.1", 8000],
  [":8000", "0.0.0.0", 8000],
  ["localhost:0", "localhost", 0],
  ["node-1.example.com:65535", "node-1.example.com", 65535],
  ["[::1]:80", "::1", 80],
  ["[fe80::1%eth0]:80", "fe80::1%eth0", 80],
  ["[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1", 80],
];
const BAD = [
  "",
  ":",
  "a",
  "a:",
  "a:65536",
  "a:-1",
  "a:1:2",
  "::1:80",
  "[::1]",
  "[::1]80",
  "[]:80",
  "[zz]:80",
  "[::1:80",
  "300.1.1.1:80",
  "1.2.3:80",
  "1.2.3.4.5:80",
  "a b:80",
  "-a:80",
  "http://a:80",
  "a/b:80",
  "a:080000",
];

Deno.test("parseHostPort reads names, IPv4, bracketed IPv6 and a lone port", () => {
  for (const [text, host, port] of GOOD) assertEquals(parseHostPort(text), { host, port }, text);
});

Deno.test("parseHostPort refuses everything else", () => {
  for (const text of BAD) assertEquals(parseHostPort(text), null, text);
});

Deno.test("formatHostPort writes what parseHostPort reads", () => {
  for (const [text, host, port] of GOOD) {
    if (!text.startsWith(":")) assertEquals(formatHostPort({ host, port }), text);
  }
});
