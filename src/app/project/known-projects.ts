/**
 * The projects of this machine in which this user has runs: one small file for each, in the user's
 * state directory. A command that writes to a project's journal remembers the project.
 *
 * Owns: this list.
 * Does not: keep anything of a run. A project that is missing here shows up again when it is used.
 * Invariants:
 * - app/P1 A list that cannot be written or read never stops a command.
 */
import { existsSync, readdirSync, statSync, unlinkSync } from "node:fs";
import { basename } from "node:path";
import { stateDirOf } from "../../engine/state-dir.ts";
import { sha256 } from "../../util/json.ts";
import { readUserState, userStatePath, writeUserState } from "./user-state.ts";

const FOLDER = "projects";
const KEY_LENGTH = 16;
/** A project whose journal is gone is forgotten after this time: a disk may be mounted again. */
const FORGET_AFTER_MS = 7 * 24 * 3_600_000;
/** More projects than this are not listed; those that were used last come first. */
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
    const facts = statSync(database, { throwIfNoEntry: false });
    if (facts === undefined) forgetOld(key);
    else found.push({ directory, usedAt: facts.mtimeMs });
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
