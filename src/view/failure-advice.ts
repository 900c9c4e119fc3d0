/**
 * What to do after a failure, by its reason: what has to be changed first, and the command that then
 * continues. A command that would fail in the same way is not advised.
 *
 * Owns: this advice, and how much more is suggested where something is used up.
 * Does not: say what happened (failure-words.ts, why.ts).
 */
import { needsTurns } from "../core/conversation.ts";
import type { AgentTrouble } from "../core/event.ts";
import { type Run, stepOf, type Visit } from "../core/run.ts";
import type { Budget } from "../plan/plan.ts";
import { perdure } from "./command-text.ts";

/** How many turns are suggested to somebody whose agent has used up its own. */
export const TURNS_SUGGESTED = 20;
const CENTS = 100;
const SECOND_MS = 1_000;

export interface Advice {
  readonly say: string;
  readonly command: string;
}

/** How to continue a run after this failure; undefined where nothing more is known than "resume". */
export function failureAdvice(run: Run, visit: Visit, shortId: string): Advice | undefined {
  const { state } = visit;
  if (state.status !== "failed") return undefined;
  if (needsTurns(run, visit)) {
    return { say: "Grant more turns and continue", command: turnsCommand(shortId) };
  }
  const { work } = stepOf(visit);
  const agent = work.kind === "agent" ? work.agent : "the agent";
  if (state.trouble !== undefined) return troubleAdvice(state.trouble, agent, shortId);
  if (visit.talk?.failure === undefined) return undefined;
  const command = perdure("resume", shortId);
  return state.reason === "check"
    ? { say: "Continue; the agent is told what its check printed", command }
    : { say: "Continue its conversation", command };
}

/** The command that grants more turns to agents that have used up theirs. */
function turnsCommand(shortId: string): string {
  return perdure("resume", shortId, "--turns", `+${TURNS_SUGGESTED}`);
}

function troubleAdvice(trouble: AgentTrouble, agent: string, shortId: string): Advice {
  const resume = perdure("resume", shortId);
  const update = perdure("resume", shortId, "--update");
  switch (trouble) {
    case "auth":
      return { say: `Log in with ${agent} or renew its key, then continue`, command: resume };
    case "missing":
      return { say: `Install ${agent} or put it on PATH, then continue`, command: resume };
    case "model":
      return { say: "Change `model:` in the pipeline, then continue", command: update };
    case "overflow":
      return { say: "Shorten the prompt or choose a larger model, then continue", command: update };
    case "denied":
      return { say: "Change `permissions:` in the pipeline, then continue", command: update };
  }
}

/**
 * What to add to a budget so that the run can continue: what was used beyond it, and as much again as
 * the author had planned.
 */
export function suggestedBudget(run: Run): string {
  const { funds, added, spent, workedMs } = run;
  const used: Budget = {
    usd: spent.costUsd ?? 0,
    tokens: spent.inputTokens + spent.outputTokens,
    turns: spent.turns,
    timeMs: workedMs,
  };
  const limits = (["usd", "tokens", "turns", "timeMs"] as const).filter(
    (key) => funds[key] !== undefined,
  );
  const exceeded = limits.filter((key) => (used[key] ?? 0) >= (funds[key] ?? 0));
  const raised = exceeded.length === 0 ? limits.slice(0, 1) : exceeded;
  const amounts = raised.map((key) => {
    const funded = funds[key] ?? 0;
    const planned = funded - (added[key] ?? 0);
    const beyond = Math.max(0, (used[key] ?? 0) - funded);
    return amountText(key, beyond + (planned > 0 ? planned : funded));
  });
  return amounts.join(",");
}

function amountText(key: keyof Budget, amount: number): string {
  if (key === "usd") return `+${Math.ceil(amount * CENTS) / CENTS}usd`;
  if (key === "timeMs") return `+${Math.ceil(amount / SECOND_MS)}s`;
  return `+${Math.ceil(amount)}${key}`;
}
