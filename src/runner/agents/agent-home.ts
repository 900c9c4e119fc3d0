/**
 * Where agents keep their things, and what is put into their environment.
 *
 * Owns: the rule that the author's environment comes first, and the look into a transcript.
 * Does not: know any one agent's folders.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { homedir } from "node:os";
import { errorCode } from "../file-text.ts";
import type { AgentCommand } from "./adapter.ts";
import { objectIn } from "./stream-json.ts";

/** A conversation that has come further than this has something in it. */
const LOOK_BYTES_MAX = 1024 * 1024;

type Environment = Readonly<Record<string, string>>;

/** The variables of `wanted` that the author has not set. */
export function unlessSet(env: Environment, wanted: Environment): Record<string, string> {
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}

/** A folder that a variable names, or undefined where it is not set or empty. */
export function folderIn(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === "" ? undefined : value;
}

/** The home directory of a process with this environment. */
export function homeIn(env: Environment): string {
  return folderIn(env, "HOME") ?? homedir();
}

/** An id that can be part of a file's name: streams come from outside, and so do their ids. */
export function isPlainId(session: string): boolean {
  return /^[\w-]{8,128}$/.test(session);
}

/**
 * Whether a transcript of JSON lines has got as far as what the user said. An agent that is killed
 * before that leaves a file that it will neither resume nor overwrite.
 */
export function hasUserTurn(file: string): boolean {
  const text = beginningOf(file);
  if (text === undefined) return false;
  if (text.length >= LOOK_BYTES_MAX) return true;
  const whole = text.split("\n").slice(0, -1);
  return whole.some((line) => objectIn(line)?.type === "user");
}

/**
 * Whether the first line of a transcript of JSON lines is whole. An agent that is killed before that
 * leaves a file that it cannot resume.
 */
export function hasFirstLine(file: string): boolean {
  const text = beginningOf(file) ?? "";
  if (text.length >= LOOK_BYTES_MAX) return true;
  const end = text.indexOf("\n");
  return end > 0 && objectIn(text.slice(0, end)) !== undefined;
}

/**
 * The command that clears the way for a start under an id whose transcripts hold nothing: the
 * agents call it "already in use" or "existing", and have nothing to resume in it either.
 */
export function clearance(transcripts: readonly string[]): Pick<AgentCommand, "before"> {
  const empty = transcripts.filter((file) => !hasUserTurn(file));
  return empty.length === 0 ? {} : { before: ["rm", "-f", "--", ...empty] };
}

function beginningOf(file: string): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, "r");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const bytes = Buffer.alloc(LOOK_BYTES_MAX);
    return bytes.toString("latin1", 0, readSync(descriptor, bytes, 0, LOOK_BYTES_MAX, 0));
  } finally {
    closeSync(descriptor);
  }
}
