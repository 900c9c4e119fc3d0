/**
 * What `resume` or a rewind would do with each step, and why.
 *
 * Owns: the words. The engine does the same on the same evidence.
 * Does not: look for processes or files; the caller passes the evidence.
 */

import { judgeOf } from "../../core/attempt/check.ts";
import { effectsWithin } from "../../core/attempt/effect.ts";
import { conversationFor } from "../../core/conversation/conversation.ts";
import type { Conversation, EventOf } from "../../core/event.ts";
import type { ConversationOffer } from "../../core/fact.ts";
import { resumeGrants } from "../../core/graph/retry.ts";
import type { Wait } from "../../core/graph/visit-state.ts";
import {
  attemptOf,
  enclosingVisits,
  isComposite,
  type Run,
  stepOf,
  type Visit,
  visitRef,
} from "../../core/run.ts";
import { attemptText, ROOT_SCOPE, stepPath } from "../../core/step-path.ts";
import { closureOf, indexOf, stepAt } from "../../plan/graph-index.ts";
import type { Plan, Recover } from "../../plan/plan.ts";
import { formatDuration } from "../../util/duration.ts";
import { failureText, messageText, onceStep, repeatText } from "../failure-text.ts";
import { questionText, wakeText } from "../question-text.ts";
import { attemptWords, type STEP_STYLES, statusOf } from "../step-status.ts";
import { rootSteps, type StepNode, stepTree } from "../step-tree.ts";
import { countText, shortList, tableLines } from "../text.ts";

export type ResumeAction =
  | "reuse"
  | "run"
  | "re-attach"
  | "take result"
  | "continue"
  | "probe first"
  | "needs settle"
  | "skip";

/** What is known of an attempt that the journal says is running. */
export type Evidence = "alive" | "exited" | "answered" | "dead";

export interface ResumePlanInput {
  readonly plan: Plan;
  readonly run: Run;
  /** By attempt (`fix@2.3`), for every attempt that the journal says is running. */
  readonly evidence: ReadonlyMap<string, Evidence>;
  /** By attempt: whether the conversation of an agent's visit can be continued. */
  readonly offers?: ReadonlyMap<string, ConversationOffer>;
  /** What the person wants done with interrupted conversations. */
  readonly recover?: Recover | undefined;
  /** What `--from-step` would do, from `planRewind`. */
  readonly rewind?: Rewind | undefined;
  /** The step that the person wants to retry, and of a fan-out only these items. */
  readonly retried?: string | undefined;
  readonly items?: readonly number[] | undefined;
  readonly now: number;
}

const SENTENCES_MAX = 12;

interface ResumeStep {
  readonly step: string;
  readonly action: ResumeAction;
  readonly why: string;
}

type Rewind = Omit<EventOf<"run.rewound">, "type">;
type Verdict = Omit<ResumeStep, "step">;

/** What resume would do, step by step. */
export function resumePlan(input: ResumePlanInput): readonly ResumeStep[] {
  const { rewind } = input;
  const nodes = rewind === undefined ? stepTree(input.run) : rootSteps(input.run);
  const known = rewind === undefined ? blockedSteps(input) : rewoundSteps(input.run, rewind);
  return Array.from(nodes, (node) => ({
    step: node.path,
    ...(known.get(node.path) ?? verdictOf(node, input)),
  }));
}

/** The plan as an aligned table. */
export function resumePlanLines(steps: readonly ResumeStep[], width?: number): readonly string[] {
  const rows = steps.map(({ step, action, why }) => [step, action, why]);
  return tableLines([["STEP", "RESUME WILL", "BECAUSE"], ...rows], { width });
}

/** What will happen to the steps that are not kept, a sentence each; the first ones of many. */
export function resumeSentences(steps: readonly ResumeStep[]): readonly string[] {
  const ahead = steps.filter(({ action }) => action !== "reuse");
  const left = ahead.length - SENTENCES_MAX;
  const sentences = ahead
    .slice(0, SENTENCES_MAX)
    .map(({ step, action, why }) => `${step}: ${action}, because ${why}.`);
  return left <= 0 ? sentences : [...sentences, `And ${left} more steps.`];
}

function rewoundSteps(run: Run, rewind: Rewind): ReadonlyMap<string, Verdict> {
  const { step, reopened, assumed, items, repeat } = rewind;
  const named = repeat === true ? "agreed" : "named";
  const again = (id: string): Verdict => {
    const why = id === step ? "you asked to continue from here" : `it comes after ${step}`;
    if (id === step) return { action: "run", why: why + repeatText(run, id, named) };
    const asked = repeatText(run, id, "after");
    return { action: asked === "" ? "run" : repeatAction(run, id), why: why + asked };
  };
  const before: Verdict = {
    action: "reuse",
    why: `it has not completed, but is treated as completed: you continue from ${step}`,
  };
  return new Map([
    ...reopened.map((id) => [id, again(id)] as const),
    ...assumed.map((id) => [id, before] as const),
    [step, items === undefined ? again(step) : itemsVerdict(items.length)],
  ]);
}

/** Steps that cannot start because a step before them stays failed. */
function blockedSteps(input: ResumePlanInput): ReadonlyMap<string, Verdict> {
  const blocked = new Map<string, Verdict>();
  const root = input.run.scopes.get(ROOT_SCOPE);
  if (root === undefined) return blocked;
  const { graph, steps } = root;
  for (const node of rootSteps(input.run)) {
    const stays = node.status === "failed" || node.status === "running";
    const { action } = verdictOf(node, input);
    if (!stays || (action !== "skip" && action !== "needs settle")) continue;
    const start = indexOf(graph).byId.get(node.path) ?? -1;
    for (const position of closureOf(graph, start)) {
      if (position === start || statusOf(steps[position]) !== "pending") continue;
      blocked.set(stepAt(graph, position).id, { action: "skip", why: `it waits for ${node.path}` });
    }
  }
  return blocked;
}

function verdictOf(node: StepNode, input: ResumePlanInput): Verdict {
  const { visit, status } = node;
  switch (status) {
    case "completed":
      return { action: "reuse", why: "it completed; its result is kept" };
    case "assumed":
      return { action: "reuse", why: "it is treated as completed" };
    case "handled":
      return { action: "reuse", why: "it failed, and the pipeline handled the failure" };
    case "skipped":
      return { action: "skip", why: skippedWhy(visit) };
    case "unreached":
      return { action: "skip", why: "no edge leads to it any more" };
    case "pending":
      return { action: "run", why: "it has not started" };
    default:
      return visit === undefined ? { action: "run", why: "" } : openVerdict(visit, input);
  }
}

function skippedWhy(visit: Visit | undefined): string {
  const by = visit?.state.status === "skipped" ? visit.state.by : undefined;
  return by === undefined ? "its condition was false" : `${by} skipped it`;
}

/** A visit that has not ended, or that failed. */
function openVerdict(visit: Visit, input: ResumePlanInput): Verdict {
  const { state } = visit;
  switch (state.status) {
    case "running":
      return runningVerdict(visit, input);
    case "waiting":
      return waitingVerdict(visit, state, input);
    case "failed":
      return failedVerdict(visit, failureText(state), input);
    default:
      return startVerdict(visit, input);
  }
}

function waitingVerdict(visit: Visit, wait: Wait, input: ResumePlanInput): Verdict {
  const conversation = judgeText(visit) ?? conversationText(visit, input);
  switch (wait.for) {
    case "retry": {
      const left = wait.until - input.now;
      const due = left <= 0 ? "at once" : `in ${formatDuration(left)}`;
      const then = conversation === undefined ? "" : `: ${conversation}`;
      return { action: "continue", why: `it is retried ${due}${nextAttempt(visit)}${then}` };
    }
    case "owner": {
      // When the run stopped between two attempts, the step itself was not interrupted.
      const interrupted = visit.interrupted === true || conversation === undefined;
      const what = interrupted
        ? `it was interrupted (${messageText(wait.message)})`
        : "the run stopped";
      const then = conversation ?? `it starts again${nextAttempt(visit)}`;
      return { action: "continue", why: `${what}; ${then}` };
    }
    case "person":
      return { action: "continue", why: `it waits for an answer: ${questionText(wait)}` };
    case "time":
      return { action: "continue", why: `it waits ${wakeText(wait.wake.at, input.now)}` };
    case "probe":
      return uncertainVerdict(visit, "it may have happened");
    case "close":
      return runningVerdict(visit, input);
    default:
      return startVerdict(visit, input);
  }
}

function startVerdict(visit: Visit, input: ResumePlanInput): Verdict {
  const conversation = judgeText(visit) ?? conversationText(visit, input);
  if (conversation !== undefined) return { action: "continue", why: conversation };
  const again = visit.attempts > 0;
  const why = again ? `it starts again${nextAttempt(visit)}` : "it has not started";
  return { action: "run", why };
}

function nextAttempt(visit: Visit): string {
  const words = attemptWords(visit);
  return words === "" ? "" : ` as ${words}`;
}

function runningVerdict(visit: Visit, input: ResumePlanInput): Verdict {
  const step = stepOf(visit);
  if (isComposite(step)) return { action: "continue", why: "the open steps inside it continue" };
  switch (input.evidence.get(attemptText(attemptOf(visit)))) {
    case "alive":
      return { action: "re-attach", why: "its process is still running" };
    case "exited":
      return { action: "take result", why: "it ended without a runner; its result is on disk" };
    case "answered":
      return { action: "take result", why: "its process is gone, but its agent had finished" };
    case "dead": {
      const judge = judgeText(visit);
      if (step.once && judge === undefined) return uncertainVerdict(visit, "its process is gone");
      const conversation = judge ?? conversationText({ ...visit, interrupted: true }, input);
      if (conversation !== undefined)
        return { action: "continue", why: `its process is gone; ${conversation}` };
      return { action: "run", why: "its process is gone and left no result" };
    }
    default:
      return { action: "continue", why: "it was running; resume looks for its process first" };
  }
}

/** What happens to a conversation that continues with each kind of message. */
const CONTINUATIONS: Readonly<Record<Conversation["says"], string>> = {
  task: "the shared conversation continues",
  interrupted: "its conversation continues",
  relay: "its conversation continues, to be handed over",
  correct: "its conversation continues, for a corrected answer",
  permitted: "its conversation continues, with a person's answer about a denied call",
  relayed: "a new conversation continues from the notes of the last one",
  failed: "its conversation continues, with a report of the failure",
};

/** Finished work is only judged. */
function judgeText(visit: Visit): string | undefined {
  const judge = judgeOf(visit);
  return judge && `its work is finished, and its judge (${judge.agent}) is asked`;
}

/** What the next attempt does with the conversation of a visit; undefined when it has none. */
function conversationText(visit: Visit, input: ResumePlanInput): string | undefined {
  const offer = input.offers?.get(attemptText(attemptOf(visit)));
  if (visit.conversation === undefined || offer === undefined) return undefined;
  // The choice of the previous owner does not count any more.
  const { recover: _, ...run } = input.run;
  const asked = input.recover === undefined ? run : { ...run, recover: input.recover };
  const { kind, says } = conversationFor(input.plan, asked, visit, offer);
  if (kind === "continue" || says === "relayed") return CONTINUATIONS[says];
  return visit.conversation.session === undefined
    ? "a new conversation starts"
    : "its conversation starts again";
}

function failedVerdict(visit: Visit, failure: string, input: ResumePlanInput): Verdict {
  const { run } = input;
  if (isOtherItem(visit, input)) {
    return { action: "skip", why: `it failed (${failure}); you retry other items` };
  }
  const { retry } = stepOf(visit);
  const reason = visit.state.status === "failed" ? visit.state.reason : undefined;
  const isRetried = input.retried === stepPath(visitRef(visit));
  const ended = run.state.status === "failed" || isRetried;
  if (reason === "items") {
    const inner = [...run.failed].some((failed) => isInside(failed, visit) && resumeGrants(failed));
    return isRetried || (inner && ended)
      ? { action: "continue", why: "the failed steps inside it are retried" }
      : { action: "skip", why: "a step inside it stays failed" };
  }
  if (reason === "once") {
    return uncertainVerdict(visit, "it may have happened");
  }
  if (reason === "aborted") return { action: "skip", why: `it was given up (${failure})` };
  if (!isRetried && !resumeGrants(visit)) {
    return {
      action: "skip",
      why: `it failed (${failure}), and \`retry.on_resume: keep\` grants no more attempts`,
    };
  }
  if (!ended) {
    return { action: "skip", why: `it failed (${failure}); first the rest of the run continues` };
  }
  const attempts = countText(retry.attempts, "more attempt");
  // `--recover` holds for the failures that exist when the run is opened.
  const wanted = input.recover === undefined ? visit : { ...visit, recover: input.recover };
  const conversation = conversationText(wanted, input);
  const then = conversation === undefined ? "" : `: ${conversation}`;
  const action = conversation === undefined ? "run" : "continue";
  return { action, why: `it failed (${failure}); it gets ${attempts}${then}` };
}

function itemsVerdict(count: number): Verdict {
  const items = count === 1 ? "1 item runs" : `${count} items run`;
  return { action: "continue", why: `${items} again; the others stay as they are` };
}

function repeatAction(run: Run, step: string): ResumeAction {
  const [effect] = effectsWithin(run, step);
  const once = effect && onceStep(run, step, effect);
  if (once === undefined || once.id !== step) return "run";
  return once.probe === undefined ? "needs settle" : "probe first";
}

/** True inside an item of a retried fan-out that is not retried. */
function isOtherItem(visit: Visit, { retried, items }: ResumePlanInput): boolean {
  if (items === undefined) return false;
  for (let { scope } = visit.record; scope.parent !== undefined; ) {
    const { parent, index } = scope;
    if (stepPath(visitRef(parent)) === retried) return !items.includes(index);
    scope = parent.record.scope;
  }
  return false;
}

/** Who decides whether an effect that must happen once has happened. */
function uncertainVerdict(visit: Visit, what: string): Verdict {
  if (stepOf(visit).probe !== undefined) {
    return { action: "probe first", why: `${what}; it runs again only if its probe says no` };
  }
  return { action: "needs settle", why: `${what}, and it must not happen twice: you decide` };
}

function isInside(visit: Visit, outer: Visit): boolean {
  return enclosingVisits(visit).some((around) => around === outer);
}

export interface RewindPlan {
  /** Steps that run again, the first one included. */
  readonly again: readonly string[];
  /** Steps whose results stay. */
  readonly kept: readonly string[];
  /** Unfinished steps before it that are treated as completed. */
  readonly assumed: readonly string[];
  /** Effects that must not happen twice, among the steps that run again. */
  readonly repeats: readonly string[];
}

/** The paths that restoring a snapshot changes. */
export interface FileChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** How many steps or files a line names. */
const NAMES_MAX = 10;
/** How many files are listed. */
const FILES_MAX = 10;

/** What a rewind does to the steps of the pipeline. */
export function rewindPlan(
  run: Run,
  rewind: Pick<EventOf<"run.rewound">, "step" | "reopened" | "assumed" | "repeat">,
): RewindPlan {
  const { step: named, reopened: again, assumed, repeat } = rewind;
  const kept = [...rootSteps(run)]
    .filter(({ status }) => KEPT.has(status))
    .map(({ path }) => path)
    .filter((path) => !again.includes(path) && !assumed.includes(path));
  const repeats = again.flatMap((step) => {
    const text = repeatText(run, step, step === named ? (repeat ? "agreed" : "named") : "after");
    return text === "" ? [] : [step + text];
  });
  return { again, kept, assumed, repeats };
}

const KEPT: ReadonlySet<keyof typeof STEP_STYLES> = new Set([
  "completed",
  "assumed",
  "handled",
  "skipped",
]);

/** The plan in words. */
export function rewindLines(plan: RewindPlan): readonly string[] {
  const { again, kept, assumed, repeats } = plan;
  return [
    `runs again: ${shortList(again, NAMES_MAX)}`,
    `kept: ${kept.length === 0 ? "nothing" : shortList(kept, NAMES_MAX)}`,
    ...(assumed.length === 0 ? [] : [`treated as completed: ${shortList(assumed, NAMES_MAX)}`]),
    ...repeats.slice(0, NAMES_MAX).map((text) => `once: ${text}`),
  ];
}

/** The files that a restore would change, one line each. */
export function changeLines({ added, changed, removed }: FileChanges): readonly string[] {
  const rows = [
    ...changed.map((path) => `  overwrites ${path}`),
    ...removed.map((path) => `  removes ${path}`),
    ...added.map((path) => `  restores ${path}`),
  ];
  const left = rows.length - FILES_MAX;
  return left <= 0 ? rows : [...rows.slice(0, FILES_MAX), `  and ${left} more`];
}
