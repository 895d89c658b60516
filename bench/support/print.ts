/** Output of the benchmark programs: plain lines, written at once. */

const encoder = new TextEncoder();

/** Writes one line to stdout. */
export function print(line: string): void {
  writeAll(Deno.stdout, `${line}\n`);
}

/** Writes one line to stderr: progress and warnings, so that stdout can be kept as a report. */
export function note(line: string): void {
  writeAll(Deno.stderr, `${line}\n`);
}

function writeAll(to: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(to.writeSync(bytes));
}
