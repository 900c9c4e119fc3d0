/** Whether a run can be driven at all: its files are there, and nobody else drives it. */

import { why } from "../view/why.ts";
import { ownedError } from "./execute.ts";
import { type KnownRun, whyInputOf } from "./known-run.ts";
import { advice, Refusal } from "./refusal.ts";

/** Why a run cannot be driven, if it cannot. */
export function unavailable(
  known: KnownRun,
  options: { readonly takeOver?: boolean } = {},
): Refusal | undefined {
  if (known.cleanedAt !== undefined) {
    const { happened, commands } = why(whyInputOf(known, Date.now()));
    return new Refusal("files-removed", happened, commands.slice(0, 1).map(advice));
  }
  const { owner } = known.lease ?? {};
  return known.liveness === "owned" && owner !== undefined && options.takeOver !== true
    ? ownedError(known.shortId, owner)
    : undefined;
}
