/**
 * Installs bubblewrap for the tests of sandboxes, if this machine has none:
 *
 *   node scripts/bubblewrap.ts
 *
 * Owns: the check that it works here, and the message for a developer when it cannot be installed.
 */
import { spawnSync } from "node:child_process";
import { installFromDebian, withInstallLock } from "./debian.ts";

/** The timeout of `beforeAll`, because the first test run on a new machine installs the package. */
export const INSTALL_MS_MAX = 1_200_000;

/** Installs bubblewrap if necessary; throws an error that names the package if that fails. */
export function needBubblewrap(): void {
  if (problem() === undefined) return;
  const failures = withInstallLock(() =>
    problem() === undefined ? [] : installFromDebian(["bubblewrap"]),
  );
  const left = problem();
  if (left === undefined) return;
  throw new Error(`${failures.join("\n\n")}\n
The tests of sandboxes need bubblewrap, and it does not work here: ${left}.
Install the package bubblewrap (as root: apt-get install bubblewrap), and allow user namespaces.`);
}

function problem(): string | undefined {
  const args = ["--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"];
  const { error, status, stderr } = spawnSync("bwrap", args, { encoding: "utf8" });
  if (error !== undefined) return error.message;
  return status === 0 ? undefined : stderr.trim();
}

if (import.meta.main) needBubblewrap();
