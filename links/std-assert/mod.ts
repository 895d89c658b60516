/** The part of `@std/assert` in use here, on top of `node:assert`. */
import nodeAssert from "node:assert";
import { inspect } from "node:util";

/** Thrown by every function of this module. */
export const AssertionError: typeof nodeAssert.AssertionError = nodeAssert.AssertionError;

// deno-lint-ignore no-explicit-any
type ErrorClass<E extends Error> = abstract new (...args: any[]) => E;

function stop(what: string, msg: string | undefined): never {
  throw new nodeAssert.AssertionError({ message: msg === undefined ? what : `${what}: ${msg}` });
}

function show(value: unknown): string {
  return inspect(value, { depth: 4, breakLength: 100 });
}

/** Fails always. */
export function fail(msg?: string): never {
  stop("Failed assertion", msg);
}

/** Holds when `expr` is truthy. */
export function assert(expr: unknown, msg = ""): asserts expr {
  if (!expr) throw new nodeAssert.AssertionError({ message: msg });
}

/** Holds when `expr` is falsy. */
export function assertFalse(expr: unknown, msg?: string): void {
  if (expr) stop(`Expected a falsy value, got ${show(expr)}`, msg);
}

/** Deep equality. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  try {
    nodeAssert.deepStrictEqual(actual, expected);
  } catch (caught) {
    stop((caught as Error).message, msg);
  }
}

/** Deep inequality. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  try {
    nodeAssert.notDeepStrictEqual(actual, expected);
  } catch (caught) {
    stop((caught as Error).message, msg);
  }
}

/** `actual instanceof expectedType`. */
export function assertInstanceOf<E>(
  actual: unknown,
  // deno-lint-ignore no-explicit-any
  expectedType: abstract new (...args: any[]) => E,
  msg?: string,
): asserts actual is E {
  if (!(actual instanceof expectedType)) stop(`Expected a ${expectedType.name}, got ${show(actual)}`, msg);
}

/** `actual` contains `expected`. */
export function assertStringIncludes(actual: string, expected: string, msg?: string): void {
  if (!actual.includes(expected)) stop(`Expected ${show(actual)} to contain ${show(expected)}`, msg);
}

/** `actual` matches `expected`. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  if (actual.search(expected) < 0) stop(`Expected ${show(actual)} to match ${expected}`, msg);
}

/** `actual < expected`. */
export function assertLess<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual < expected)) stop(`Expected ${show(actual)} < ${show(expected)}`, msg);
}

/** `actual <= expected`. */
export function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual <= expected)) stop(`Expected ${show(actual)} <= ${show(expected)}`, msg);
}

function checkThrown<E extends Error>(
  caught: unknown,
  errorClass: ErrorClass<E> | undefined,
  msgIncludes: string | undefined,
  msg: string | undefined,
): void {
  if (errorClass === undefined) return;
  if (!(caught instanceof Error)) stop(`Expected an error object to be thrown, got ${show(caught)}`, msg);
  if (!(caught instanceof errorClass)) stop(`Expected a ${errorClass.name}, got ${show(caught)}`, msg);
  if (msgIncludes !== undefined && !caught.message.includes(msgIncludes)) {
    stop(`Expected the message ${show(caught.message)} to contain ${show(msgIncludes)}`, msg);
  }
}

/** `fn` throws; with a class, an instance of it whose message contains `msgIncludes`. Returns what was thrown. */
export function assertThrows(fn: () => unknown, msg?: string): unknown;
export function assertThrows<E extends Error>(
  fn: () => unknown,
  errorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): E;
export function assertThrows<E extends Error>(
  fn: () => unknown,
  classOrMsg?: ErrorClass<E> | string,
  msgIncludes?: string,
  msg?: string,
): unknown {
  const errorClass = typeof classOrMsg === "string" ? undefined : classOrMsg;
  const note = typeof classOrMsg === "string" ? classOrMsg : msg;
  try {
    fn();
  } catch (caught) {
    checkThrown(caught, errorClass, msgIncludes, note);
    return caught;
  }
  stop("Expected function to throw", note);
}

/** `fn` returns a promise that rejects; otherwise as {@linkcode assertThrows}. */
export function assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
export function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  errorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export async function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  classOrMsg?: ErrorClass<E> | string,
  msgIncludes?: string,
  msg?: string,
): Promise<unknown> {
  const errorClass = typeof classOrMsg === "string" ? undefined : classOrMsg;
  const note = typeof classOrMsg === "string" ? classOrMsg : msg;
  let promise: PromiseLike<unknown>;
  try {
    promise = fn();
  } catch (caught) {
    stop(`Expected a promise to reject, but the function threw ${show(caught)}`, note);
  }
  try {
    await promise;
  } catch (caught) {
    checkThrown(caught, errorClass, msgIncludes, note);
    return caught;
  }
  stop("Expected function to reject", note);
}
