/**
 * The home directory of agents, and additions to their environment.
 *
 * Owns: the rule that the author's environment takes precedence.
 * Does not: know any one agent's folders.
 */
import { homedir } from "node:os";

type Environment = Readonly<Record<string, string>>;

/** The variables of `wanted` that the author has not set. */
export function unlessSet(env: Environment, wanted: Environment): Record<string, string> {
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}

/** The folder that a variable names; undefined when it is not set or empty. */
export function folderIn(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === "" ? undefined : value;
}

/** The home directory of a process with this environment. */
export function homeIn(env: Environment): string {
  return folderIn(env, "HOME") ?? homedir();
}

/** True for an id that can be part of a file name; ids come from streams, which are not trusted. */
export function isPlainId(session: string): boolean {
  return /^[\w-]{8,128}$/.test(session);
}
