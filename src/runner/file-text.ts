/**
 * Reads small files that may be missing, disappear during the read, or belong to another user.
 *
 * Owns: reading without blocking. A FIFO, a socket or a device instead of a file is refused.
 * Does not: know the content of the files.
 */
import { closeSync, constants, fchmodSync, fstatSync, openSync, readSync } from "node:fs";

const UNREADABLE = new Set([
  ...["ENOENT", "ENOTDIR", "ESRCH", "EACCES", "EPERM", "ELOOP", "ENAMETOOLONG"],
  // A socket, or a device that does not exist.
  "ENXIO",
]);
const OTHERS = 0o077;
const OWNER_ONLY = 0o600;

/** The bytes of a file; undefined if it does not exist, is not a file, or cannot be read. */
export function bytesOf(file: string): Buffer | undefined {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return fstatSync(fd).isFile() ? allOf(fd) : undefined;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (UNREADABLE.has(errorCode(error))) return undefined;
    throw error;
  }
}

/** Shared by all reads: Node would allocate as much for each file in /proc. */
const chunk = Buffer.allocUnsafe(64 * 1024);

function allOf(fd: number): Buffer {
  let bytes = Buffer.alloc(0);
  for (;;) {
    const length = readSync(fd, chunk, 0, chunk.length, null);
    if (length === 0) return bytes;
    bytes = Buffer.concat([bytes, chunk.subarray(0, length)]);
  }
}

/** A file that a step may have written; `problem` completes "what it wrote to X". */
type LeftFile =
  | { readonly there: false }
  | { readonly there: true; readonly text: string }
  | { readonly there: true; readonly problem: string };

/** Reads a file that a step may have written, and makes it private to its owner. */
export function readLeft(file: string, bytesMax: number): LeftFile {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return { there: false };
    if (code === "ENXIO") return { there: true, problem: "is no file" };
    if (code === "EACCES" || code === "EPERM") return { there: true, problem: "cannot be read" };
    throw error;
  }
  try {
    const { mode, size } = fstatSync(fd);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) {
      return { there: true, problem: "is no file" };
    }
    if ((mode & OTHERS) !== 0) fchmodSync(fd, OWNER_ONLY);
    if (size > bytesMax) return { there: true, problem: `has more than ${bytesMax} bytes` };
    return { there: true, text: allOf(fd).toString("utf8") };
  } finally {
    closeSync(fd);
  }
}

/** The text of a file; undefined if it does not exist, is not a file, or cannot be read. */
export function textOf(file: string): string | undefined {
  return bytesOf(file)?.toString("utf8");
}

/** The system's code of an error ("ENOENT"), or "" when it has none. */
export function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
