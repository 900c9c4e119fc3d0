/**
 * A failed run: what failed, what to change first, and the command that then continues the run. A
 * command that would only fail again is not suggested.
 *
 * Owns: the advice for each reason, and the amounts that it suggests (turns, budget).
 * Does not: name the reasons (failure-text.ts).
 */

import { needsTurns } from "../core/conversation/conversation.ts";
import { deniedText } from "../core/conversation/permission.ts";
import type { AgentProblem, FailureReason, Verdict } from "../core/event.ts";
import { resumeGrants } from "../core/graph/retry.ts";
import { skipEvent } from "../core/graph/visit-end.ts";
import {
  currentVisit,
  type Run,
  type RunState,
  stepOf,
  type Visit,
  visitRef,
} from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import type { Budget } from "../plan/plan.ts";
import { failedCheckLines, failureText, messageText } from "./failure-text.ts";
import { NAMES_MAX } from "./step-tree.ts";
import { commandText, plainText } from "./text.ts";

/** How many more turns to suggest when an agent has used up its turns. */
export const TURNS_SUGGESTED = 20;
const CENTS = 100;
const SECOND_MS = 1_000;

export interface Advice {
  readonly say: string;
  readonly command: string;
}

/** What happened to a run, and what to do next. */
export interface Situation {
  /** Follows "Run a1b2c3d4 (release) ". */
  readonly happened: string;
  readonly advice: readonly [Advice, ...Advice[]];
}

/** A failed run: the failure that matters most, and the commands that continue after it. */
export function failedSituation(
  input: { readonly run: Run; readonly shortId: string },
  { message, from }: Extract<RunState, { status: "failed" }>,
): Situation {
  const { run, shortId } = input;
  const visit = principalFailure(run);
  const resume = commandText("resume", shortId);
  const continueFrom = (step: string): string =>
    commandText("resume", shortId, "--from-step", step);
  if (visit?.state.status !== "failed") {
    return {
      happened:
        from === undefined
          ? `had failed (${messageText(message)}); the failure has been settled since`
          : `failed: ${messageText(message)}`,
      advice: [{ say: "Continue", command: from === undefined ? resume : continueFrom(from) }],
    };
  }
  const path = stepPath(visitRef(visit));
  const tries = visit.attempts === 1 ? "1 attempt" : `${visit.attempts} attempts`;
  const leaves = [...run.failed].filter(({ instances }) => instances === undefined).length;
  const more = leaves > 1 ? `, and ${leaves - 1} more failed` : "";
  const happened = `failed: step ${path} (${tries}): ${failureText(visit.state)}${more}`;
  const look = { say: "output", command: commandText("logs", shortId, path) };
  const retry = commandText("retry", shortId, path);
  if (visit.state.reason === "once") {
    const settle = (say: string, as: Verdict): Advice => ({
      say,
      command: commandText("settle", shortId, path, as),
    });
    const happenedOrNot = settle("If the effect happened", "done");
    const others = [settle("if it did not", "redo"), settle("to give up", "abort")];
    return { happened, advice: [happenedOrNot, ...others, look] };
  }
  const grants = [...run.failed].some((one) => resumeGrants(one) || isAtEnd(one));
  if (visit.state.reason === "aborted" && !grants) {
    return {
      happened,
      advice: [{ say: "It cannot continue. Start a new run", command: newRun(run) }, look],
    };
  }
  const skip = { say: "skip it", command: commandText("skip", shortId, path) };
  if (visit.state.reason === "declared") {
    const other = { say: "a new run", command: newRun(run) };
    return { happened, advice: [{ ...skip, say: "Skip this step" }, other] };
  }
  if (visit.state.reason === "pick") {
    const branches = branchesBefore(visit);
    const command = branches === undefined ? retry : continueFrom(branches);
    return { happened, advice: [{ say: "Run the branches again", command }, look] };
  }
  // Some steps cannot be skipped: no edge leads on from them.
  const others = isAtEnd(visit) || !skipEvent(run, visit).ok ? [look] : [look, skip];
  if (!grants) return { happened, advice: [{ say: "Retry", command: retry }, ...others] };
  const say = SAYS[visit.state.reason] ?? "Fix the cause, then continue";
  const advice = failureAdvice(run, visit, shortId) ?? { say, command: resume };
  const { denied = [] } = visit;
  if (denied.length === 0) return { happened, advice: [advice, ...others] };
  const update = commandText("resume", shortId, "--update");
  const allow = `Allow it in ${run.created?.file || "the pipeline"} (${allowText(denied)}), then`;
  const note = visit.state.reason === "denied" ? "" : `; ${deniedText(denied)}`;
  const first = { say: allow, command: update };
  return { happened: `${happened}${note}`, advice: [first, advice, ...others] };
}

/** What to say before a resume where no cause can be fixed. */
const SAYS: Readonly<Partial<Record<FailureReason, string>>> = {
  rejected: "Ask again",
  unanswered: "Ask again",
  retry: "Continue",
  lost: "Continue",
  paused: "Continue",
  aborted: "Continue",
};

/** True for a `finally` step: a resume runs it again. */
function isAtEnd({ record }: Visit): boolean {
  return record.scope.outer !== undefined;
}

/** The key of a step that allows the denied calls. */
function allowText(denied: readonly string[]): string {
  const calls = denied.slice(0, NAMES_MAX).map((call) => JSON.stringify(plainText(call)));
  return `\`tools: {allow: [${calls.join(", ")}]}\`, or \`permissions: all\``;
}

/** The failure to report: one that only a person can settle, else the innermost. */
export function principalFailure(run: Run): Visit | undefined {
  const failures = [...run.failed];
  const once = failures.find(({ state }) => state.status === "failed" && state.reason === "once");
  return once ?? failures.find(({ instances }) => instances === undefined) ?? failures[0];
}

/** The step whose branches left nothing to pick: the last of its kind that completed. */
function branchesBefore({ record: { scope } }: Visit): string | undefined {
  if (scope.parent !== undefined) return undefined;
  const done = scope.steps.flatMap((record) => {
    const visit = record && currentVisit(record);
    return visit?.state.status === "completed" && stepOf(visit).work.kind === "branches"
      ? [visit]
      : [];
  });
  const last = done.toSorted((a, b) => (a.endSeq ?? 0) - (b.endSeq ?? 0)).at(-1);
  return last && stepOf(last).id;
}

/** The last lines of the checks that the failed step did not pass. */
export function failedCheckOutput(run: Run): { readonly output?: readonly string[] } {
  const state = run.state.status === "failed" ? principalFailure(run)?.state : undefined;
  const output = state?.status === "failed" ? failedCheckLines(state.checks ?? []) : [];
  return output.length === 0 ? {} : { output };
}

/** A longer input is not part of a suggested command. */
const INPUT_LENGTH_MAX = 400;

/** The command that starts a new run of the same pipeline, with the input that a person gave. */
export function newRun(run: Run): string {
  const { file = "", args = [], input = null } = run.created ?? {};
  // A run without a file repeats what the person typed.
  if (file === "" && args.length > 0) return commandText(...args);
  const isGiven = args.some((word) => /^(?:-i|--input)/.test(word));
  const text = typeof input === "string" ? input : JSON.stringify(input);
  const isShort = text.length <= INPUT_LENGTH_MAX;
  return commandText("run", file || "FILE", ...(isGiven && isShort ? ["-i", text] : []));
}

/** How to continue after this failure; undefined when a plain `resume` is all there is to say. */
function failureAdvice(run: Run, visit: Visit, shortId: string): Advice | undefined {
  const { state } = visit;
  if (state.status !== "failed") return undefined;
  if (needsTurns(run, visit)) {
    return { say: "Grant more turns and continue", command: turnsCommand(shortId) };
  }
  const { file = "" } = run.created ?? {};
  if (state.reason === "expression" && file !== "") {
    const say = `Correct the expression in ${file}, or what it reads, then continue`;
    return { say, command: commandText("resume", shortId, "--update") };
  }
  const { work } = stepOf(visit);
  const agent = work.kind === "agent" ? work.agent : "the agent";
  if (state.trouble !== undefined) return troubleAdvice(state.trouble, agent, shortId);
  if (visit.conversation?.failure === undefined) return undefined;
  const command = commandText("resume", shortId);
  return state.reason === "check"
    ? { say: "Continue; the agent gets the output of the failed check", command }
    : { say: "Continue its conversation", command };
}

/** The command that grants more turns. */
function turnsCommand(shortId: string): string {
  return commandText("resume", shortId, "--turns", `+${TURNS_SUGGESTED}`);
}

function troubleAdvice(trouble: AgentProblem, agent: string, shortId: string): Advice {
  const resume = commandText("resume", shortId);
  const update = commandText("resume", shortId, "--update");
  switch (trouble) {
    case "auth":
      return { say: `Log in with ${agent} or renew its key, then continue`, command: resume };
    case "missing":
      return { say: `Install ${agent} or put it on PATH, then continue`, command: resume };
    case "silent":
      return {
        say: `Start ${agent} by hand where the step ran, to see why it ends, then continue`,
        command: resume,
      };
    case "model":
      return { say: "Change `model:` in the pipeline, then continue", command: update };
    case "overflow":
      return { say: "Shorten the prompt or choose a larger model, then continue", command: update };
    case "denied":
      return { say: "Change `permissions:` in the pipeline, then continue", command: update };
  }
}

/** What to add to the budget: what was used beyond it, plus the amount that the author planned. */
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
