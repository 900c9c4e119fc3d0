/**
 * Carries out several commands of the program one after the other in one process. Commands that only
 * read take less time than a start of the program.
 *
 *     node test/rig/several-commands.ts '["show","1a2b3c4d","--json"]' '["list","--json"]'
 *
 * What each of them has printed ends with NUL. A command that is refused ends the process.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Script } from "node:vm";
import type { Project, StartOptions } from "./project.ts";

/** What bin/perdure.js starts: a script whose value is a function. */
const PROGRAM = resolve(import.meta.dirname, "../../dist/main.js");

interface Loaded {
  readonly exports: { main?: (args: readonly string[]) => Promise<void> };
}

async function carryOut(commands: readonly string[]): Promise<void> {
  // Each command listens for closed output and for errors.
  for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0);
  const loaded: Loaded = { exports: {} };
  const load = new Script(readFileSync(PROGRAM, "latin1"), { filename: PROGRAM });
  const url = pathToFileURL(PROGRAM).href;
  const meta = { url, filename: PROGRAM, dirname: dirname(PROGRAM) };
  load.runInThisContext()(loaded, createRequire(PROGRAM), meta);
  for (const command of commands) {
    await loaded.exports.main?.(JSON.parse(command) as string[]);
    if (process.exitCode !== 0) return;
    process.stdout.write("\0");
  }
}

/** What each of these commands prints. Throws when one of them does not end with 0. */
export async function several(
  project: Project,
  commands: readonly (readonly string[])[],
  options: StartOptions = {},
): Promise<readonly string[]> {
  const words = commands.map((command) => JSON.stringify(command));
  const { exit, stdout, stderr } = await project.script(import.meta.filename, words, options).ended;
  const printed = stdout.split("\0");
  if (exit === 0 && printed.length === commands.length + 1) return printed.slice(0, -1);
  throw new Error(`${words[printed.length - 1]}: exit ${exit}\n${stdout}${stderr}`);
}

if (process.argv[1] === import.meta.filename) await carryOut(process.argv.slice(2));
