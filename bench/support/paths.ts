/** Files of the repository, wherever it was cloned to. */

import { fileURLToPath } from "node:url";

/** A file URL as a path. */
export function fromFileUrl(url: URL): string {
  return fileURLToPath(url);
}

/** The program's entry point. */
export const MAIN_TS: string = fromFileUrl(new URL("../../main.ts", import.meta.url));

/** Where results go; made on demand, not in git. */
export const OUT_DIR: string = fromFileUrl(new URL("../out/", import.meta.url));
