/** Files that steps hand on, with what proves that they are still the same. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

export interface FileFacts {
  readonly path: string;
  readonly sha256: string;
  readonly bytes: number;
}

/** Hash and size of a file, or undefined when there is no such file. */
export async function describeFile(path: string): Promise<FileFacts | undefined> {
  const facts = await stat(path).catch(missing);
  if (facts === undefined || !facts.isFile()) return undefined;
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return { path, sha256: hash.digest("hex"), bytes: facts.size };
}

function missing(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
  throw error;
}
