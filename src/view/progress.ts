/**
 * The live view of a run: one line per step (glyph, name, state, time, attempt, last line of
 * output) while they fit. If they do not fit, completed steps are only counted, then pending ones;
 * active steps stay, with the last completed and the next pending ones if there is room.
 *
 * Owns: which lines a screen of a given size shows, and their columns.
 * Does not: draw (cli/screen), measure time or read files; everything is an argument.
 * Invariants:
 * - view/S1 Never more than rows - 1 lines, and no line wider than columns - 1.
 * - view/S2 Active and failed steps are shown before pending and completed ones; the rest is
 *   counted.
 */
import type { Wait } from "../core/graph/visit-state.ts";
import { attemptOf, type Run, type Visit } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { failureText, messageText } from "./failure-text.ts";
import { choicesText, questionText, wakeText } from "./question-text.ts";
import {
  attemptOrdinal,
  elapsedOf,
  runElapsed,
  STEP_STYLES,
  type StepStatus,
} from "./step-status.ts";
import { nodeOf, type StepNode, stepTree } from "./step-tree.ts";
import { cutText, displayWidth, padText, plainStyle, plainText, type Style } from "./text.ts";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

interface ProgressInput {
  readonly run: Run;
  readonly shortId: string;
  readonly size: ScreenSize;
  readonly now: number;
  /** The last line of output of each running attempt, by its text (`fix@2.3`). */
  readonly lastLines: ReadonlyMap<string, string>;
  readonly style?: Style;
}

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

/** The same order for the sets of the run. */
function setsByPriority({ failed, running, waiting, composites }: Run): readonly Visits[] {
  const { person, probe, retry, time, owner, close } = waiting;
  return [failed, person, running, probe, retry, time, owner, composites, close];
}

type Visits = ReadonlySet<Visit>;

/** How many completed and pending steps are shown if there is room. */
const RECENT_MAX = 3;
const NEXT_MAX = 5;

/** Beyond this many steps, a frame reads only the active ones, so that its cost does not grow. */
const TREE_STEPS_MAX = 5_000;

/** The lines of the live view. */
export function progressLines(input: ProgressInput): readonly string[] {
  const { columns, rows } = input.size;
  if (rows < 2) return [];
  const frame = { ...input, width: Math.max(1, columns - 1), room: rows - 2 };
  const header = headerLine(frame);
  if (input.run.stepsTotal > TREE_STEPS_MAX) return [header, ...countedLines(frame)];
  const nodes = [...stepTree(input.run)];
  if (nodes.length <= frame.room) return [header, ...stepLines(nodes, frame, frame.width)];
  return [header, ...collapsed(nodes, frame)];
}

interface Frame extends ProgressInput {
  readonly width: number;
  /** Lines below the header. */
  readonly room: number;
}

function headerLine({ run, shortId, now, width, style = plainStyle }: Frame): string {
  const name = plainText(run.created?.pipeline ?? "");
  const state = run.state.status === "stopping" ? "  stopping" : "";
  const elapsed = formatDuration(runElapsed(run, "owned", now));
  const rest = `  ${shortId}  ${elapsed}  ${run.stepsDone}/${run.stepsTotal}${state}`;
  return style("strong", cutText(cutText(name, Math.max(8, width - rest.length)) + rest, width));
}

function collapsed(nodes: readonly StepNode[], frame: Frame): readonly string[] {
  const groups: Record<Group, StepNode[]> = { active: [], done: [], skipped: [], pending: [] };
  for (const node of nodes) groups[GROUPS[node.status]].push(node);
  const { active, done, skipped, pending } = groups;
  const counts = {
    active: active.length,
    done: done.length,
    skipped: skipped.length,
    pending: pending.length,
  };
  const room = roomFor(counts, frame);
  if (active.length > room) return framed(counts, mostUrgent(active, room - 1), frame);
  const fits = active.length + pending.length < frame.room;
  const next = pending.slice(0, fits ? pending.length : Math.min(NEXT_MAX, room - active.length));
  const left = counts.pending - next.length;
  const spare = frame.room - active.length - next.length - (left === 0 ? 1 : 2);
  const recent = done.slice(Math.max(0, done.length - Math.max(0, Math.min(RECENT_MAX, spare))));
  const shown = new Set([...active, ...next, ...recent]);
  return framed(
    { ...counts, done: done.length - recent.length, pending: left },
    nodes.filter((node) => shown.has(node)),
    frame,
  );
}

/** Like `collapsed`, but from the sets and counters of the run; skipped steps count as done. */
function countedLines(frame: Frame): readonly string[] {
  const { run } = frame;
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

/** How many lines are left for active steps. */
function roomFor({ done, skipped, pending }: Record<Group, number>, { room }: Frame): number {
  return room - (done + skipped > 0 ? 1 : 0) - (pending > 0 ? 1 : 0);
}

function framed(
  counts: Record<Group, number>,
  shown: readonly StepNode[],
  frame: Frame,
): readonly string[] {
  const { width, room, style = plainStyle } = frame;
  const shownOf = (group: Group): number =>
    shown.filter(({ status }) => GROUPS[status] === group).length;
  const done = doneLine(counts, shownOf("done") > 0 ? " more" : "");
  const left = counts.active - shownOf("active");
  const pending = `· ${counts.pending}${shownOf("pending") > 0 ? " more" : ""} pending`;
  const lines = [
    ...(done === undefined ? [] : [style("good", cutText(done, width))]),
    ...stepLines(shown, frame, width),
    ...(left === 0 ? [] : [style("busy", cutText(`… ${left} more running`, width))]),
    ...(counts.pending === 0 ? [] : [style("dim", cutText(pending, width))]),
  ];
  return lines.slice(0, Math.max(0, room));
}

function doneLine({ done, skipped }: Record<Group, number>, more: string): string | undefined {
  if (done === 0 && skipped === 0) return undefined;
  if (done === 0) return `– ${skipped} skipped`;
  return skipped === 0
    ? `✓ ${done}${more} completed`
    : `✓ ${done}${more} completed, ${skipped} skipped`;
}

/** The first ones by priority, shown in the order of the plan. */
function mostUrgent(active: readonly StepNode[], count: number): readonly StepNode[] {
  const kept = new Set<StepNode>();
  for (const status of PRIORITY) {
    for (const node of active) {
      // The steps inside a composite step say more than it does.
      const leaf = node.visit?.instances === undefined;
      if (kept.size < count && node.status === status && leaf) kept.add(node);
    }
  }
  return active.filter((node) => kept.has(node));
}

/** The parts of the input that a line needs. */
type LineInput = Pick<ProgressInput, "now" | "lastLines" | "style">;

/** How much of the last line is read: more than any screen shows. */
const LAST_LINE_MAX = 1_000;
const ID_WIDTH_MIN = 12;
const MOVING: ReadonlySet<StepStatus> = new Set([
  "running",
  "failed",
  "waiting",
  "interrupted",
  "uncertain",
  "asked",
  "sleeping",
]);

/** One line for each step, in aligned columns, none wider than `width`. */
function stepLines(nodes: readonly StepNode[], input: LineInput, width: number): readonly string[] {
  const cells = nodes.map((node) => nodeCells(node, input));
  const idMax = Math.max(ID_WIDTH_MIN, Math.floor(width / 3));
  const widest = (pick: (cell: Cells) => string): number =>
    cells.reduce((most, cell) => Math.max(most, displayWidth(pick(cell))), 0);
  const idWidth = Math.min(
    idMax,
    widest(({ id }) => id),
  );
  const stateWidth = widest(({ state }) => state);
  const elapsedWidth = widest(({ elapsed }) => elapsed);
  const attemptWidth = widest(({ attempt }) => attempt);
  const { style = plainStyle } = input;
  return cells.map((cell) => {
    const { tone } = STEP_STYLES[cell.status];
    const attempt = attemptWidth === 0 ? "" : `  ${padText(cell.attempt, attemptWidth)}`;
    const id = padText(cutText(cell.id, idWidth), idWidth);
    const state = padText(cell.state, stateWidth);
    const front = `${cell.glyph} ${id}  ${state}  ${cell.elapsed.padStart(elapsedWidth)}${attempt}`;
    const note = cell.note === "" ? "" : `  ${cell.note}`;
    const line = cutText((front + note).trimEnd(), width);
    const back = line.startsWith(front) ? line.slice(front.length) : "";
    return style(tone, line.slice(0, line.length - back.length)) + (back && style("dim", back));
  });
}

interface Cells {
  readonly status: StepStatus;
  readonly glyph: string;
  readonly id: string;
  readonly state: string;
  readonly elapsed: string;
  readonly attempt: string;
  readonly note: string;
}

function nodeCells(node: StepNode, input: LineInput): Cells {
  const { visit, status, label, depth } = node;
  const { glyph, word } = STEP_STYLES[status];
  const elapsed = visit && elapsedOf(visit, "owned", input.now);
  return {
    status,
    glyph,
    id: "  ".repeat(depth) + plainText(label),
    state: word,
    elapsed: elapsed === undefined ? "" : formatDuration(elapsed),
    attempt: attemptCell(node),
    note: noteOf(node, input),
  };
}

function attemptCell({ visit, status }: StepNode): string {
  if (visit === undefined || visit.instances !== undefined) return "";
  // An interrupted step has no current attempt.
  if (!MOVING.has(status) || status === "interrupted") return "";
  const { number, last } = attemptOrdinal(visit);
  const total = last === undefined ? "" : `/${last}`;
  return number > 1 ? `attempt ${number}${total}` : "";
}

/** The last column: the last line of output, or the reason of a failure. */
function noteOf(node: StepNode, input: LineInput): string {
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

function progressText(visit: Visit, { step }: StepNode, { lastLines }: LineInput): string {
  const { instances } = visit;
  if (instances?.items !== undefined) return `${instances.ended}/${instances.total} items`;
  if (step.work.kind === "branches" && instances !== undefined) {
    return `${instances.ended}/${instances.total} branches`;
  }
  if (step.work.kind === "loop") {
    return `iteration ${instances?.opened ?? 1}/${step.work.iterationsMax}`;
  }
  const line = lastLines.get(attemptText(attemptOf(visit))) ?? "";
  return plainText(line.slice(-LAST_LINE_MAX)).trim();
}

function waitText(wait: Wait, now: number): string {
  switch (wait.for) {
    case "retry": {
      const due = wait.until <= now ? "now" : `in ${formatDuration(wait.until - now)}`;
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
