/**
 * `show`: a run on one page: its head, every step (with its attempts when there were several), what
 * agents used, outputs, context, messages, and the three lines of `why`.
 *
 * Owns: the layout of the page.
 * Does not: choose the words for states and failures (step-status.ts, failure-text.ts, why.ts).
 */
import type { Recorded } from "../core/event.ts";
import type { VisitState, Wait } from "../core/graph/visit-state.ts";
import { hasProcess, isPrompt, stepOf, type Visit, visitRef } from "../core/run.ts";
import { attemptText, visitText } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { valueText } from "../util/template.ts";
import { type Attempt, attemptHistory, stepReportText } from "./attempt-history.ts";
import { spentText } from "./cost-text.ts";
import { standingLines } from "./end-card.ts";
import { confirmedText, exitText, failureText, messageText, warningText } from "./failure-text.ts";
import { messageRows } from "./message-text.ts";
import { type KnownNotice, noticeRows } from "./notification.ts";
import {
  answeredText,
  choicesText,
  deadlineText,
  materialText,
  questionText,
  wakeText,
} from "./question-text.ts";
import { reusedText, reuseSummary } from "./reuse-text.ts";
import { elapsedOf, runElapsed, runStatusOf, STEP_STYLES, stateWord } from "./step-status.ts";
import { type StepNode, stepTree } from "./step-tree.ts";
import {
  cutText,
  plainStyle,
  plainText,
  type Style,
  type Tone,
  tableLines,
  utcText,
} from "./text.ts";
import type { WhyInput } from "./why.ts";

export interface ShowInput extends WhyInput {
  readonly events: readonly Recorded[];
  /** What others were told about the run, or are to be told. */
  readonly notices?: readonly KnownNotice[];
  readonly style?: Style;
  /** The width of the terminal; undefined where there is none. */
  readonly width?: number | undefined;
}

/** Beyond this many rows, completed steps are only counted. */
const ROWS_MAX = 2_000;
const INPUT_WIDTH_MAX = 400;
const CONTEXT_KEYS_MAX = 40;
/** How much of a value of the context is shown. */
const CONTEXT_VALUE_WIDTH_MAX = 60;
const OUTPUTS_MAX = 100;
const NOTICES_MAX = 20;
const AGENT_ROWS_MAX = 100;
const HEADER = ["  STEP", "STATE", "ATTEMPTS", "ELAPSED", "RESULT"] as const;

/** The lines of `show`. */
export function showLines(input: ShowInput): readonly string[] {
  return [
    ...headerLines(input),
    "",
    ...stepLines(input),
    ...agentLines(input),
    ...outputLines(input),
    ...contextLines(input),
    ...messageLines(input),
    ...noticeLines(input),
    "",
    ...standingLines({ ...input, printedBy: "show" }),
  ];
}

function headerLines(input: ShowInput): readonly string[] {
  const { run, liveness, now } = input;
  const { created } = run;
  const rows: string[][] = [
    ["run", input.runId],
    ["pipeline", plainText(input.pipeline)],
  ];
  // The library may have passed the pipeline as a value.
  if (created !== undefined && created.file !== "") rows.push(["file", created.file]);
  if (run.origin !== undefined) {
    rows.push(["forked from", `${run.origin.run}, event ${run.origin.seq}`]);
  }
  rows.push(["status", runStatusOf(run, liveness)]);
  if (created !== undefined) {
    rows.push(["started", `${utcText(created.time)} UTC`]);
    rows.push(["elapsed", formatDuration(runElapsed(run, liveness, now))]);
    const spent = spentText(run.spent);
    if (spent !== undefined) rows.push(["spent", spent]);
    const reused = reuseSummary(input.events);
    if (reused !== undefined) rows.push(["reused", reused]);
    rows.push(["cwd", created.cwd]);
    const text = typeof created.input === "string" ? created.input : JSON.stringify(created.input);
    if (created.input !== null) rows.push(["input", cutText(plainText(text), INPUT_WIDTH_MAX)]);
  }
  const { style = plainStyle, width } = input;
  const toneOf = (_: number, column: number): Tone | undefined =>
    column === 0 ? "dim" : undefined;
  return tableLines(rows, { style, width, toneOf });
}

function stepLines(input: ShowInput): readonly string[] {
  const nodes = [...stepTree(input.run)];
  const fits = nodes.length <= ROWS_MAX;
  const shown = fits
    ? nodes
    : nodes.filter(({ status }) => status !== "completed").slice(0, ROWS_MAX);
  const history = attemptHistory(input.events);
  const rows: (readonly string[])[] = [HEADER];
  const tones: (Tone | undefined)[] = ["dim"];
  for (const node of shown) {
    tones[rows.length] = STEP_STYLES[node.status].tone;
    rows.push(stepCells(node, input));
    const attempts = node.visit && history.get(visitText(visitRef(node.visit)));
    if (attempts === undefined || attempts.length < 2) continue;
    for (const attempt of attempts) rows.push(attemptCells(attempt, node, input));
  }
  const left = nodes.length - shown.length;
  const note = left === 0 ? [] : [`  and ${left} more steps, most of them completed`];
  // A step's glyph, name and state; the rows of its attempts have no tone.
  const toneOf = (at: number, column: number): Tone | undefined =>
    at === 0 || column < 2 ? tones[at] : undefined;
  const { style = plainStyle, width } = input;
  return [...tableLines(rows, { style, width, toneOf }), ...note];
}

function stepCells(node: StepNode, input: ShowInput): readonly string[] {
  const { visit, status, depth } = node;
  const { glyph } = STEP_STYLES[status];
  const round = visit !== undefined && visit.number > 1 ? ` (visit ${visit.number})` : "";
  const elapsed = visit && elapsedOf(visit, input.liveness, input.now);
  return [
    `${"  ".repeat(depth)}${glyph} ${node.label}${round}`,
    stateWord(status, input.liveness),
    visit === undefined || visit.attempts === 0 ? "" : `${visit.attempts}`,
    elapsed === undefined ? "" : formatDuration(elapsed),
    visit === undefined ? "" : resultText(visit, input.now),
  ];
}

/** The result of a visit, or what it waits for, in one phrase. */
export function resultText(visit: Visit, now: number): string {
  const { state } = visit;
  switch (state.status) {
    case "failed":
      return failureText(state);
    case "completed":
      if (isPrompt(stepOf(visit)) && !state.assumed) return answeredText(state.answer);
      if (state.from !== undefined) return reusedText(state.from) + warningText(state);
      if (state.settledBy !== undefined) return confirmedText(state.settledBy, state.identity);
      return (
        [endText(visit, state), stepReportText(state.reported)]
          .filter((part) => part !== "")
          .join("; ") + warningText(state)
      );
    case "running":
      return partsText(visit);
    case "waiting":
      return waitText(visit, state, now);
    case "skipped":
      return state.by === undefined ? "" : `by ${plainText(state.by)}`;
    default:
      return "";
  }
}

function waitText(visit: Visit, wait: Wait, now: number): string {
  switch (wait.for) {
    case "retry": {
      const due = wait.until <= now ? "now" : `in ${formatDuration(wait.until - now)}`;
      return `next attempt ${due}: ${messageText(wait.message)}`;
    }
    case "person":
      return `${questionText(wait)} ${choicesText(wait)}${materialText(wait)}${deadlineText(wait)}`;
    case "time":
      return wakeText(wait.wake.at, now);
    case "owner":
    case "probe":
      return messageText(wait.message);
    case "close":
      return partsText(visit);
    default:
      return "";
  }
}

function endText(visit: Visit, { assumed, exit }: Extract<VisitState, { exit: number }>): string {
  return hasProcess(stepOf(visit)) && assumed !== true ? `exit ${exit}` : partsText(visit);
}

/** "2 of 5 items, 1 failed" for a fan-out, "3 iterations" for a loop; nothing for other steps. */
function partsText(visit: Visit): string {
  const { instances } = visit;
  if (instances !== undefined && stepOf(visit).work.kind === "loop") {
    return instances.opened === 1 ? "1 iteration" : `${instances.opened} iterations`;
  }
  const parts = stepOf(visit).work.kind === "branches" ? "branches" : "items";
  if (instances === undefined || (parts === "items" && instances.items === undefined)) return "";
  const failed = instances.failed === 0 ? "" : `, ${instances.failed} failed`;
  return `${instances.ended} of ${instances.total} ${parts}${failed}`;
}

function attemptCells(attempt: Attempt, node: StepNode, input: ShowInput): readonly string[] {
  const { at, startedAt, endedAt, outcome } = attempt;
  const end = endedAt ?? (input.liveness === "owned" ? input.now : undefined);
  return [
    `${"  ".repeat(node.depth)}    ${at.step}@${at.visit}.${at.attempt}`,
    outcome,
    "",
    end === undefined ? "" : formatDuration(Math.max(0, end - startedAt)),
    attemptResult(attempt),
  ];
}

function attemptResult({ reason, message, exit }: Attempt): string {
  if (reason !== undefined) return failureText({ reason, message: message ?? "", exit });
  if (message !== undefined) return messageText(message);
  return exit === undefined ? "" : exit === 0 ? "exit 0" : exitText(exit);
}

/** What each attempt of an agent used: its model, its conversation, its tokens and its cost. */
function agentLines(input: ShowInput): readonly string[] {
  const rows: string[][] = [];
  for (const attempts of attemptHistory(input.events).values()) {
    for (const { at, spent } of attempts) {
      const used = spent && spentText(spent);
      if (spent === undefined || used === undefined) continue;
      const { model = "model not known", session } = spent;
      const conversation = session === undefined ? "" : `session ${plainText(session)}`;
      rows.push([`  ${attemptText(at)}`, plainText(model), used, conversation]);
    }
  }
  if (rows.length === 0) return [];
  const left = rows.length - AGENT_ROWS_MAX;
  const note = left > 0 ? [`  and ${left} earlier attempts`] : [];
  return [
    "",
    "agents",
    ...note,
    ...tableLines(rows.slice(-AGENT_ROWS_MAX), { width: input.width }),
  ];
}

function outputLines(input: ShowInput): readonly string[] {
  const rows: string[][] = [];
  for (const { visit, path } of stepTree(input.run)) {
    if (visit?.state.status !== "completed") continue;
    for (const [name, { path: file, bytes, sha256 }] of Object.entries(visit.state.outputs)) {
      rows.push([`  ${path}.${name}`, file, `${bytes} bytes`, `sha256 ${sha256.slice(0, 12)}`]);
    }
  }
  if (rows.length === 0) return [];
  const left = rows.length - OUTPUTS_MAX;
  const note = left > 0 ? [`  and ${left} more`] : [];
  const lines = tableLines(rows.slice(0, OUTPUTS_MAX), { width: input.width });
  return ["", "outputs", ...lines, ...note];
}

function messageLines({ run }: ShowInput): readonly string[] {
  const rows = messageRows(run);
  return rows.length === 0 ? [] : ["", "messages", ...tableLines(rows)];
}

function noticeLines({ notices = [], width }: ShowInput): readonly string[] {
  if (notices.length === 0) return [];
  return ["", "notices", ...tableLines(noticeRows(notices.slice(-NOTICES_MAX)), { width })];
}

function contextLines({ run }: ShowInput): readonly string[] {
  const keys = [...run.context.keys()].sort();
  if (keys.length === 0) return [];
  const shown = keys.slice(0, CONTEXT_KEYS_MAX).map((key) => {
    const [value = ""] = valueText(run.context.get(key) ?? null).split("\n");
    return `  ${key} = ${cutText(plainText(value), CONTEXT_VALUE_WIDTH_MAX)}`;
  });
  const left = keys.length - shown.length;
  return ["", "context", ...shown, ...(left === 0 ? [] : [`  and ${left} more`])];
}
