import { assertEquals, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { checkFrontendOptions, DEFAULT_FRONTEND_OPTIONS } from "../../src/frontend/options.ts";

Deno.test("checkFrontendOptions names the setting, its value and what is allowed", () => {
  assertEquals(checkFrontendOptions({}), DEFAULT_FRONTEND_OPTIONS);
  const cases = [
    [{ maxStreams: 0 }, "Cannot use maxStreams 0: it must be 1 or more"],
    [{ stallTimeoutMs: -1 }, "Cannot use stallTimeoutMs -1: it must be a whole number from 0"],
    [{ maxBodyBytes: 16 * 1024 * 1024 }, "Cannot use maxBodyBytes 16777216: it must be at most 15728640"],
    [{ maxBodyBytesInFlight: 10 }, "Cannot use maxBodyBytesInFlight 10: it must be at least maxBodyBytes"],
  ] as const;
  for (const [options, message] of cases) {
    assertThrows(() => checkFrontendOptions(options), TokenplaneError, message);
  }
});
