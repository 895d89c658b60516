/** Error answers of an engine: OpenAI's nested body, because the official clients read that one best. */
import type { EngineOutput, EngineSummary } from "./engine.ts";

/** The fields of OpenAI's error object. */
export interface ApiError {
  readonly message: string;
  /** `invalid_request_error`, `server_error`, … */
  readonly type: string;
  /** The request field at fault. */
  readonly param?: string;
  readonly code?: string;
}

const encoder = new TextEncoder();

/** Encodes `{"error":{"message","type","param","code"}}`. */
export function encodeApiError(error: ApiError): Uint8Array {
  const { message, type, param = null, code = null } = error;
  return encoder.encode(JSON.stringify({ error: { message, type, param, code } }));
}

/** Writes a whole error response: head, body, end. For a response whose head has not been written yet. */
export function sendApiError(
  output: EngineOutput,
  status: number,
  error: ApiError,
  outcome: EngineSummary["outcome"],
  detail: string = error.message,
): void {
  output.head(status, "application/json");
  output.data(encodeApiError(error));
  output.end({ outcome, usage: null, finishReasons: [], detail });
}
