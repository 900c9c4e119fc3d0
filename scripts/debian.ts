/**
 * Installs packages of Debian (and of systems based on it) for tests that need a program of the system.
 *
 * Owns: the command, and its lock.
 * Does not: know which test needs what (browser.ts, bubblewrap.ts).
 *
 * Invariants:
 * - debian/B1 at most one process installs at a time; a process that waited looks again and finds
 *   what the other one installed.
 */
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";

const LOCK = resolve(import.meta.dirname, "../node_modules/.cache/install-lock.db");
/** How long one command may take; the largest download has 80 MB plus dependencies. */
const INSTALL_MS_MAX = 540_000;
/** Another process may run three commands. */
const WAIT_MS_MAX = 3 * INSTALL_MS_MAX;
const SHOWN_LINES_MAX = 15;

/** Does something while no other process installs. */
export function withInstallLock<T>(work: () => T): T {
  fs.mkdirSync(dirname(LOCK), { recursive: true });
  const lock = new DatabaseSync(LOCK, { timeout: WAIT_MS_MAX });
  try {
    // debian/B1: the system drops the lock of a process that dies.
    lock.exec("BEGIN EXCLUSIVE");
    return work();
  } finally {
    lock.close();
  }
}

/** Installs packages, as root on Debian; returns what failed. */
export function installFromDebian(packages: readonly string[]): readonly string[] {
  if (process.getuid?.() !== 0 || !fs.existsSync("/usr/bin/apt-get")) return [];
  const waiting = ["-o", "DPkg::Lock::Timeout=300"];
  const wanted = [...waiting, "install", "-y", "--no-install-recommends", ...packages];
  return [...command("apt-get", ["update"]), ...command("apt-get", wanted)];
}

/** Runs a command, and names it on stderr; returns a text about it if it failed. */
export function command(program: string, args: readonly string[]): readonly string[] {
  const words = [program, ...args].join(" ");
  console.error(`$ ${words}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const done = spawnSync(program, args, { env, encoding: "utf8", timeout: INSTALL_MS_MAX });
  const said = lastLines(done);
  return done.status === 0 ? [] : [`$ ${words}\n${said}`];
}

function lastLines({ stdout, stderr, error }: SpawnSyncReturns<string>): string {
  // A program that could not be started has no output.
  const said = [stdout ?? "", stderr ?? "", error?.message ?? ""].join("\n");
  const lines = said.split("\n").filter((line) => line.trim() !== "");
  return lines.slice(-SHOWN_LINES_MAX).join("\n");
}
