/** Runs a program where UCX is not installed: as things are, or in a mount namespace that hides the library. */

/** Hides every libucp in a copy-on-write layer that only the program started after it sees. */
const HIDE = `set -e
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay none -o lowerdir="$1",upperdir=/mnt/upper,workdir=/mnt/work "$1"
rm -f "$1"/libucp.so.*
umount -l /mnt
shift
exec "$@"`;

/** Folders where the loader would find it. */
const FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib"];

/**
 * What goes before a command so that it runs without UCX: nothing where there is none. Null when it cannot be hidden,
 * which takes root and `unshare`.
 */
export function hideUcx(): readonly string[] | null {
  const folders = FOLDERS.filter(hasUcx);
  if (folders.length === 0) return [];
  if (folders.length > 1) return null;
  const prefix = ["unshare", "-m", "sh", "-c", HIDE, "hide", folders[0]!];
  try {
    const looked = new Deno.Command(prefix[0]!, {
      args: [...prefix.slice(1), "ls", folders[0]!],
      stdin: "null",
      stderr: "null",
    }).outputSync();
    return looked.success && !/libucp\.so\./.test(new TextDecoder().decode(looked.stdout)) ? prefix : null;
  } catch {
    return null;
  }
}

function hasUcx(folder: string): boolean {
  try {
    return [...Deno.readDirSync(folder)].some(({ name }) => name.startsWith("libucp.so."));
  } catch {
    return false;
  }
}
