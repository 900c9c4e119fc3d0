/**
 * What Perdure keeps for a user of this machine, outside every project: small files that only this
 * user can read.
 *
 * Owns: where they are, and that a file is there whole or not at all.
 * Does not: keep anything that a run needs. Without these files everything still runs.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { textOf } from "../../runner/file-text.ts";

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
