/** Small questions to the disk that several files of this room ask. */
import { lstat, open } from "node:fs/promises";
import { placeOf } from "./raw-path.ts";

/** What stands at a path below a directory; a link is not followed. */
export async function kindAt(
  directory: string,
  path: string,
): Promise<"directory" | "other" | undefined> {
  const facts = await lstat(placeOf(directory, path)).catch(absent);
  if (facts === undefined) return undefined;
  return facts.isDirectory() ? "directory" : "other";
}

/** For a catch: undefined when there is no such file, anything else is thrown on. */
export function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
  throw error;
}

/** Makes a file, or what was renamed in a directory, durable; what is gone needs no flush. */
export async function flush(path: string | Buffer): Promise<void> {
  const file = await open(path, "r").catch(absent);
  if (file === undefined) return;
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
