/** What a pipeline relies on in the environment of the runner. */
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Variables that a plan's expressions name must be there before anything is started. */
export function checkEnvironment(names: readonly string[]): void {
  const missing = names.filter((name) => process.env[name] === undefined);
  if (missing.length === 0) return;
  const message = `the pipeline relies on ${missing.join(", ")} in the environment`;
  throw new CliError(EXIT.usage, message, `export ${missing[0]}=..., then the same command again`);
}
