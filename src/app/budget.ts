/** `--budget +5usd` and `--turns +20`: what a person adds to the budget of a run, and to its turns. */
import { needsTurns } from "../core/conversation.ts";
import { stepPath } from "../core/place.ts";
import { resumeGrants } from "../core/rewind.ts";
import { placeOf } from "../core/run.ts";
import { addBudget } from "../core/spending.ts";
import type { Budget } from "../plan/plan.ts";
import { parseDuration } from "../util/duration.ts";
import { TURNS_SUGGESTED } from "../view/failure-advice.ts";
import type { KnownRun } from "./known-run.ts";
import { command, Refusal } from "./refusal.ts";

/** `+5usd`, `+100000tokens`, `+20turns` or `+30m`; several of them with commas between. */
export function parseBudget(text: string): Budget {
  return text.split(",").map(parseAmount).reduce(addBudget);
}

/** `+20`. */
export function parseTurns(text: string): number {
  const [, turns] = /^\+?(\d{1,6})$/.exec(text) ?? [];
  if (turns !== undefined && Number(turns) > 0) return Number(turns);
  throw new Refusal("bad-option", `--turns takes a number such as +20, not "${text}"`);
}

/** Refuses to continue agents that have used up their turns: each would end at its limit again. */
export function refuseWithoutTurns({ run, shortId }: KnownRun): void {
  const visit = [...run.failed].find((one) => resumeGrants(one) && needsTurns(run, one));
  if (visit === undefined || run.state.status !== "failed") return;
  const message = `step ${stepPath(placeOf(visit))} has used up its turns (max_turns)`;
  throw new Refusal(
    "turns-used-up",
    message,
    command("resume", shortId, "--turns", `+${TURNS_SUGGESTED}`),
  );
}

function parseAmount(text: string): Budget {
  const [, amount, unit] = /^\+?(\d+(?:\.\d+)?)(usd|tokens|turns)$/.exec(text) ?? [];
  if (amount !== undefined && unit !== undefined && Number(amount) > 0) {
    return { [unit]: Number(amount) };
  }
  const timeMs = parseDuration(text.replace(/^\+/, ""));
  if (timeMs !== undefined && timeMs > 0) return { timeMs };
  const message = `--budget takes +5usd, +100000tokens, +20turns or +30m, not "${text}"`;
  throw new Refusal("bad-option", message);
}
