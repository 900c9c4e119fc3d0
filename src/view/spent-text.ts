/** What a run used of models, in words and as JSON. */
import type { Spent } from "../core/event.ts";
import type { Json } from "../util/json.ts";

/** "12345 tokens in, 678 out, 3 turns, $0.12"; undefined when no model was used. */
export function spentText(spent: Spent): string | undefined {
  const { inputTokens, outputTokens, turns, costUsd } = spent;
  if (inputTokens + outputTokens + turns === 0) return undefined;
  const money = costUsd === undefined ? "cost not measured" : `$${costUsd.toFixed(2)}`;
  return `${inputTokens} tokens in, ${outputTokens} out, ${turns} turns, ${money}`;
}

/** The same for programs; what nobody measured says so. */
export function spentJson(spent: Spent | undefined): Json {
  if (spent === undefined) return { measured: false };
  return {
    measured: true,
    input_tokens: spent.inputTokens,
    cached_tokens: spent.cachedTokens,
    output_tokens: spent.outputTokens,
    turns: spent.turns,
    usd: spent.costUsd ?? null,
  };
}
