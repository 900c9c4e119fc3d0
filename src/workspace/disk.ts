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

/** Makes what was renamed or removed in a directory durable. */
export async function flushDirectory(path: string | Buffer): Promise<void> {
  const directory = await open(path, "r").catch(absent);
  if (directory === undefined) return;
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
