/** Ports that a program is told, where 0 will not do. */

/** Below those that the kernel gives to connections by itself, which could take one at any time. */
const LOWEST = 10_000;
const HIGHEST = 32_000;

/** The first of `count` ports in a row that are free on loopback now. */
export function freePorts(count: number): number {
  for (;;) {
    const first = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    const listeners: Deno.Listener[] = [];
    try {
      for (let i = 0; i < count; i++) listeners.push(Deno.listen({ hostname: "127.0.0.1", port: first + i }));
      return first;
    } catch {
      // One of them is taken.
    } finally {
      for (const listener of listeners) listener.close();
    }
  }
}
