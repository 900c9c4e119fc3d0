/** What a pipeline relies on in the environment of the runner. */
import { createHmac, randomBytes } from "node:crypto";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

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
