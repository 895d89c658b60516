import { assertEquals } from "@std/assert";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import { portableEgress } from "../../src/frontend/egress/portable_sink.ts";

Deno.test("chooseEgress takes the portable sink when told to", async () => {
  assertEquals(await chooseEgress("portable"), portableEgress);
});
