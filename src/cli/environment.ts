/** The environment of this process, and what a pipeline relies on in it. */
import { createHmac, randomBytes } from "node:crypto";
import { textOf } from "../runner/file-text.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/**
 * The environment as a plain object. Node asks the system for each variable at each look, so that a
 * mere copy of `process.env` takes quadratic time, minutes for the environment of some CI machines.
 */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const text = textOf("/proc/self/environ");
  if (text === undefined) return process.env;
  const env: NodeJS.ProcessEnv = {};
  for (const entry of text.split("\0")) {
    const cut = entry.indexOf("=", 1);
    if (cut > 0) env[entry.slice(0, cut)] ??= entry.slice(cut + 1);
  }
  return env;
}

/** Variables that a plan's expressions name must be there before anything is started. */
export function checkEnvironment(names: readonly string[]): void {
  const missing = names.filter((name) => process.env[name] === undefined);
  if (missing.length === 0) return;
  const message = `the pipeline relies on ${missing.join(", ")} in the environment`;
  throw new CliError(EXIT.usage, message, `export ${missing[0]}=..., then the same command again`);
}

const SALT_BYTES = 4;
/** So few digits that many values have the same mark: it confirms no guess of the value. */
const MARK_LENGTH = 8;

/** A mark of each variable's value: it tells whether the value has changed, not what it is. */
export function environmentMarks(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, markOf(value, newSalt())] as const];
    }),
  );
}

/** The variables whose values are not those that a run began with. */
export function changedVariables(marks: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(marks)
    .filter(([name, mark]) => markOf(process.env[name] ?? "", mark.split(".")[0] ?? "") !== mark)
    .map(([name]) => name);
}

function newSalt(): string {
  return randomBytes(SALT_BYTES).toString("hex");
}

function markOf(value: string, salt: string): string {
  const hash = createHmac("sha256", salt).update(value).digest("hex");
  return `${salt}.${hash.slice(0, MARK_LENGTH)}`;
}
