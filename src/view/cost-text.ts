/**
 * What agents used: tokens, turns and money, in words; and the lines of `perdure cost`.
 *
 * Owns: how an estimate (`~$0.12`) and a lower bound (`at least`) are marked.
 */

import type { RunEvent, Spent } from "../core/event.ts";
import { unpricedIn, usdText } from "../core/spending.ts";
import type { Budget } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
import { noPriceText } from "./failure-text.ts";
import type { DocumentJson } from "./json/documents.ts";
import { countText, plainStyle, plainText, type Style, tableLines } from "./text.ts";

/** "12345 tokens in, 678 out, 3 turns, ~$0.12"; undefined when no model was used. */
export function spentText(spent: Spent): string | undefined {
  const { inputTokens, outputTokens, turns, unmeasured } = spent;
  if (inputTokens + outputTokens + turns === 0) return undefined;
  const least = unmeasured === undefined ? "" : "at least ";
  const tokens = `${inputTokens} tokens in, ${outputTokens} out`;
  return `${least}${tokens}, ${countText(turns, "turn")}, ${moneyText(spent)}`;
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
    ...(tokens === undefined ? [] : [countText(tokens, "token")]),
    ...(turns === undefined ? [] : [countText(turns, "turn")]),
    ...(timeMs === undefined ? [] : [formatDuration(timeMs)]),
  ].join(", ");
}

/** The lines of `perdure cost`. */
export function costLines(
  costs: DocumentJson<"costs">,
  style: Style = plainStyle,
): readonly string[] {
  const { by, rows, total } = costs;
  if (rows.length === 0) return [`No agent has used anything since ${costs.since.slice(0, 10)}.`];
  const share = (usd: number): string =>
    total.usd === 0 ? "" : `${((usd / total.usd) * 100).toFixed()}%`;
  const header = [...by.map((column) => column.toUpperCase()), "RUNS", "TOKENS", "COST", "SHARE"];
  const cells = rows.map((row) => [
    ...by.map((column) => plainText(row[column] ?? "")),
    ...[String(row.runs), row.tokens.toLocaleString("en"), usdText(row.usd), share(row.usd)],
  ]);
  const sum = [String(total.runs), total.tokens.toLocaleString("en"), usdText(total.usd)];
  const last = [...by.map((_, at) => (at === 0 ? "total" : "")), ...sum];
  const toneOf = (at: number): "dim" | undefined => (at === 0 ? "dim" : undefined);
  const lines = tableLines([header, ...cells, last], { style, toneOf });
  if (total.unknown_price === 0) return lines;
  const runs = countText(total.unknown_price, "run");
  return [...lines, `${runs} used a model without a known price; see: perdure prices`];
}
