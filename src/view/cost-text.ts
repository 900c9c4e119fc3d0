/**
 * What agents used: tokens, turns and money, in words.
 *
 * Owns: how an estimate (`~$0.12`) and a lower bound (`at least`) are marked.
 */

import type { RunEvent, Spent } from "../core/event.ts";
import { unpricedIn, usdText } from "../core/spending.ts";
import type { Budget } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
import { noPriceText } from "./failure-text.ts";
import { plainText } from "./text.ts";

/** "12345 tokens in, 678 out, 3 turns, ~$0.12"; undefined when no model was used. */
export function spentText(spent: Spent): string | undefined {
  const { inputTokens, outputTokens, turns, unmeasured } = spent;
  if (inputTokens + outputTokens + turns === 0) return undefined;
  const least = unmeasured === undefined ? "" : "at least ";
  const tokens = `${inputTokens} tokens in, ${outputTokens} out`;
  return `${least}${tokens}, ${turns} turns, ${moneyText(spent)}`;
}

function moneyText(spent: Spent): string {
  const { costUsd, estimated } = spent;
  const unpriced = unpricedIn(spent);
  if (costUsd === undefined) {
    return unpriced === undefined || unpriced === ""
      ? "cost not measured"
      : `cost not known: ${noPriceText(unpriced)}`;
  }
  const amount = `${estimated === undefined ? "" : "~"}${usdText(costUsd)}`;
  return unpriced === undefined ? amount : `at least ${amount}`;
}

/** How to give a model a price. */
export function priceRemedy(model: string): string {
  const named = model === "" ? "MODEL" : plainText(model);
  const name = /^[\w.-]+$/.test(named) ? named : JSON.stringify(named);
  const key = `\`prices: { ${name}: { input: 1.5, output: 6 } }\``;
  const what = model === "" ? "Name the model (`model:`) and its price" : "Write its price";
  return `${what} into the pipeline, in US dollars per million tokens, such as ${key}`;
}

/** What was added to the budget, or the cost of earlier attempts that is known only now. */
export function fundsText(event: Extract<RunEvent, { type: "run.funded" }>): string {
  const { added, lateCostUsd } = event;
  const isRaised = Object.keys(added).length > 0;
  const raised = isRaised ? [`the budget was raised by ${budgetText(added)}`] : [];
  const late =
    lateCostUsd === undefined
      ? []
      : [`earlier attempts, whose model had no price then, cost ~${usdText(lateCostUsd)}`];
  return [...raised, ...late].join("; ");
}

/** "$5.00, 2000 tokens". */
export function budgetText({ usd, tokens, turns, timeMs }: Budget): string {
  return [
    ...(usd === undefined ? [] : [usdText(usd)]),
    ...(tokens === undefined ? [] : [`${tokens} tokens`]),
    ...(turns === undefined ? [] : [`${turns} turns`]),
    ...(timeMs === undefined ? [] : [formatDuration(timeMs)]),
  ].join(", ");
}
