/** Why a run stops, in words. */

import type { LimitReached, StopReason } from "../core/event.ts";
import { usdText } from "../core/spending.ts";
import { conflictText } from "../core/workspace-files.ts";
import { formatDuration } from "../util/duration.ts";
import { plainText } from "./text.ts";

/** "SIGINT", "the budget: $2.00 of $1.00 are spent". */
export function stopText(reason: StopReason): string {
  switch (reason.code) {
    case "requested":
      return reason.by;
    case "budget":
      return `the budget: ${limitText(reason.limit)}`;
    case "conflict":
      return `a merge conflict: ${conflictText(reason.paths)}`;
    case "forked":
      return "the fork";
  }
}

/** "500 of 400 tokens are used". */
function limitText(reached: LimitReached): string {
  switch (reached.kind) {
    case "usd":
      return `${usdText(reached.used)} of ${usdText(reached.of)} are spent`;
    case "tokens":
    case "turns":
      return `${reached.used} of ${reached.of} ${reached.kind} are used`;
    case "time":
      return `${formatDuration(reached.used)} of ${formatDuration(reached.of)} have run`;
    case "price":
      return `${noPriceText(reached.model)}, so the limit in US dollars cannot be kept`;
  }
}

/** "no price is known for opus". */
export function noPriceText(model: string): string {
  const subject = model === "" ? "a model that its agent does not name" : plainText(model);
  return `no price is known for ${subject}`;
}
