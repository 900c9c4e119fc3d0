/**
 * Where agents keep their files, and what is added to their environment.
 *
 * Owns: the rule that the author's environment comes first.
 * Does not: know any one agent's folders.
 */
import { homedir } from "node:os";

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
