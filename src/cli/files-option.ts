import type { ForeignFiles } from "../engine/workspace-place.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** `--files`, if it is one of the words that it takes. */
export function filesOption(given: string | undefined): ForeignFiles | undefined {
  if (given === undefined || given === "keep" || given === "restore") return given;
  throw new CliError(EXIT.usage, `--files takes keep or restore, not "${given}"`);
}
