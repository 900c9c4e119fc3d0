/**
 * Paths as bytes, and small functions that several files of this room use. A file name need
 * not be UTF-8, so in this room a path is a string with one character per byte ("latin1"), and
 * becomes text only for people.
 *
 * Owns: the conversions of paths.
 * Does not: know what a snapshot is.
 */
import { type Dirent, readdirSync } from "node:fs";
import { lstat, open } from "node:fs/promises";

/** A path relative to a workspace, one character per byte. */
export type RawPath = string & { readonly __brand: "RawPath" };

const SLASH = Buffer.from("/");

/** The raw path of a text such as an author writes. */
export function rawPath(text: string): RawPath {
  return Buffer.from(text, "utf8").toString("latin1") as RawPath;
}

/** The bytes of a raw path. */
function bytesOf(path: string): Buffer {
  return Buffer.from(path, "latin1");
}

/** A raw path below a directory, for the functions of node:fs. */
export function pathUnder(directory: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(directory), SLASH, bytesOf(path)]);
}

/** The path as text; bytes that are not UTF-8 are shown as \xNN. */
export function shownPath(path: string): string {
  const bytes = bytesOf(path);
  const text = bytes.toString("utf8");
  if (Buffer.from(text, "utf8").equals(bytes)) return text;
  return path.replace(/[^\x20-\x7e]/g, (byte) => {
    return `\\x${byte.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}

/** The items of git's output with -z, as raw paths. */
export function splitNul(output: Buffer): readonly RawPath[] {
  if (output.length === 0) return [];
  const items = output.toString("latin1").split("\0");
  if (items.at(-1) === "") items.pop();
  return items as RawPath[];
}

/** Paths as input for a git command with -z. */
export function joinNul(paths: Iterable<string>): Buffer {
  return bytesOf([...paths].map((path) => `${path}\0`).join(""));
}

/** The directory of a raw path, "" for one at the top. */
export function directoryOf(path: string): RawPath {
  return path.slice(0, Math.max(0, path.lastIndexOf("/"))) as RawPath;
}

/** The directories above a raw path, nearest first, without the top. */
export function directoriesAbove(path: string): readonly RawPath[] {
  const above: RawPath[] = [];
  for (let at = directoryOf(path); at !== ""; at = directoryOf(at)) above.push(at);
  return above;
}

/** The kind of entry at a path below a directory; a link is not followed. */
export async function kindAt(
  directory: string,
  path: string,
): Promise<"directory" | "other" | undefined> {
  const facts = await lstat(pathUnder(directory, path)).catch(absent);
  if (facts === undefined) return undefined;
  return facts.isDirectory() ? "directory" : "other";
}

/** For a catch: undefined when there is no such file; throws any other error. */
export function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
  throw error;
}

/** What a directory contains; nothing if it does not exist. */
export function entriesIn(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    return absent(error as NodeJS.ErrnoException) ?? [];
  }
}

/** True when no process has this id. */
export function isDead(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Makes a file, or the renames in a directory, durable; a missing one needs no flush. */
export async function flush(path: string | Buffer): Promise<void> {
  const file = await open(path, "r").catch(absent);
  if (file === undefined) return;
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
