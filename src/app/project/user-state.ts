/**
 * What Perdure keeps for a user of this machine, outside every project: small files that only this
 * user can read. Among them is one for each project in which the user has runs; a command that writes
 * to a project's journal remembers the project.
 *
 * Owns: where the files are, that a file is complete whenever it exists, and the list of projects.
 * Does not: keep anything that a run needs. Without these files everything still runs, and a project
 * that is missing shows up again when it is used.
 * Invariants:
 * - app/P1 A list of projects that cannot be written or read never stops a command.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, isAbsolute, join } from "node:path";
import { stateDirOf } from "../../engine/state-dir.ts";
import { textOf } from "../../runner/file-text.ts";
import { sha256 } from "../../util/json.ts";

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;

/** The directory of these files; `parts` name one of them. */
export function userStatePath(...parts: readonly string[]): string {
  const { XDG_STATE_HOME = "" } = process.env;
  const base = isAbsolute(XDG_STATE_HOME) ? XDG_STATE_HOME : join(homedir(), ".local", "state");
  return join(base, "perdure", ...parts);
}

/** Writes a file for this user alone; readers see the old text or the new one. */
export function writeUserState(parts: readonly string[], text: string): void {
  mkdirSync(userStatePath(...parts.slice(0, -1)), { recursive: true, mode: PRIVATE_DIRECTORY });
  const path = userStatePath(...parts);
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, text, { mode: PRIVATE_FILE });
  renameSync(draft, path);
}

/** The text of such a file; undefined when there is none. */
export function readUserState(...parts: readonly string[]): string | undefined {
  return textOf(userStatePath(...parts));
}

const FOLDER = "projects";
const KEY_LENGTH = 16;
/** A project whose journal is gone is forgotten after this time: a disk may be mounted again. */
const FORGET_AFTER_MS = 7 * 24 * 3_600_000;
/** How many projects are listed, those that were used last. */
const PROJECTS_MAX = 500;

/** The key of the project in a directory: short, and safe in an address. */
export function projectKey(directory: string): string {
  return sha256(directory).slice(0, KEY_LENGTH);
}

/** Remembers the project in this directory. */
export function rememberProject(directory: string): void {
  const key = projectKey(directory);
  try {
    if (!existsSync(userStatePath(FOLDER, key))) writeUserState([FOLDER, key], directory);
  } catch (error) {
    // No home directory, a full or read-only disk: only the list misses it (app/P1).
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
}

/** The directories of the known projects that have a journal, the one used last first. */
export function knownProjects(): readonly string[] {
  const found: { readonly directory: string; readonly usedAt: number }[] = [];
  for (const key of remembered()) {
    const directory = readUserState(FOLDER, key) ?? "";
    if (projectKey(directory) !== key) continue;
    const { database } = stateDirOf(directory);
    const stats = statSync(database, { throwIfNoEntry: false });
    if (stats === undefined) forgetOld(key);
    else found.push({ directory, usedAt: stats.mtimeMs });
  }
  return found
    .sort((one, other) => other.usedAt - one.usedAt)
    .slice(0, PROJECTS_MAX)
    .map(({ directory }) => directory);
}

function remembered(): readonly string[] {
  try {
    return readdirSync(userStatePath(FOLDER)).filter((name) => name.length === KEY_LENGTH);
  } catch {
    return [];
  }
}

function forgetOld(key: string): void {
  const path = userStatePath(FOLDER, key);
  try {
    if (Date.now() - statSync(path).mtimeMs > FORGET_AFTER_MS) unlinkSync(path);
  } catch {
    // Another process has removed it.
  }
}

/** The name of a project for people: that of its directory. */
export function projectName(directory: string): string {
  return basename(directory) || directory;
}
