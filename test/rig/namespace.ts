/**
 * Programs in namespaces of their own, as in a container: another process table, or another machine.
 *
 * Owns: the one place that knows how a namespace is made, and that says loudly when it cannot be.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Root needs no user namespace; others get one in which they are root. */
const USER = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];

/** Runs a program with a process table of its own; with `unshare` dead, all of it is. */
export const CONTAINER: readonly string[] = [
  "unshare",
  ...USER,
  ...["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"],
];

/** Runs a program on what looks like another boot, with other files in place of the system's. */
export function machineWith(dir: string, files: Readonly<Record<string, string>>): string[] {
  const mounts = Object.entries(files).map(([path, text], index) => {
    const file = join(dir, `mounted-${index}`);
    writeFileSync(file, text);
    return `mount --bind '${file}' '${path}'`;
  });
  const script = `${mounts.join(" && ")} && exec "$@"`;
  return ["unshare", ...USER, "--mount", "--", "sh", "-c", script, "sh"];
}

/** Throws where the system does not allow namespaces: a test that needs them is never left out. */
export function needNamespaces(): void {
  const [program = "", ...args] = CONTAINER;
  execFileSync(program, [...args, "true"], { stdio: ["ignore", "ignore", "inherit"] });
}
