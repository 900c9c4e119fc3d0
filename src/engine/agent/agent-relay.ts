/**
 * The file with which one conversation hands a task over to the next.
 *
 * Owns: its path, its validity, and the copy that the journal names.
 * Does not: ask for it (agent-prompt.ts) or decide what follows.
 * Invariants:
 * - engine/B4 The journal names a handover only after a copy of it, with that hash, is on the disk;
 *   the file in the working tree may change or disappear.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join, relative } from "node:path";
import type { AttemptRef, Output } from "../../core/event.ts";
import { visitText } from "../../core/step-path.ts";
import { textOf } from "../../runner/file-text.ts";
import { sha256 } from "../../util/json.ts";
import { LaunchError } from "../launch.ts";
import { RELAY_SECTIONS } from "./agent-prompt.ts";

const FOLDER = ".perdure-relay";
const COPY = "relay.md";
const CHARACTERS_MIN = 40;
const CHARACTERS_MAX = 256 * 1024;

/** The file in the working tree, which the agent may write; git ignores its folder. */
export function relayFileIn(cwd: string, at: AttemptRef): string {
  const name = visitText(at).replace(/[^A-Za-z0-9._@-]/g, "_");
  return join(cwd, FOLDER, `${name}.md`);
}

/** Makes the folder; returns the path of the file for the prompt. */
export function prepareRelay(cwd: string, at: AttemptRef): string {
  const folder = join(cwd, FOLDER);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, ".gitignore"), "*\n");
  return relative(cwd, relayFileIn(cwd, at));
}

/** Copies the handover from the file or the answer to the attempt's folder, or says its fault. */
export function takeRelay(
  cwd: string,
  at: AttemptRef,
  dir: string,
  said: string,
): Output | { readonly problem: string } {
  const written = textOf(relayFileIn(cwd, at));
  const problems = [written, said].map(problemOf);
  const text = problems[0] === undefined ? written : problems[1] === undefined ? said : undefined;
  if (text === undefined) {
    const which = written === undefined ? problems[1] : problems[0];
    return { problem: `the notes for the next conversation are not good: ${which}` };
  }
  return keepNotes(dir, text);
}

/**
 * Writes notes to the folder of an attempt and flushes them, before the journal names them
 * (engine/B4).
 */
export function keepNotes(dir: string, text: string): Output {
  const path = join(dir, COPY);
  const fd = openSync(path, "w", 0o600);
  try {
    writeSync(fd, text);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  return { path, sha256: sha256(text), bytes: Buffer.byteLength(text) };
}

/** The text of a handover, verified against the hash in the journal. */
export function readRelay({ path, sha256: expected }: Output): string {
  const text = textOf(path);
  if (text !== undefined && sha256(text) === expected) return text;
  const state = text === undefined ? "is gone" : "was changed";
  throw new LaunchError(`it should continue from the notes ${path}, but the file ${state}`);
}

function problemOf(text: string | undefined): string | undefined {
  if (text === undefined) return "there are none";
  if (text.trim().length < CHARACTERS_MIN) return "they are too short";
  if (text.length > CHARACTERS_MAX) return `they are longer than ${CHARACTERS_MAX} characters`;
  const missing = RELAY_SECTIONS.find((section) => !hasSection(text, section));
  return missing === undefined ? undefined : `the part "${missing}" is missing or empty`;
}

/** True for a heading of any level with text below it. */
function hasSection(text: string, section: string): boolean {
  const lines = text.split("\n").map((line) => line.trim());
  const isHeading = (line: string): boolean => line.startsWith("#");
  const start = lines.findIndex(
    (line) => isHeading(line) && line.toLowerCase().includes(section.toLowerCase()),
  );
  if (start < 0) return false;
  const end = lines.findIndex((line, index) => index > start && isHeading(line));
  return lines.slice(start + 1, end < 0 ? undefined : end).some((line) => line !== "");
}
