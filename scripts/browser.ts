/**
 * Finds a Chromium for the tests of the dashboard, and installs one if this machine has none:
 *
 *   node scripts/browser.ts     prints the path of the program
 *
 * Owns: where a browser is looked for, and how it is installed: from the packages of Debian (and of
 * systems based on it) as root, otherwise with playwright-core into its cache.
 * Does not: start it; `test/rig/browser.ts` does.
 */
import * as fs from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { chromium } from "playwright-core";
import { command, installFromDebian, withInstallLock } from "./debian.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** The fonts are for Latin text, for symbols such as `✓`, and for Chinese, Japanese and Korean. */
const PACKAGES = ["chromium", "fonts-liberation", "fonts-dejavu-core", "fonts-wqy-microhei"];
const ROOT = resolve(import.meta.dirname, "..");

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

/** Installs a browser unless another process has just done it; returns its path. */
function install(): string {
  return withInstallLock(() => {
    const found = installedBrowser();
    if (found !== undefined) return found;
    const installers = [() => installFromDebian(PACKAGES), installFromPlaywright];
    const failures = installers.flatMap((run) => (installedBrowser() === undefined ? run() : []));
    const path = installedBrowser();
    if (path !== undefined) return path;
    throw new Error(`${failures.join("\n\n")}\n
There is no Chromium on this machine, and it could not be installed. Install Chromium or Chrome so
that it is in PATH, or set PERDURE_CHROMIUM to the path of its program.`);
  });
}

function installFromPlaywright(): readonly string[] {
  const program = resolve(ROOT, "node_modules/playwright-core/cli.js");
  return command(process.execPath, [program, "install", "chromium"]);
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
