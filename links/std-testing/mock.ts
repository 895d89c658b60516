/** The part of `@std/testing/mock` in use here. */
import nodeAssert from "node:assert";

/** One call that a spy saw. */
export interface SpyCall {
  args: unknown[];
  returned?: unknown;
  error?: unknown;
}

/** A function that remembers its calls. */
export interface Spy<A extends unknown[] = unknown[], R = unknown> {
  (...args: A): R;
  calls: SpyCall[];
}

/** A replaced method; `restore` (or `using`) puts the original back. */
export interface Stub<A extends unknown[] = unknown[], R = unknown> extends Spy<A, R>, Disposable {
  restored: boolean;
  restore(): void;
}

/** Wraps a function, or makes one that does nothing. */
export function spy<A extends unknown[], R = undefined>(fn?: (...args: A) => R): Spy<A, R> {
  const calls: SpyCall[] = [];
  const wrapped = function (this: unknown, ...args: A): R {
    const call: SpyCall = { args };
    calls.push(call);
    try {
      const returned = fn?.apply(this, args) as R;
      call.returned = returned;
      return returned;
    } catch (caught) {
      call.error = caught;
      throw caught;
    }
  };
  return Object.assign(wrapped, { calls });
}

/** Replaces a method of an object until it is restored. */
export function stub<T extends object, A extends unknown[], R>(
  self: T,
  method: keyof T,
  fn: (...args: A) => R,
): Stub<A, R> {
  const original = Object.getOwnPropertyDescriptor(self, method);
  const restore = () => {
    if (result.restored) {
      throw new Error(`Cannot restore: instance method "${String(method)}" already restored`);
    }
    if (original === undefined) delete self[method];
    else Object.defineProperty(self, method, original);
    result.restored = true;
  };
  const result: Stub<A, R> = Object.assign(spy(fn), { restored: false, restore, [Symbol.dispose]: restore });
  Object.defineProperty(self, method, { configurable: true, writable: true, value: result });
  return result;
}

/** Holds when the spy was called this many times. */
export function assertSpyCalls(fn: { calls: SpyCall[] }, expectedCalls: number): void {
  nodeAssert.strictEqual(
    fn.calls.length,
    expectedCalls,
    `Expected ${expectedCalls} calls, saw ${fn.calls.length}`,
  );
}
