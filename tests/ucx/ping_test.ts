import { assertEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { Pings } from "../../transports/ucx/ping.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("Pings resolves with the token that comes back, once", async () => {
  const clock = new VirtualClock();
  const pings = new Pings(clock);
  const first = pings.begin("a", 1_000);
  const second = pings.begin("a", 1_000);
  assertEquals(pings.handlePong(second.token), true);
  assertEquals(pings.handlePong(second.token), false, "answered already");
  await second.answer;
  assertEquals(pings.waiting, 1);
  // A view into a larger buffer, as a receive arena hands out.
  const arena = new Uint8Array(40);
  arena.set(first.token, 16);
  assertEquals(pings.handlePong(arena.subarray(16, 24)), true);
  await first.answer;
  assertEquals([pings.waiting, clock.pendingTimers], [0, 0]);
});

Deno.test("Pings ignores what is not an answer", () => {
  const clock = new VirtualClock();
  const pings = new Pings(clock);
  const { token, answer } = pings.begin("a", 1_000);
  answer.catch(() => {});
  const wrong = token.slice();
  wrong[0]! ^= 1;
  for (const header of [new Uint8Array(0), token.subarray(0, 7), new Uint8Array(9), wrong]) {
    assertEquals(pings.handlePong(header), false);
  }
  assertEquals(pings.waiting, 1);
  pings.fail(null, new TokenplaneError("closed", "End"));
});

Deno.test("Pings gives up after the timeout, and an answer after that is nothing", async () => {
  const clock = new VirtualClock();
  const pings = new Pings(clock);
  const { token, answer } = pings.begin("a", 250);
  const rejected = assertRejects(() => answer, TokenplaneError, "no answer in 250 ms");
  clock.advance(249);
  assertEquals(pings.waiting, 1);
  clock.advance(1);
  assertEquals((await rejected).code, "timeout");
  assertEquals(pings.handlePong(token), false);
});

Deno.test("Pings fails those of one peer, or all", async () => {
  const clock = new VirtualClock();
  const pings = new Pings(clock);
  const [a, b, c] = ["a", "b", "c"].map((peer) => pings.begin(peer, 1_000).answer);
  const error = new TokenplaneError("connection", "Lost");
  const lost = assertRejects(() => a!, TokenplaneError, "Lost");
  pings.fail("a", error);
  await lost;
  assertEquals(pings.waiting, 2);
  const others = Promise.allSettled([b, c]);
  pings.fail(null, error);
  assertEquals((await others).map(({ status }) => status), ["rejected", "rejected"]);
  assertEquals([pings.waiting, clock.pendingTimers], [0, 0]);
});
