/**
 * Finds a Chromium for the tests of the dashboard, and installs one if this machine has none:
 *
 *   node scripts/browser.ts     prints the path of the program
 *
 * Owns: where a browser is looked for, and how it is installed: from the packages of Debian (and of
 * systems made from it) as root, otherwise with playwright-core into its cache.
 * Does not: start it; `test/rig/browser.ts` does.
 *
 * Invariants:
 * - browser/B1 at most one process installs at a time; whoever waited for it looks again and finds
 *   what it installed.
 */
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** The fonts are for text, for signs such as `✓`, and for Chinese, Japanese and Korean. */
const PACKAGES = ["chromium", "fonts-liberation", "fonts-dejavu-core", "fonts-wqy-microhei"];
const ROOT = resolve(import.meta.dirname, "..");
const LOCK = join(ROOT, "node_modules/.cache/browser-lock.db");
/** Of one command. The largest fetches 80 MB and what it depends on. */
const INSTALL_MS_MAX = 540_000;
/** Another process may run three commands. */
const WAIT_MS_MAX = 3 * INSTALL_MS_MAX;
const SHOWN_LINES_MAX = 15;

/** The path of a browser that this machine already has. */
export function installedBrowser(): string | undefined {
  const chosen = process.env.PERDURE_CHROMIUM;
  if (chosen !== undefined && chosen !== "") {
    if (isProgram(chosen)) return chosen;
    throw new Error(`PERDURE_CHROMIUM is ${chosen}, which is not a program that can be started`);
  }
  const directories = (process.env.PATH ?? "").split(delimiter).filter((path) => path !== "");
  const candidates = NAMES.flatMap((name) => directories.map((path) => join(path, name)));
  return [...candidates, chromium.executablePath()].find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    fs.accessSync(path, fs.constants.X_OK);
    return fs.statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Installs a browser unless another process has just done it; gives its path. */
function install(): string {
  fs.mkdirSync(join(LOCK, ".."), { recursive: true });
  const lock = new DatabaseSync(LOCK, { timeout: WAIT_MS_MAX });
  try {
    // browser/B1: the system drops the lock of a process that dies.
    lock.exec("BEGIN EXCLUSIVE");
    const found = installedBrowser();
    if (found !== undefined) return found;
    const failures = [installFromDebian, installFromPlaywright].flatMap((way) => {
      return installedBrowser() === undefined ? way() : [];
    });
    const path = installedBrowser();
    if (path !== undefined) return path;
    throw new Error(`${failures.join("\n\n")}\n
There is no Chromium on this machine, and it could not be installed. Install Chromium or Chrome so
that it is in PATH, or set PERDURE_CHROMIUM to the path of its program.`);
  } finally {
    lock.close();
  }
}

/** As root on Debian; gives what failed. */
function installFromDebian(): readonly string[] {
  if (process.getuid?.() !== 0 || !fs.existsSync("/usr/bin/apt-get")) return [];
  const waiting = ["-o", "DPkg::Lock::Timeout=300"];
  const wanted = [...waiting, "install", "-y", "--no-install-recommends", ...PACKAGES];
  return [...command("apt-get", ["update"]), ...command("apt-get", wanted)];
}

function installFromPlaywright(): readonly string[] {
  const program = resolve(ROOT, "node_modules/playwright-core/cli.js");
  return command(process.execPath, [program, "install", "chromium"]);
}

/** Runs a command with its output on stderr; gives a text about it if it failed. */
function command(program: string, args: readonly string[]): readonly string[] {
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

function main(): void {
  try {
    console.log(installedBrowser() ?? install());
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}

if (import.meta.main) main();
