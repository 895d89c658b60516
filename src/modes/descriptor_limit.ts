/**
 * How many client connections the process can afford. Clients that hold every descriptor would leave none for the lanes
 * to workers: those could not be dialled again, and workers that work would be taken for lost.
 */

/** Descriptors kept for everything that is no client, for the process and for each shard's lanes. */
const KEPT_BY_PROCESS = 32;
const KEPT_PER_SHARD = 16;
/** A client's own, and the duplicate that direct egress sends through. */
const PER_CLIENT = 2;

/** Connections per shard: what was asked for, or less when descriptors (`limit`, infinite when unknown) are few. */
export function affordableConnections(wanted: number, shards: number, limit: number): number {
  const free = (limit - KEPT_BY_PROCESS) / shards - KEPT_PER_SHARD;
  return Math.min(wanted, Math.max(1, Math.floor(free / PER_CLIENT)));
}

/** Descriptors that this process may have; infinite where that cannot be told. */
export function descriptorLimit(): number {
  try {
    return readLimit(Deno.readTextFileSync("/proc/self/limits"));
  } catch {
    return Infinity; // no such file on this system
  }
}

/** The soft limit in the text of `/proc/PID/limits`. */
export function readLimit(limits: string): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Infinity : Number(soft);
}
