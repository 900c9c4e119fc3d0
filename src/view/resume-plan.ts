/**
 * `resume --dry-run`: what going on would do with each step, and why.
 *
 * Owns: the words; what they say is what the engine does on the same evidence.
 * Does not: look for processes or files; the caller brings the evidence.
 */
import { converse } from "../core/conversation.ts";
import { effectsWithin } from "../core/effect.ts";
import type { RunRewound, Says } from "../core/event.ts";
import type { ConversationOffer } from "../core/fact.ts";
import { judgeOf } from "../core/judge.ts";
import { attemptText, ROOT_SCOPE } from "../core/place.ts";
import { resumeGrants } from "../core/rewind.ts";
import { attemptOf, isComposite, type Run, stepOf, type Visit } from "../core/run.ts";
import type { Wait } from "../core/visit-state.ts";
import { closureOf, indexOf, stepAt } from "../plan/graph-index.ts";
import type { Plan, Recover } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
import { onceStep, repeatText } from "./doubt-text.ts";
import { failureText, messageText } from "./failure-words.ts";
import { questionText, wakeText } from "./question-text.ts";
import { attemptWords, statusOf } from "./step-status.ts";
import { rootSteps, type StepNode, stepTree } from "./step-tree.ts";
import { tableLines } from "./table.ts";

export type ResumeAction =
  | "reuse"
  | "run"
  | "re-attach"
  | "take result"
  | "continue"
  | "probe first"
  | "needs settle"
  | "skip";

/** What became of an attempt that the journal says is running. */
export type Evidence = "alive" | "exited" | "answered" | "dead";

export interface ResumePlanInput {
  readonly plan: Plan;
  readonly run: Run;
  /** By attempt (`fix@2.3`), for every attempt that the journal says is running. */
  readonly evidence: ReadonlyMap<string, Evidence>;
  /** By attempt: what can be had of the conversation of a visit that talks to an agent. */
  readonly offers?: ReadonlyMap<string, ConversationOffer>;
  /** What the person wants done with conversations that were cut off. */
  readonly recover?: Recover | undefined;
  /** What `--from-step` would do, from `planRewind`. */
  readonly rewind?: Rewind | undefined;
  readonly now: number;
}

export interface ResumeStep {
  readonly step: string;
  readonly action: ResumeAction;
  readonly why: string;
}

type Rewind = Omit<RunRewound, "type">;
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
export function resumePlanLines(steps: readonly ResumeStep[]): readonly string[] {
  const rows = steps.map(({ step, action, why }) => [step, action, why]);
  return tableLines([["STEP", "RESUME WILL", "BECAUSE"], ...rows]);
}

function rewoundSteps(run: Run, rewind: Rewind): ReadonlyMap<string, Verdict> {
  const { step, reopened, assumed, items, repeat } = rewind;
  const named = repeat === true ? "agreed" : "named";
  const again = (id: string): Verdict => {
    const why = id === step ? "you asked to go on from here" : `it lies behind ${step}`;
    if (id === step) return { action: "run", why: why + repeatText(run, id, named) };
    const asked = repeatText(run, id, "behind");
    return { action: asked === "" ? "run" : repeatAction(run, id), why: why + asked };
  };
  const before: Verdict = {
    action: "reuse",
    why: `not done, but taken as done: you go on from ${step}`,
  };
  return new Map([
    ...reopened.map((id) => [id, again(id)] as const),
    ...assumed.map((id) => [id, before] as const),
    [step, items === undefined ? again(step) : itemsVerdict(items.length)],
  ]);
}

/** Steps that have not started and cannot, because one before them stays failed. */
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
    case "done":
      return { action: "reuse", why: "it is done; its result is kept" };
    case "assumed":
      return { action: "reuse", why: "it was taken as done" };
    case "handled":
      return { action: "reuse", why: "it failed, and the pipeline handled that" };
    case "skipped":
      return { action: "skip", why: "its condition was false" };
    case "unreached":
      return { action: "skip", why: "no arrow leads to it any more" };
    case "pending":
      return { action: "run", why: "it has not started" };
    default:
      return visit === undefined ? { action: "run", why: "" } : openVerdict(visit, input);
  }
}

/** A visit that is not over, or that failed. */
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
  const talk = judgeText(visit) ?? talkText(visit, input);
  switch (wait.for) {
    case "retry": {
      const left = wait.until - input.now;
      const due = left <= 0 ? "at once" : `in ${formatDuration(left)}`;
      const then = talk === undefined ? "" : `: ${talk}`;
      return { action: "continue", why: `it is tried again ${due}${nextAttempt(visit)}${then}` };
    }
    case "owner": {
      // What was only to be asked next, when the run stopped, was not interrupted itself.
      const cut = visit.cut === true || talk === undefined;
      const what = cut ? `it was interrupted (${messageText(wait.message)})` : "the run stopped";
      const then = talk ?? `it starts again${nextAttempt(visit)}`;
      return { action: "continue", why: `${what}; ${then}` };
    }
    case "person":
      return { action: "continue", why: `it waits for an answer: ${questionText(wait)}` };
    case "time":
      return { action: "continue", why: `it waits ${wakeText(wait.wake.at, input.now)}` };
    case "probe":
      return doubtVerdict(visit, "it may have happened");
    case "close":
      return runningVerdict(visit, input);
    default:
      return startVerdict(visit, input);
  }
}

function startVerdict(visit: Visit, input: ResumePlanInput): Verdict {
  const talk = judgeText(visit) ?? talkText(visit, input);
  if (talk !== undefined) return { action: "continue", why: talk };
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
  if (isComposite(step)) return { action: "continue", why: "the open steps in it go on" };
  switch (input.evidence.get(attemptText(attemptOf(visit)))) {
    case "alive":
      return { action: "re-attach", why: "its process is still running" };
    case "exited":
      return { action: "take result", why: "it ended while nobody watched; its result is on disk" };
    case "answered":
      return { action: "take result", why: "its process is gone, but its agent was done" };
    case "dead": {
      const judge = judgeText(visit);
      if (step.once && judge === undefined) return doubtVerdict(visit, "its process is gone");
      const talk = judge ?? talkText({ ...visit, cut: true }, input);
      if (talk !== undefined) return { action: "continue", why: `its process is gone; ${talk}` };
      return { action: "run", why: "its process is gone and left no result" };
    }
    default:
      return { action: "continue", why: "it was running; its process is looked for first" };
  }
}

/** What happens to a conversation that is taken up with these words. */
const TAKEN_UP: Readonly<Record<Says, string>> = {
  task: "the conversation that it shares is continued",
  interrupted: "its conversation is continued",
  relay: "its conversation is continued, to be handed over",
  correct: "its conversation is continued, for a better answer",
  permitted: "its conversation is continued, with what a person said about a denied call",
  relayed: "a new conversation goes on from the notes of the last",
  failed: "its conversation is continued, and it is told what failed",
};

/** Work that is done is only judged. */
function judgeText(visit: Visit): string | undefined {
  const judge = judgeOf(visit);
  return judge && `its work is done, and its judge (${judge.agent}) is asked`;
}

/** What the next attempt does with the conversation of a visit; undefined when it has none. */
function talkText(visit: Visit, input: ResumePlanInput): string | undefined {
  const offer = input.offers?.get(attemptText(attemptOf(visit)));
  if (visit.talk === undefined || offer === undefined) return undefined;
  // A new owner does not want what the one before wanted.
  const { recover: _, ...run } = input.run;
  const wishes = input.recover === undefined ? run : { ...run, recover: input.recover };
  const { kind, says } = converse(input.plan, wishes, visit, offer);
  if (kind === "continue" || says === "relayed") return TAKEN_UP[says];
  return visit.talk.session === undefined
    ? "a new conversation is started"
    : "its conversation is started again";
}

function failedVerdict(visit: Visit, failure: string, input: ResumePlanInput): Verdict {
  const { run } = input;
  const { retry } = stepOf(visit);
  const reason = visit.state.status === "failed" ? visit.state.reason : undefined;
  const ended = run.state.status === "failed";
  if (reason === "items") {
    const inner = [...run.failed].some((failed) => isInside(failed, visit) && resumeGrants(failed));
    return inner && ended
      ? { action: "continue", why: "the failed steps in it are tried again" }
      : { action: "skip", why: "a step in it stays failed" };
  }
  if (reason === "once") {
    return doubtVerdict(visit, "it may have happened");
  }
  if (reason === "aborted") return { action: "skip", why: `it was given up (${failure})` };
  if (!resumeGrants(visit)) {
    return {
      action: "skip",
      why: `it failed (${failure}), and \`on_resume\` grants no more tries`,
    };
  }
  if (!ended) {
    return { action: "skip", why: `it failed (${failure}); first the rest of the run goes on` };
  }
  const tries = retry.attempts === 1 ? "1 more try" : `${retry.attempts} more tries`;
  // What the person wants holds for the failures that are there when the run is opened.
  const wanted = input.recover === undefined ? visit : { ...visit, recover: input.recover };
  const talk = talkText(wanted, input);
  const then = talk === undefined ? "" : `: ${talk}`;
  const action = talk === undefined ? "run" : "continue";
  return { action, why: `it failed (${failure}); it gets ${tries}${then}` };
}

function itemsVerdict(count: number): Verdict {
  const items = count === 1 ? "1 item" : `${count} items`;
  return { action: "continue", why: `${items} that failed run again; the others stay done` };
}

function repeatAction(run: Run, step: string): ResumeAction {
  const [effect] = effectsWithin(run, step);
  const once = effect && onceStep(run, step, effect);
  if (once === undefined || once.id !== step) return "run";
  return once.probe === undefined ? "needs settle" : "probe first";
}

/** Who says whether a step that must not happen twice has happened. */
function doubtVerdict(visit: Visit, what: string): Verdict {
  if (stepOf(visit).probe !== undefined) {
    return { action: "probe first", why: `${what}; it runs again only if its probe says no` };
  }
  return { action: "needs settle", why: `${what}, and it must not happen twice: you decide` };
}

function isInside(visit: Visit, outer: Visit): boolean {
  for (let at: Visit | undefined = visit.record.scope.parent; at; at = at.record.scope.parent) {
    if (at === outer) return true;
  }
  return false;
}
