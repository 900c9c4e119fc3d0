/** Whether a run can be driven at all: its files are there, and nobody else drives it. */

import { CliError } from "../app/cli-error.ts";
import { EXIT } from "../app/exit-code.ts";
import { type KnownRun, whyInputOf } from "../app/known-run.ts";
import { why } from "../view/why.ts";
import { ownedError } from "./execute.ts";

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
