/**
 * The structured log: one line per event, on stderr, as JSON or as text.
 *
 * An event has a fixed name in snake_case and fields. A field whose name says that it is a secret is written as
 * `[redacted]`; that is a net under the rule that nobody passes one. Nothing on the token's path logs.
 */

/** Levels, from most to least talkative; `silent` writes nothing. */
export const LOG_LEVELS = Object.freeze(["debug", "info", "warn", "error", "silent"] as const);
/** One of {@linkcode LOG_LEVELS}. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Forms of a line. */
export const LOG_FORMATS = Object.freeze(["text", "json"] as const);
/** One of {@linkcode LOG_FORMATS}. */
export type LogFormat = (typeof LOG_FORMATS)[number];

/** What an event says beside its name. Errors are written as their message, with code and cause. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes events of at least its level. */
export interface Logger {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  /** A logger that adds these fields to each of its events. */
  child(fields: LogFields): Logger;
}

/** Options of {@linkcode createLogger}. */
export interface LoggerOptions {
  /** Least level that is written. Default `info`. */
  level?: LogLevel;
  /** Default `text`. */
  format?: LogFormat;
  /** Takes one line, line feed included. Default: stderr, synchronously, failures ignored. */
  write?: (line: string) => void;
  /** The wall clock. */
  now?: () => Date;
}

/** Longest string value of one field, in UTF-16 units; the rest is cut off. A peer may have chosen the text. */
const MAX_VALUE_LENGTH = 2_048;
const SECRET_FIELD = /(?:authorization|api_?key|secret|token_?value|password)/i;

/** Makes a logger. */
export function createLogger(options: LoggerOptions = {}): Logger {
  const level = LOG_LEVELS.indexOf(options.level ?? "info");
  const line = (options.format ?? "text") === "json" ? jsonLine : textLine;
  const write = options.write ?? writeStderr;
  const now = options.now ?? (() => new Date());

  function make(base: LogFields): Logger {
    function at(name: LogLevel): (event: string, fields?: LogFields) => void {
      if (LOG_LEVELS.indexOf(name) < level) return ignore;
      return (event, fields) => write(line(now().toISOString(), name, event, { ...base, ...fields }) + "\n");
    }
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => make({ ...base, ...fields }),
    };
  }
  return make({});
}

/** Says nothing: the default where no logger is given. */
export const silentLogger: Logger = createLogger({ level: "silent" });

function ignore(): void {}

const encoder = new TextEncoder();

function writeStderr(line: string): void {
  try {
    let bytes = encoder.encode(line);
    while (bytes.length > 0) bytes = bytes.subarray(Deno.stderr.writeSync(bytes));
  } catch {
    // Whoever read the log is gone; serving matters more than telling.
  }
}

function jsonLine(time: string, level: LogLevel, event: string, fields: LogFields): string {
  const record: Record<string, unknown> = { time, level, event };
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) record[name in record ? `field_${name}` : name] = plain(name, value);
  }
  return JSON.stringify(record);
}

function textLine(time: string, level: LogLevel, event: string, fields: LogFields): string {
  let line = `${time} ${level.padEnd(5)} ${event}`;
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const shown = plain(name, value);
    const isBare = typeof shown !== "string" || /^[\w.:/@+-]+$/.test(shown);
    line += ` ${name}=${isBare && typeof shown === "string" ? shown : JSON.stringify(shown)}`;
  }
  return line;
}

/** A value that JSON can hold, whatever was given. */
function plain(name: string, value: unknown): unknown {
  const leaf = plainLeaf(name, value);
  if (typeof leaf !== "object" || leaf === null) return leaf;
  try {
    const text = JSON.stringify(leaf, plainLeaf);
    return text.length <= MAX_VALUE_LENGTH ? JSON.parse(text) : cut(text);
  } catch {
    return "[unprintable]"; // a cycle, or a getter that throws
  }
}

function plainLeaf(name: string, value: unknown): unknown {
  if (SECRET_FIELD.test(name)) return "[redacted]";
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "string") return cut(value);
  if (typeof value === "function") return "[function]";
  return value instanceof Error ? cut(errorText(value)) : value;
}

function errorText(error: Error): string {
  const code = (error as { code?: unknown }).code;
  let text = typeof code === "string" ? `${code}: ${error.message}` : error.message;
  if (error.cause instanceof Error && error.cause.message !== error.message) {
    text += ` (${error.cause.message})`;
  }
  return text;
}

function cut(text: string): string {
  return text.length <= MAX_VALUE_LENGTH ? text : `${text.slice(0, MAX_VALUE_LENGTH)}…`;
}
