/** What Linux says about processes in `/proc`: CPU time and memory of one process with its threads and children. */

/** Clock ticks a second in `/proc/PID/stat`. Part of the kernel's interface: 100 on every platform Deno runs on. */
const TICKS_PER_SECOND = 100;

/** One process's line of `/proc/PID/stat`, as far as we use it. Times in seconds. */
export interface ProcessStat {
  readonly parent: number;
  /** User and system time of all threads. */
  readonly cpuSeconds: number;
  /** The same of children that ended and were waited for. */
  readonly endedChildrenCpuSeconds: number;
}

/** Memory of one process or of a tree, in bytes. */
export interface Memory {
  readonly rss: number;
  /** The largest RSS so far; summed over a tree it is an upper bound. */
  readonly peak: number;
}

/** Parses `/proc/PID/stat`. Null when the text is not one. The process's name may hold spaces and brackets. */
export function parseStat(text: string): ProcessStat | null {
  const fields = text.slice(text.lastIndexOf(")") + 2).trim().split(" ");
  const at = (index: number) => Number(fields[index - 3]); // numbered as in proc(5); "state" is field 3
  const [parent, user, system, endedUser, endedSystem] = [at(4), at(14), at(15), at(16), at(17)];
  if (!text.includes(")") || [parent, user, system, endedUser, endedSystem].some(Number.isNaN)) return null;
  return {
    parent: parent!,
    cpuSeconds: (user! + system!) / TICKS_PER_SECOND,
    endedChildrenCpuSeconds: (endedUser! + endedSystem!) / TICKS_PER_SECOND,
  };
}

/** Parses the memory lines of `/proc/PID/status`. Zero for lines that are not there (a zombie has none). */
export function parseMemory(text: string): Memory {
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0);
  return { rss: kib("VmRSS") * 1024, peak: kib("VmHWM") * 1024 };
}

/** Busy time of all cores in seconds, from the first line of `/proc/stat`: user, nice, system and stolen time. */
export function parseBusySeconds(text: string): number {
  const cells = (text.split("\n", 1)[0] ?? "").trim().split(/\s+/).slice(1).map(Number);
  return ((cells[0] ?? 0) + (cells[1] ?? 0) + (cells[2] ?? 0) + (cells[7] ?? 0)) / TICKS_PER_SECOND;
}

/** CPU seconds used so far by the processes named and everything they started. */
export function treeCpuSeconds(roots: readonly number[]): number {
  const stats = readAllStats();
  let sum = 0;
  for (const pid of treeOf(roots, stats)) {
    const stat = stats.get(pid);
    if (stat !== undefined) sum += stat.cpuSeconds + stat.endedChildrenCpuSeconds;
  }
  return sum;
}

/** Memory held now by the processes named and everything they started. */
export function treeMemory(roots: readonly number[]): Memory {
  let rss = 0;
  let peak = 0;
  for (const pid of treeOf(roots, readAllStats())) {
    const memory = parseMemory(readOrEmpty(`/proc/${pid}/status`));
    rss += memory.rss;
    peak += memory.peak;
  }
  return { rss, peak };
}

/** Busy seconds of the whole machine so far. */
export function machineBusySeconds(): number {
  return parseBusySeconds(readOrEmpty("/proc/stat"));
}

/** The roots and their descendants, given every process's parent. */
export function treeOf(roots: readonly number[], stats: ReadonlyMap<number, ProcessStat>): Set<number> {
  const tree = new Set(roots);
  for (let before = -1; before !== tree.size;) {
    before = tree.size;
    for (const [pid, stat] of stats) if (tree.has(stat.parent)) tree.add(pid);
  }
  return tree;
}

function readAllStats(): Map<number, ProcessStat> {
  const stats = new Map<number, ProcessStat>();
  for (const entry of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(entry.name)) continue;
    const stat = parseStat(readOrEmpty(`/proc/${entry.name}/stat`));
    if (stat !== null) stats.set(Number(entry.name), stat);
  }
  return stats;
}

/** A process may end between being listed and being read. */
function readOrEmpty(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
