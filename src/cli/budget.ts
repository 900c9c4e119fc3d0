/** `--budget +5usd`: what a person adds to the budget of a run. */
import type { Budget } from "../plan/plan.ts";
import { parseDuration } from "../util/duration.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** `+5usd`, `+100000tokens`, `+20turns` or `+30m`. */
export function parseBudget(text: string): Budget {
  const [, amount, unit] = /^\+?(\d+(?:\.\d+)?)(usd|tokens|turns)$/.exec(text) ?? [];
  if (amount !== undefined && unit !== undefined && Number(amount) > 0) {
    return { [unit]: Number(amount) };
  }
  const timeMs = parseDuration(text.replace(/^\+/, ""));
  if (timeMs !== undefined && timeMs > 0) return { timeMs };
  const message = `--budget takes +5usd, +100000tokens, +20turns or +30m, not "${text}"`;
  throw new CliError(EXIT.usage, message);
}
