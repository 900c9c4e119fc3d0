/**
 * Which steps the live view shows, and the line of each: glyph, name, state, time, cost, turns, attempt,
 * and what it does or prints now. All steps are shown while they fit. If they do not fit, completed steps
 * are only counted, then pending ones; active steps stay, with the last completed and the next pending
 * ones if there is room. The chosen step is always shown. A finished attempt leaves the view at its top,
 * with the end of its output.
 *
 * Owns: this choice, the lines that count the rest, the columns, which of them a narrow terminal leaves
 * out, and how many lines of an output stay in the scrollback.
 */

import type { Spent } from "../../core/event.ts";
import type { Wait } from "../../core/graph/visit-state.ts";
import type { Run, Visit } from "../../core/run.ts";
import { usdText } from "../../core/spending.ts";
import { formatDuration } from "../../util/duration.ts";
import { failureText, messageText } from "../failure-text.ts";
import { choicesText, questionText, wakeText } from "../question-text.ts";
import { attemptOrdinal, elapsedOf, STEP_STYLES, type StepStatus } from "../step-status.ts";
import { nodeOf, type StepNode, stepTree } from "../step-tree.ts";
import {
  countText,
  cutText,
  displayWidth,
  padText,
  plainText,
  type Style,
  wrapAdvice,
} from "../text.ts";
import { clockText, type LiveInput, type LiveLine, outputOf, visitSpending } from "./live-input.ts";

type Group = "active" | "done" | "skipped" | "pending";

const GROUPS: Readonly<Record<StepStatus, Group>> = {
  running: "active",
  failed: "active",
  waiting: "active",
  interrupted: "active",
  uncertain: "active",
  asked: "active",
  sleeping: "active",
  completed: "done",
  assumed: "done",
  handled: "done",
  skipped: "skipped",
  unreached: "skipped",
  pending: "pending",
  ready: "pending",
};

/** The order in which active steps are shown when not all fit. */
const PRIORITY: readonly StepStatus[] = [
  ...(["failed", "asked", "running", "uncertain"] as const),
  ...(["waiting", "sleeping", "interrupted"] as const),
];

type Visits = ReadonlySet<Visit>;

/** The same order for the sets of the run. */
function setsByPriority({ failed, running, waiting, composites }: Run): readonly Visits[] {
  const { person, probe, retry, time, owner, close } = waiting;
  return [failed, person, running, probe, retry, time, owner, composites, close];
}

/** How many completed and pending steps are shown if there is room. */
const RECENT_MAX = 3;
const NEXT_MAX = 5;

/** With fewer rows, no step is only counted. */
const COUNTING_ROWS_MIN = 3;

/** Beyond this many steps a frame looks only at those that move: its cost must not grow. */
const STEPS_VISITED_MAX = 1_000;

interface Frame {
  readonly input: LiveInput;
  readonly width: number;
  readonly room: number;
}

/** The rows of the steps, at most `room`. */
export function stepRows(input: LiveInput, width: number, room: number): readonly string[] {
  if (room <= 0) return [];
  const frame = { input, width, room };
  if (input.run.stepsTotal > STEPS_VISITED_MAX) return ofMany(frame);
  const nodes = [...stepTree(input.run)];
  if (nodes.length <= room) return stepLines(nodes, input, width);
  return collapsed(nodes, frame);
}

function collapsed(nodes: readonly StepNode[], frame: Frame): readonly string[] {
  const { step: chosen } = frame.input.choice;
  if (frame.room < COUNTING_ROWS_MIN) return urgent(nodes, frame);
  const groups: Record<Group, StepNode[]> = { active: [], done: [], skipped: [], pending: [] };
  for (const node of nodes) groups[GROUPS[node.status]].push(node);
  const { active, done, skipped, pending } = groups;
  const counts = {
    active: active.length,
    done: done.length,
    skipped: skipped.length,
    pending: pending.length,
  };
  // A chosen step takes a row of its own where it would only be counted.
  const pinned = [...done, ...skipped].filter(({ path }) => path === chosen);
  const room = roomFor(counts, frame) - pinned.length;
  const inOrder = (some: readonly StepNode[]): readonly StepNode[] => {
    const shown = new Set([...some, ...pinned]);
    return nodes.filter((node) => shown.has(node));
  };
  if (active.length > room) {
    return framed(counts, inOrder(mostUrgent(active, room - 1, chosen)), frame);
  }
  const left = frame.room - pinned.length;
  const fits = active.length + pending.length < left;
  const next = pending.slice(0, fits ? pending.length : Math.min(NEXT_MAX, room - active.length));
  const spare = left - active.length - next.length - (next.length === pending.length ? 1 : 2);
  const recent = done.slice(Math.max(0, done.length - Math.max(0, Math.min(RECENT_MAX, spare))));
  return framed(counts, inOrder([...active, ...next, ...recent]), frame);
}

/** Where there is hardly any room: what moves, and nothing else. */
function urgent(nodes: readonly StepNode[], { input, width, room }: Frame): readonly string[] {
  const active = nodes.filter(({ status }) => GROUPS[status] === "active");
  const shown = mostUrgent(active, room, input.choice.step);
  return stepLines(shown.length > 0 ? shown : nodes.slice(-room), input, width);
}

/** As `collapsed`, but from the run's own sets and counters; what was skipped counts as done. */
function ofMany(frame: Frame): readonly string[] {
  const { run } = frame.input;
  const sets = setsByPriority(run);
  const active = sets.reduce((sum, set) => sum + set.size, 0);
  const pending = Math.max(0, run.stepsTotal - run.stepsDone - active);
  const counts = { active, done: run.stepsDone, skipped: 0, pending };
  const room = roomFor(counts, frame);
  const shownMax = active <= room ? active : room - 1;
  const shown: Visit[] = [];
  for (const set of sets) {
    for (const visit of set) {
      if (shown.length >= shownMax) break;
      shown.push(visit);
    }
  }
  return framed(counts, shown.map(nodeOf), frame);
}

/** How many lines are left for steps that move. */
function roomFor({ done, skipped, pending }: Record<Group, number>, { room }: Frame): number {
  return room - (done + skipped > 0 ? 1 : 0) - (pending > 0 ? 1 : 0);
}

function framed(
  counts: Record<Group, number>,
  shown: readonly StepNode[],
  { input, width, room }: Frame,
): readonly string[] {
  const { style } = input;
  const shownOf = (group: Group): number =>
    shown.filter(({ status }) => GROUPS[status] === group).length;
  const left = (group: Group): number => counts[group] - shownOf(group);
  const done = doneLine(left("done"), left("skipped"), shownOf("done") > 0 ? " more" : "");
  const pending = ` · ${left("pending")}${shownOf("pending") > 0 ? " more" : ""} pending`;
  const lines = [
    ...(done === undefined ? [] : [style("good", cutText(done, width))]),
    ...stepLines(shown, input, width),
    ...(left("active") <= 0
      ? []
      : [style("busy", cutText(` … ${left("active")} more running`, width))]),
    ...(left("pending") <= 0 ? [] : [style("dim", cutText(pending, width))]),
  ];
  return lines.slice(0, Math.max(0, room));
}

function doneLine(done: number, skipped: number, more: string): string | undefined {
  if (done === 0 && skipped === 0) return undefined;
  if (done === 0) return ` – ${skipped} skipped`;
  const completed = ` ✓ ${done}${more} completed`;
  return skipped === 0 ? completed : `${completed}, ${skipped} skipped`;
}

/** The first ones by priority; composites say little that the steps in them do not. */
function mostUrgent(
  active: readonly StepNode[],
  count: number,
  chosen: string | undefined,
): readonly StepNode[] {
  const kept = new Set<StepNode>(active.filter(({ path }) => path === chosen).slice(0, count));
  for (const status of PRIORITY) {
    for (const node of active) {
      const leaf = node.visit?.instances === undefined;
      if (kept.size < count && node.status === status && leaf) kept.add(node);
    }
  }
  return [...kept];
}

const NAME_WIDTH_MIN = 12;
/** Narrower terminals show no words for states and no turns: the glyph says the state. */
const WORDS_WIDTH_MIN = 60;
/** With fewer columns left, the last column is empty. */
const SAID_WIDTH_MIN = 6;

const MOVING: ReadonlySet<StepStatus> = new Set([
  "running",
  "failed",
  "waiting",
  "interrupted",
  "uncertain",
  "asked",
  "sleeping",
]);

interface Cells {
  readonly isChosen: boolean;
  readonly status: StepStatus;
  readonly name: string;
  readonly state: string;
  readonly elapsed: string;
  readonly cost: string;
  readonly turns: string;
  readonly attempt: string;
  readonly said: string;
}

type Column = "state" | "elapsed" | "cost" | "turns" | "attempt";
const RIGHT_ALIGNED: ReadonlySet<Column> = new Set<Column>(["elapsed", "cost", "turns"]);

/** One line for each step, in aligned columns, none wider than `width`. */
function stepLines(nodes: readonly StepNode[], input: LiveInput, width: number): readonly string[] {
  const cells = nodes.map((node) => cellsOf(node, input));
  const isWide = width >= WORDS_WIDTH_MIN;
  const columns: readonly Column[] = isWide
    ? ["state", "elapsed", "cost", "turns", "attempt"]
    : ["elapsed", "cost"];
  const widest = (of: (cell: Cells) => string): number =>
    cells.reduce((most, cell) => Math.max(most, displayWidth(of(cell))), 0);
  const nameMax = Math.max(NAME_WIDTH_MIN, Math.floor(width / (isWide ? 3 : 2)));
  const nameWidth = Math.min(
    nameMax,
    widest(({ name }) => name),
  );
  const widths = columns.map((column) => ({ column, width: widest((cell) => cell[column]) }));
  const { style } = input;
  return cells.map((cell) => {
    const { glyph, tone } = STEP_STYLES[cell.status];
    const name = padText(cutText(cell.name, nameWidth), nameWidth);
    const rest = widths.flatMap(({ column, width: columnWidth }) =>
      columnWidth === 0 ? [] : [aligned(cell[column], columnWidth, RIGHT_ALIGNED.has(column))],
    );
    const mark = cell.isChosen ? "›" : " ";
    const front = `${mark}${glyph} ${[name, ...rest].join("  ")}`;
    const isRoom = width - displayWidth(front) >= SAID_WIDTH_MIN;
    const said = cell.said === "" || !isRoom ? "" : `  ${cell.said}`;
    const line = cutText((front + said).trimEnd(), width);
    const back = line.startsWith(front) ? line.slice(front.length) : "";
    const lead = line.slice(0, line.length - back.length);
    return style(cell.isChosen ? "strong" : tone, lead) + (back && style("dim", back));
  });
}

function aligned(text: string, width: number, isRight: boolean): string {
  return isRight
    ? " ".repeat(Math.max(0, width - displayWidth(text))) + text
    : padText(text, width);
}

function cellsOf(node: StepNode, input: LiveInput): Cells {
  const { visit, status, label, item, depth, path } = node;
  const elapsed = visit && elapsedOf(visit, "owned", input.now);
  const { turns, costUsd } = visit === undefined ? NOTHING : visitSpending(input, visit);
  const isOver = visit?.state.status === "completed" || visit?.state.status === "failed";
  return {
    isChosen: input.choice.step === path,
    status,
    name: "  ".repeat(depth) + plainText(item ?? label),
    state: STEP_STYLES[status].word,
    elapsed: elapsed === undefined ? "" : isOver ? formatDuration(elapsed) : clockText(elapsed),
    cost: costUsd === undefined ? "" : usdText(costUsd),
    turns: turns === 0 ? "" : countText(turns, "turn"),
    attempt: attemptCell(node),
    said: said(node, input),
  };
}

const NOTHING = { turns: 0, costUsd: undefined } as const;

function attemptCell({ visit, status }: StepNode): string {
  if (visit === undefined || visit.instances !== undefined) return "";
  // An interrupted step has no current attempt.
  if (!MOVING.has(status) || status === "interrupted") return "";
  const { number, last } = attemptOrdinal(visit);
  const total = last === undefined ? "" : `/${last}`;
  return number > 1 ? `attempt ${number}${total}` : "";
}

/** The last column: the agent's tool, the last line of output, or the reason of a failure. */
function said(node: StepNode, input: LiveInput): string {
  const { visit } = node;
  if (visit === undefined) return "";
  const { state } = visit;
  switch (state.status) {
    case "running":
      return progressText(visit, node, input);
    case "waiting":
      return state.for === "close" ? progressText(visit, node, input) : waitText(state, input.now);
    case "failed":
      return failureText(state);
    default:
      return "";
  }
}

function progressText(visit: Visit, { step }: StepNode, input: LiveInput): string {
  const { instances } = visit;
  if (instances?.items !== undefined) return `${instances.ended} of ${instances.total} items`;
  if (step.work.kind === "branches" && instances !== undefined) {
    return `${instances.ended} of ${instances.total} branches`;
  }
  if (step.work.kind === "loop") {
    return `iteration ${instances?.opened ?? 1} of ${step.work.iterationsMax}`;
  }
  const output = outputOf(input, visit);
  const last = output?.lines.findLast(({ text }) => text.trim() !== "")?.text.trim();
  return plainText(output?.tool ?? last ?? "");
}

function waitText(wait: Wait, now: number): string {
  switch (wait.for) {
    case "retry": {
      const due = wait.until <= now ? "now" : `in ${clockText(wait.until - now)}`;
      return `${due}: ${messageText(wait.message)}`;
    }
    case "person":
      return `${questionText(wait)} ${choicesText(wait)}`;
    case "time":
      return wakeText(wait.wake.at, now);
    case "owner":
    case "probe":
      return messageText(wait.message);
    default:
      return "";
  }
}

/** An output of so many lines is shown whole. */
const WHOLE_LINES_MAX = 20;
/** Of a longer one, the end. */
const END_LINES = 10;
/** Of an attempt that failed. */
const FAILED_END_LINES = 20;

interface FinishedOutput {
  readonly lines: readonly LiveLine[];
  /** There was more than these lines. */
  readonly isCut: boolean;
  readonly hasFailed: boolean;
  /** The command that shows all of it. */
  readonly logs: string;
}

/** What an agent used in the attempt: " ($0.31, 6 turns)"; empty for other steps. */
export function spentNote(spent: Spent | undefined): string {
  if (spent === undefined || spent.turns === 0) return "";
  const cost = spent.costUsd === undefined ? [] : [usdText(spent.costUsd)];
  return ` (${[...cost, countText(spent.turns, "turn")].join(", ")})`;
}

/** The output below the line that says how the attempt ended. */
export function finishedLines(
  output: FinishedOutput,
  { style, width }: { readonly style: Style; readonly width: number },
): readonly string[] {
  const lines = trimmed(output.lines);
  if (lines.length === 0) return [];
  const isWhole = !output.isCut && lines.length <= WHOLE_LINES_MAX;
  const end = isWhole ? lines.length : output.hasFailed ? FAILED_END_LINES : END_LINES;
  const shown = lines.slice(-end).map(({ text, tone }) => {
    const said = tone === undefined ? text : style(tone, text);
    return `  ${style("dim", "│")} ${said}`.trimEnd();
  });
  const left = output.isCut ? "earlier lines" : `${lines.length - end} earlier lines`;
  if (isWhole) return shown;
  const more = wrapAdvice(`  │ … ${left}: ${output.logs}`, width);
  return [...more.map((row) => style("dim", row)), ...shown];
}

/** Without empty lines at the beginning and the end. */
function trimmed(lines: readonly LiveLine[]): readonly LiveLine[] {
  const isText = ({ text }: LiveLine): boolean => text.trim() !== "";
  const first = lines.findIndex(isText);
  return first < 0 ? [] : lines.slice(first, lines.findLastIndex(isText) + 1);
}
