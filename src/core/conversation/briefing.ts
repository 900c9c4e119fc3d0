/**
 * The briefing of an agent: how much it learns about its run at the start of an attempt, why that
 * much, and the text itself, which precedes its prompt.
 *
 * Owns: what replaces `full` when the conversation is not available, the briefing after a
 * conversation was lost, and for each mode its content, its length and what is left out first.
 * Does not: choose the conversation (conversation.ts) or read anything but the run.
 * Invariants:
 * - core/K6 An attempt that has to start again before its agent answered gets the briefing of the
 *   attempt before, word for word: the text is in the event.
 * - core/T1 No text is longer than its limit. It is cut between lines, and the newest entries of
 *   each list stay.
 * - core/T2 It holds only what the journal holds, which has no secret values, and nothing of
 *   `internal.*`.
 * - core/T3 It holds no time, no owner and no path of this machine: the same state gives the same
 *   text.
 */
import type { BriefingMode, Plan } from "../../plan/plan.ts";
import { isObject, type Json } from "../../util/json.ts";
import { contextSeenAt, contextValue } from "../context.ts";
import type { Briefing, Conversation, StepReport } from "../event.ts";
import { statusWord, waitsFor } from "../graph/visit-state.ts";
import { enclosingScopes, type Run, stepOf, type Visit, waitingFor } from "../run.ts";
import {
  fidelityOf,
  hasBegun,
  INSTEAD_OF_FULL,
  incomingEdge,
  resumeFidelityOf,
  sharingOf,
  startsNewConversation,
  threadOf,
} from "./conversation.ts";

/** The briefing of the next attempt of a visit; undefined when it needs none. */
export function briefingFor(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
): Briefing | undefined {
  if (stepOf(visit).work.kind !== "agent") return undefined;
  const { kind, says = "task" } = conversation ?? {};
  // The visit's own conversation continues, and holds the briefing already.
  if (kind === "continue" && says !== "task") return undefined;
  const startsNew = startsNewConversation(run, visit);
  const lost = hasBegun(visit) && kind === "start" && !startsNew;
  const before = briefingBefore(visit);
  const again = kind !== "continue" && !lost && !startsNew;
  if (says === "relayed" || (before !== undefined && again)) return before;
  const wanted = fidelityOf(plan, visit);
  const thread = wanted?.mode === "full" ? threadOf(plan, visit) : undefined;
  const base = thread === undefined ? {} : { thread };
  if (lost) {
    const mode = resumeFidelityOf(plan, visit);
    const why = "it was interrupted, and its conversation is gone";
    return { mode, by: "resume", why, ...base, preamble: preambleOf(run, visit, mode, "lost") };
  }
  if (wanted === undefined) return undefined;
  const { mode, by } = wanted;
  const said = `${sourceText(wanted, visit)} says ${mode}`;
  if (mode !== "full") return { mode, by, why: said, preamble: preambleOf(run, visit, mode) };
  if (kind === "continue") return { mode, by, why: said, ...base };
  const missing = startsNew ? "it starts again" : whyNotFull(plan, run, visit, conversation);
  if (missing === undefined) return { mode, by, why: said, ...base };
  const why = `${said}, but ${missing}`;
  const preamble = preambleOf(run, visit, INSTEAD_OF_FULL);
  return { mode: INSTEAD_OF_FULL, by, why, ...base, preamble };
}

/** The briefing since the last failure of the visit. */
function briefingBefore({ briefing, failures }: Visit): Briefing | undefined {
  if (briefing === undefined || briefing.failures !== failures) return undefined;
  const { failures: _, ...reported } = briefing;
  return reported;
}

/** Why the shared conversation is not available; undefined for the first conversation. */
function whyNotFull(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
): string | undefined {
  if (conversation === undefined) return "its agent is a command, which keeps no conversation";
  const sharing = sharingOf(plan, run, visit);
  if (sharing.kind === "none") return undefined;
  return sharing.kind === "barred"
    ? sharing.why
    : `the conversation of ${sharing.shared.step} is gone`;
}

function sourceText({ by }: Pick<Briefing, "by">, visit: Visit): string {
  if (by !== "edge") return `the ${by}`;
  const incoming = incomingEdge(visit);
  const from = incoming?.scope.graph.steps[incoming.edge.from]?.id;
  return from === undefined ? "the edge to it" : `the edge from ${from}`;
}

/** How much each mode shows, in characters; a token is about four characters. */
interface Detail {
  readonly total: number;
  /** The answer of a step on one line. */
  readonly note: number;
  /** An excerpt of the answer, on lines of its own. */
  readonly answer: number;
  /** The value of a context key. */
  readonly value: number;
}

export const DETAILS: Readonly<Record<BriefingMode, Detail>> = {
  truncate: { total: 2_000, note: 0, answer: 0, value: 0 },
  compact: { total: 4_000, note: 120, answer: 0, value: 300 },
  "summary:low": { total: 600 * 4, note: 160, answer: 0, value: 80 },
  "summary:medium": { total: 1_500 * 4, note: 240, answer: 600, value: 200 },
  "summary:high": { total: 3_000 * 4, note: 400, answer: 2_000, value: 500 },
};

/** The largest part of the text after the head for open steps, and for the context. */
const OPEN_SHARE = 0.15;
const CONTEXT_SHARE = 0.35;
/** The largest part of the whole text for the goal. */
const GOAL_SHARE = 0.5;
/** The length of the line that says how much was left out. */
const LEFT_OUT_LENGTH = 48;
/** Internal keys, and the goal, which is in the head. */
const HIDDEN_KEYS = /^(internal\.|graph\.goal$)/;

/** The text for a visit; `lost` when it was started before and its conversation is gone. */
export function preambleOf(run: Run, visit: Visit, mode: BriefingMode, lost?: "lost"): string {
  const detail = DETAILS[mode];
  const head = headOf(run, visit, detail);
  if (mode === "truncate") return fitted(head, detail.total);
  const room = detail.total - lengthOf(head);
  const open = section("Still open:", openEntries(run, visit, detail, lost), room * OPEN_SHARE);
  const entries = contextEntries(run, visit, detail);
  const context = section("The run's context:", entries, room * CONTEXT_SHARE);
  const used = lengthOf([...open, ...context]);
  const done = section("Steps so far, the newest last:", doneEntries(visit, detail), room - used);
  return fitted([...head, ...done, ...open, ...context], detail.total);
}

/** A prompt after its preamble. */
export function withPreamble(preamble: string | undefined, prompt: string): string {
  return preamble === undefined ? prompt : `${preamble}\n\n---\n\n${prompt}`;
}

function headOf(run: Run, visit: Visit, { total }: Detail): readonly string[] {
  const { pipeline = "" } = run.created ?? {};
  const goal = goalOf(run, visit);
  return [
    `This step is part of run ${run.id} of the pipeline ${oneLine(pipeline, 100)}.`,
    ...(goal === undefined ? [] : [`Goal: ${oneLine(goal, total * GOAL_SHARE)}`]),
  ];
}

/** The goal of the run: that of its graph, or that of its input. */
function goalOf(run: Run, { record }: Visit): string | undefined {
  const { input } = run.created ?? {};
  const own = contextValue(run, record.scope, "graph.goal");
  const goals = [own, isObject(input) ? input.goal : undefined];
  return goals.find((goal) => typeof goal === "string" && goal.trim() !== "") as string | undefined;
}

/** The visits that ended, in order, in the scope of the visit and in the outer scopes. */
function doneEntries(visit: Visit, detail: Detail): readonly Entry[] {
  const ended: Visit[] = [];
  for (const scope of enclosingScopes(visit.record.scope)) {
    for (const record of scope.steps) {
      const current = record?.visits.slice(record.past) ?? [];
      ended.push(...current.filter((one) => one.endSeq !== undefined && isListed(one)));
    }
  }
  ended.sort((one, other) => (one.endSeq ?? 0) - (other.endSeq ?? 0) || orderOf(one, other));
  // Long runs have many visits with long answers, and few fit: the text of an entry is made on
  // demand.
  return ended.map((one) => () => doneEntry(one, detail));
}

/** The order of visits that the same event ended: that of the plan. */
function orderOf(one: Visit, other: Visit): number {
  return one.record.position - other.record.position || one.number - other.number;
}

/** True for a visit that the briefing lists; a step that only passes on is left out. */
function isListed(visit: Visit): boolean {
  if (stepOf(visit).work.kind === "pass") return false;
  return ["completed", "failed", "skipped"].includes(visit.state.status);
}

function doneEntry(visit: Visit, detail: Detail): string {
  const { state, attempts } = visit;
  const attemptsText = attempts > 1 ? ` after ${attempts} attempts` : "";
  const name = nameOf(visit);
  if (state.status === "failed") {
    const on = state.handled ? "; the run continued" : "";
    const notes = notesText(state.reported, detail);
    return `- ${name}: failed${attemptsText} (${oneLine(state.message, detail.note)})${on}${notes}`;
  }
  if (state.status !== "completed") return `- ${name}: skipped`;
  const { reported } = state;
  const outcome = reported?.outcome === undefined ? "" : ` with ${oneLine(reported.outcome, 60)}`;
  const how = state.assumed
    ? "taken as done"
    : `completed${outcome}${attemptsText}${instancesText(visit)}`;
  const outputs = Object.keys(state.outputs);
  const files = outputs.length === 0 ? "" : `, hands on ${oneLine(outputs.join(", "), 200)}`;
  const notes = notesText(reported, detail);
  const said = notes !== "" && detail.answer === 0 ? "" : saidText(state.answer, detail);
  return `- ${name}: ${how}${files}${notes}${said}`;
}

/** The notes of a step for later steps. */
function notesText(reported: StepReport | undefined, { note }: Detail): string {
  return reported?.notes === undefined ? "" : `; it notes: ${oneLine(reported.notes, note)}`;
}

/** `fix`, or `fix@2` for a step with several visits. */
function nameOf({ record, number }: Visit): string {
  const { id } = stepOf(record);
  return record.visits.length > 1 ? `${id}@${number}` : id;
}

function instancesText({ instances }: Visit): string {
  if (instances?.items === undefined) return "";
  const failed = instances.failed === 0 ? "" : `, ${instances.failed} of them failed`;
  return ` (${instances.total} items${failed})`;
}

/** The answer of a step: on its line when it is short, otherwise as an excerpt below it. */
function saidText(answer: Json | undefined, { note, answer: most }: Detail): string {
  if (answer === undefined) return "";
  const text = typeof answer === "string" ? answer : JSON.stringify(answer);
  const line = oneLine(text, Number.POSITIVE_INFINITY);
  if (line === "") return "";
  if (line.length <= note || most === 0) return `: ${oneLine(text, note)}`;
  return `, said:\n${excerpt(text, most)}`;
}

/** The first lines of a text, quoted to separate them from our own. */
function excerpt(text: string, most: number): string {
  const lines = text.split(/\r?\n/).map((line) => `  > ${oneLine(line, most)}`.trimEnd());
  const whole = lines.filter((line) => line !== "  >");
  const kept: string[] = [];
  let used = 0;
  for (const line of whole) {
    if (used + line.length > most) break;
    kept.push(line);
    used += line.length + 1;
  }
  if (kept.length === 0) return `  > ${oneLine(text, most)}`;
  return [...kept, ...(kept.length < whole.length ? ["  > …"] : [])].join("\n");
}

/** The other visits that are not over, and the visit's own earlier attempts. */
function openEntries(run: Run, visit: Visit, detail: Detail, lost?: "lost"): readonly string[] {
  const scopes = new Set(enclosingScopes(visit.record.scope));
  const beside: string[] = [];
  const waiting = waitingFor(run, "retry", "owner", "probe", "person");
  for (const other of [...run.running, ...waiting]) {
    if (other === visit || !scopes.has(other.record.scope)) continue;
    beside.push(`- ${nameOf(other)}: ${statusWord(other.state)}`);
  }
  return [...beside, ...ownEntries(visit, detail, lost)];
}

function ownEntries(visit: Visit, { note }: Detail, lost?: "lost"): readonly string[] {
  if (lost === "lost") {
    return [
      `- ${nameOf(visit)}, this step: it was started before and interrupted, and its conversation is ` +
        "lost; look at the working tree first and keep what is done",
    ];
  }
  const { state, failures } = visit;
  if (failures === 0) return [];
  const why = waitsFor(state, "retry") ? ` (${oneLine(state.message, note)})` : "";
  return [
    `- ${nameOf(visit)}, this step: ${failures === 1 ? "it" : `${failures} times it`} failed${why}`,
  ];
}

function contextEntries(run: Run, visit: Visit, { value: most }: Detail): readonly string[] {
  const entries = [...contextSeenAt(run, visit)].filter(([key]) => !HIDDEN_KEYS.test(key));
  return entries.map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `- ${oneLine(key, 200)} = ${oneLine(text, most)}`;
  });
}

/** An entry of a list, made on demand; it may have several lines. */
type Entry = string | (() => string);

/** A title and the newest entries that fit (core/T1). */
function section(title: string, entries: readonly Entry[], room: number): readonly string[] {
  if (entries.length === 0) return [];
  let left = room - lengthOf(["", title]);
  const kept: string[] = [];
  for (let index = entries.length - 1; index >= 0; index--) {
    const given = entries[index] ?? "";
    const entry = typeof given === "string" ? given : given();
    const reserved = index === 0 ? 0 : LEFT_OUT_LENGTH;
    const fits = linesWithin(entry, left - reserved);
    if (fits.length === 0) break;
    kept.unshift(...fits);
    left -= lengthOf(fits);
    if (fits.length < entry.split("\n").length) break;
  }
  const reported = kept.filter((line) => line.startsWith("- ")).length;
  if (reported === 0) return [];
  const out = entries.length - reported;
  return ["", title, ...(out === 0 ? [] : [`- (${out} earlier ones are left out)`]), ...kept];
}

function linesWithin(entry: string, room: number): readonly string[] {
  const kept: string[] = [];
  let left = room;
  for (const line of entry.split("\n")) {
    left -= line.length + 1;
    if (left < 0) break;
    kept.push(line);
  }
  return kept;
}

function fitted(lines: readonly string[], total: number): string {
  return linesWithin(lines.join("\n"), total + 1).join("\n");
}

function lengthOf(lines: readonly string[]): number {
  return lines.reduce((sum, { length }) => sum + length + 1, 0);
}

/** A text on one line, without control characters, cut to a length. */
function oneLine(text: string, most: number): string {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
  if (line.length <= most) return line;
  // Do not cut inside a surrogate pair.
  return `${line.slice(0, Math.max(0, Math.floor(most) - 1)).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
