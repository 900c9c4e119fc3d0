/** Whether a run can be driven at all: its files are there, and nobody else drives it. */

import { EXIT } from "../view/exit-code.ts";
import { why } from "../view/why.ts";
import { CliError } from "./cli-error.ts";
import { ownedError } from "./execute.ts";
import { type KnownRun, whyInputOf } from "./known-run.ts";

/** Why a run cannot be driven, if it cannot. */
export function unavailable(
  known: KnownRun,
  options: { readonly takeOver?: boolean } = {},
): CliError | undefined {
  if (known.cleanedAt !== undefined) {
    const { happened, commands } = why(whyInputOf(known, Date.now()));
    return new CliError(EXIT.error, happened, commands[0]);
  }
  const { owner } = known.lease ?? {};
  return known.liveness === "owned" && owner !== undefined && options.takeOver !== true
    ? ownedError(known.shortId, owner)
    : undefined;
}
