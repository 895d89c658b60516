/**
 * ai-dynamo/dynamo#14750: on one plane the type of a worker's error was lost, and a client whose request was wrong got 500
 * instead of 400. Fails when a refusal loses its type on its way to the client, by acknowledgement or by stream, or when
 * the worker's words about itself reach the client.
 */
import { assertEquals } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { withFrontend } from "../support/frontend_harness.ts";

const CODES = [
  ["invalid_request", 400, "invalid_request_error"],
  ["model_not_found", 404, "invalid_request_error"],
  ["too_large", 413, "invalid_request_error"],
  ["overloaded", 429, "overloaded_error"],
  ["unavailable", 503, "service_unavailable_error"],
  ["timeout", 504, "internal_server_error"],
  ["internal", 500, "internal_server_error"],
] as const;

for (const [code, status, type] of CODES) {
  Deno.test(`Frontend keeps the type of a refusal by acknowledgement, ${code}`, () =>
    withFrontend({}, async (harness) => {
      harness.messenger.onAckRequest = () =>
        Promise.reject(new TokenplaneError("remote", `${code}: what the worker says of itself`));
      const response = await harness.post();
      const body = await response.text();
      assertEquals([response.status, JSON.parse(body).error.type], [status, type]);
      assertEquals(body.includes("of itself"), false);
    }));
}

for (const status of [400, 401, 404, 422, 429, 500, 503]) {
  Deno.test(`Frontend keeps status and body of an engine's refusal by stream, ${status}`, () =>
    withFrontend({}, async (harness) => {
      const body = JSON.stringify({ error: { message: "engine", type: "t", param: null, code: "c" } });
      const pending = harness.post();
      const stream = await harness.nextStream();
      stream.head(status, "application/json").data(body).summary("upstream_error", []).end().flush();
      const response = await pending;
      assertEquals([response.status, await response.text()], [status, body]);
    }));
}
