/**
 * A PID namespace for a step: when its first process ends, the kernel ends everything in it.
 *
 * Owns: the command that makes one, and telling whether this system allows it.
 * Does not: start the step (wrapper.ts puts the command in front of it).
 */
import { spawnSync } from "node:child_process";

/** Root needs no user namespace; others get one in which they are themselves. */
const USER = process.getuid?.() === 0 ? [] : ["--user", "--map-current-user"];

/**
 * While it waits, `unshare` blocks SIGTERM, so that a stop reaches the step and not its keeper;
 * with the keeper killed, the kernel kills the namespace.
 */
export const ISOLATION: readonly string[] = [
  "unshare",
  ...USER,
  ...["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"],
];

let problem: string | undefined | null = null;

/** Why steps cannot be isolated here; undefined when they can. */
export function isolationProblem(): string | undefined {
  if (problem === null) problem = tryIt();
  return problem;
}

function tryIt(): string | undefined {
  const [program = "", ...args] = ISOLATION;
  const { error, status, stderr } = spawnSync(program, [...args, "true"], { encoding: "utf8" });
  if (error !== undefined) return `unshare (of util-linux) cannot be run: ${error.message}`;
  return status === 0 ? undefined : stderr.trim() || `unshare exited with ${status}`;
}
