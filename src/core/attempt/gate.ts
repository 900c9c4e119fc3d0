/**
 * Gates and waits: how they start, what follows an answer or a deadline (the decide half), what the
 * events mean for the run (the evolve half), and how the words of a person become an answer.
 *
 * Owns: these decisions, the meaning of `step.asked`, and the check of a reply.
 * Does not: choose between two answers. The journal does (journal/H1), and only the answer that
 * counts
 * becomes a fact.
 * Invariants:
 * - core/H2 A question has at most one answer: an answer to an attempt that does not wait for one
 *   is ignored (core/D1).
 * - core/H3 Nothing approves by itself: after its deadline a gate takes its `default`, and fails if
 *   it has none.
 */

import type { Choice, WorkOf } from "../../plan/plan.ts";
import { choiceNamed, choiceOf } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import { formatDuration, parseMoment } from "../../util/duration.ts";
import type { JsonObject } from "../../util/json.ts";
import { afterPermission } from "../conversation/permission.ts";
import type {
  Answer,
  AttemptRef,
  Deadline,
  EventOf,
  Material,
  Question,
  RunEvent,
} from "../event.ts";
import { enter } from "../graph/visit.ts";
import { waitsFor } from "../graph/visit-state.ts";
import { attemptOf, draft, findVisit, type Run, stepOf, type Visit, waitingFor } from "../run.ts";
import { renderIn } from "../values.ts";
import { complete, fail } from "./attempt-end.ts";
import { finalFailure } from "./failure.ts";

/** The longest question that is kept. */
const QUESTION_LENGTH_MAX = 16_384;

/** The first events of a gate or a wait, or why it cannot start. */
type Begun =
  | { readonly ok: true; readonly events: readonly RunEvent[] }
  | { readonly ok: false; readonly message: string };

/** The attempt of a visit that starts. */
interface Start {
  readonly run: Run;
  readonly visit: Visit;
  readonly at: AttemptRef;
  readonly now: number;
}

/** Starts a gate or a wait and sets its deadline. */
export function startPrompt(
  { run, visit, at, now }: Start,
  work: WorkOf<"gate" | "wait">,
  material: readonly Material[] | undefined,
): Begun {
  const started = { type: "step.started", ...at } as const;
  if (work.kind === "gate") {
    const rendered = renderIn(run, visit, work.ask);
    if (!rendered.ok) return rendered;
    const question = rendered.text.slice(0, QUESTION_LENGTH_MAX);
    const { choices, text, timeoutMs, default: otherwise } = work;
    const asked = { type: "step.asked", ...at, question, choices, text } as const;
    const limit = {
      ...(timeoutMs === undefined ? {} : { deadline: { at: now + timeoutMs, delayMs: timeoutMs } }),
      ...defined({ default: otherwise, material }),
    };
    return { ok: true, events: [started, { ...asked, ...limit }] };
  }
  const wake = wakeOf(run, visit, work, now);
  if ("message" in wake) return { ok: false, message: wake.message };
  return { ok: true, events: [{ ...started, wake }] };
}

function wakeOf(
  run: Run,
  visit: Visit,
  work: WorkOf<"wait">,
  now: number,
): Deadline | { readonly message: string } {
  if ("forMs" in work) return { at: now + work.forMs, delayMs: work.forMs };
  const rendered = renderIn(run, visit, work.until);
  if (!rendered.ok) return rendered;
  const at = parseMoment(rendered.text);
  if (at !== undefined) return { at };
  const shown = JSON.stringify(rendered.text.slice(0, 80));
  return { message: `\`until\` must be a moment such as 2026-12-01T08:00:00Z, but it is ${shown}` };
}

/** The events that follow from the answer that counts. */
export function answerEvents(
  run: Run,
  at: AttemptRef,
  answer: Answer,
  now: number,
): readonly RunEvent[] {
  const visit = findVisit(run, at);
  if (!waitsFor(visit?.state, "person") || visit.attempts !== at.attempt) return [];
  const { choices } = visit.state;
  const chosen = choices.find(({ key }) => key === answer.choice);
  const label = chosen === undefined ? {} : { label: chosen.label };
  const answered = { type: "step.answered", ...attemptOf(visit), ...answer, ...label } as const;
  if (stepOf(visit).work.kind === "agent") return [answered, afterPermission(visit, answer)];
  return [answered, endOf(run, visit, answer, chosen, now)];
}

/** The answer that counts after the deadline of a question: its default, or that there was none. */
export function deadlineOf(
  { state }: Visit,
  by: string,
): { readonly at: number; readonly otherwise: Answer } | undefined {
  if (!waitsFor(state, "person") || state.deadline === undefined) return undefined;
  const { at } = state.deadline;
  const choice = state.default === undefined ? {} : { choice: state.default };
  return { at, otherwise: { ...choice, by, from: "timeout", given: at } };
}

function endOf(
  run: Run,
  visit: Visit,
  answer: Answer,
  chosen: Choice | undefined,
  now: number,
): RunEvent {
  const at = attemptOf(visit);
  if (chosen === undefined) {
    if (answer.choice === undefined) return fail(run, visit, "unanswered", lateText(visit), now);
    const message = `the answer ${JSON.stringify(answer.choice)} is none of its choices`;
    return finalFailure(run, visit, at, "rejected", message);
  }
  const { label, next } = chosen;
  const reported = { label, ...(next === undefined ? {} : { next: [next] }) };
  if (chosen.fails === true) {
    const words = answer.text === undefined ? "" : `: ${answer.text}`;
    const message = `${answer.by} answered "${label}"${words}`;
    const evidence = { reported, answer: answerJson(answer, label) };
    return finalFailure(run, visit, at, "rejected", message, evidence);
  }
  const result = { outputs: {}, context: {}, answer: answerJson(answer, label), reported };
  return complete(run, visit, 0, result);
}

function lateText({ state }: Visit): string {
  const delayMs = waitsFor(state, "person") ? state.deadline?.delayMs : undefined;
  const when = delayMs === undefined ? "in time" : `within ${formatDuration(delayMs)}`;
  return `nobody answered ${when}`;
}

/** The value of `results.<step>.answer`. */
function answerJson({ choice = "", text, by, from }: Answer, label: string): JsonObject {
  return { choice, label, ...defined({ text }), by, from };
}

/** The events that follow from the end of a wait. */
export function wakeEvents(run: Run, visit: Visit | undefined): readonly RunEvent[] {
  if (!waitsFor(visit?.state, "time") || stepOf(visit).work.kind !== "wait") return [];
  return [complete(run, visit, 0, { outputs: {}, context: {} })];
}

/** The choice that approves: the first one that does not make the step fail. */
export function approvingChoice(choices: readonly Choice[]): Choice | undefined {
  return choices.find(({ fails }) => fails !== true) ?? choices[0];
}

// The functions below change a run, for evolve.ts alone (run/C2).

type QuestionEvent = EventOf<"step.asked" | "step.answered">;

/** Applies an event about a question to the run. */
export function applyQuestion(run: Run, visit: Visit, event: QuestionEvent, time: number): void {
  if (event.type === "step.answered") return;
  const { question, choices, text, deadline, default: otherwise, material } = event;
  enter(run, visit, {
    ...{ status: "waiting", for: "person", since: time, question, choices, text },
    ...defined({ deadline, default: otherwise, material }),
  });
}

/** Shortens waits for a new owner: a clock that was set back must not make them longer. */
export function shortenWaits(run: Run, time: number): void {
  for (const visit of waitingFor(run, "person", "time", "retry")) {
    const { state } = visit;
    if (waitsFor(state, "person") && state.deadline !== undefined) {
      draft(visit).state = { ...state, deadline: shortened(state.deadline, time) };
    } else if (waitsFor(state, "time")) {
      draft(visit).state = { ...state, wake: shortened(state.wake, time) };
    } else if (waitsFor(state, "retry")) {
      draft(visit).state = { ...state, until: Math.min(state.until, time + state.delayMs) };
    }
  }
}

function shortened(deadline: Deadline, time: number): Deadline {
  const { at, delayMs } = deadline;
  return delayMs === undefined ? deadline : { at: Math.min(at, time + delayMs), delayMs };
}

/** The longest text beside a choice. */
const ANSWER_TEXT_MAX = 16_384;

export type Reply =
  | ({ readonly ok: true } & Pick<Answer, "text"> & { readonly choice: string })
  | { readonly ok: false; readonly message: string };

/** The reply that a choice and a text make. */
export function replyOf(question: Question, word: string, text: string | undefined): Reply {
  const { choices, text: rule } = question;
  const choice = choiceNamed(choices, word);
  const free = choice === undefined ? choices.find((one) => one.free === true) : undefined;
  if (free !== undefined) {
    return replyOf(question, free.key, text === undefined ? word : `${word} ${text}`);
  }
  if (choice === undefined) {
    const shown = choices.map(choiceText).join(", ");
    return { ok: false, message: `there is no choice "${word}": choose one of ${shown}` };
  }
  const said = text?.trim() ?? "";
  if (said === "") {
    if (rule === "required") return { ok: false, message: "this answer needs a comment" };
    return { ok: true, choice: choice.key };
  }
  if (rule === "none") return { ok: false, message: "this question takes no comment" };
  if (said.length > ANSWER_TEXT_MAX) {
    return { ok: false, message: `an answer has at most ${ANSWER_TEXT_MAX} characters of text` };
  }
  return { ok: true, choice: choice.key, text: said };
}

/** The reply in a line that a person typed: a choice, followed by a text or not. */
export function replyIn(question: Question, line: string): Reply {
  const whole = line.trim();
  if (choiceNamed(question.choices, whole) !== undefined)
    return replyOf(question, whole, undefined);
  const [word = "", ...rest] = whole.split(/\s+/);
  return replyOf(question, word, rest.join(" "));
}

/** `[A] approve`. */
export function choiceText({ key, label }: Choice): string {
  const { text } = choiceOf(label);
  return key.toUpperCase() === text.toUpperCase() ? `[${text}]` : `[${key}] ${text}`;
}

/** The word for a choice in a command: its label if that is one word, otherwise its key. */
export function choiceWord({ key, label }: Choice): string {
  const { text } = choiceOf(label);
  return /^[\w-]+$/.test(text) ? text : key;
}
