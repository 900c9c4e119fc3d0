/** Small files that may be missing, vanish while they are read, or belong to somebody else. */
import { readFileSync } from "node:fs";

const NOT_FOR_US = new Set(["ENOENT", "ENOTDIR", "ESRCH", "EACCES", "EPERM"]);

/** The bytes of a file, or undefined when it is not there or not ours to read. */
export function bytesOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch (error) {
    if (NOT_FOR_US.has(errorCode(error))) return undefined;
    throw error;
  }
}

/** The text of a file, or undefined when it is not there or not ours to read. */
export function textOf(file: string): string | undefined {
  return bytesOf(file)?.toString("utf8");
}

/** The system's name of an error ("ENOENT"), or "" when it has none. */
export function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
