/** What a reader of results must know of the machine. */

import { findTool } from "./tools.ts";

/** The machine in one line, and the parts of it. */
export interface Machine {
  readonly cores: number;
  readonly cpu: string;
  readonly kernel: string;
  readonly deno: string;
}

/** Reads what this machine says about itself. */
export function describeMachine(): Machine {
  return {
    cores: navigator.hardwareConcurrency,
    cpu: cpuModel(),
    kernel: Deno.osRelease(),
    deno: Deno.version.deno,
  };
}

/** One line for a report. */
export function machineLine(machine: Machine): string {
  return `${machine.cores} cores (${machine.cpu}), Linux ${machine.kernel}, Deno ${machine.deno}`;
}

/** Where processes may run, as `taskset -c` writes it; null is anywhere. */
export interface Cores {
  readonly relay: string | null;
  readonly others: string | null;
}

/**
 * The relay alone on the first core, everything else on the rest, unless the caller names cores (empty: not named). No
 * pinning on a single core or without `taskset`.
 */
export async function chooseCores(relay = "", others = ""): Promise<Cores> {
  const count = navigator.hardwareConcurrency;
  if (count < 2 || await findTool("taskset") === null) return { relay: null, others: null };
  const rest = count === 2 ? "1" : `1-${count - 1}`;
  return { relay: relay === "" ? "0" : relay, others: others === "" ? rest : others };
}

function cpuModel(): string {
  try {
    return /^model name\s*:\s*(.+)$/m.exec(Deno.readTextFileSync("/proc/cpuinfo"))?.[1] ?? Deno.build.arch;
  } catch {
    return Deno.build.arch;
  }
}
