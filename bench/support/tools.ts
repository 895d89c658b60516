/** Programs of the machine that the benchmarks use when they are there. */

const PLACES = [...(Deno.env.get("PATH") ?? "").split(":"), "/usr/sbin", "/usr/local/sbin"];

/** Where a program is, on PATH or among the system's server programs; null when it is not installed. */
export async function findTool(name: string): Promise<string | null> {
  for (const place of PLACES) {
    if (place === "") continue;
    try {
      const path = `${place}/${name}`;
      if ((await Deno.stat(path)).isFile) return path;
    } catch {
      // not in this place
    }
  }
  return null;
}

/** A line that says which program is missing and how it is installed on Debian. */
export function missingTool(name: string, packages: string): string {
  return `"${name}" is not installed: apt-get install ${packages}`;
}

/** A TCP port on loopback that was free a moment ago. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
