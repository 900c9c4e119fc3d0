/**
 * The live view of a run: one line per step while they fit. If they do not fit, completed steps are
 * only counted, then pending ones; active steps stay, with the last completed and the next pending
 * ones if there is room.
 *
 * Owns: which lines a screen of a given size shows.
 * Does not: draw (room `tui`), measure time or read files; everything is an argument.
 * Invariants:
 * - view/S1 Never more than rows - 1 lines, and no line wider than columns - 1.
 * - view/S2 Active and failed steps are shown before pending and completed ones; the rest is
 *   counted.
 */
import type { Run, Visit } from "../core/run.ts";
import { formatDuration } from "../util/duration.ts";
import { type StepLineInput, stepLines } from "./step-line.ts";
import { runElapsed, type StepStatus } from "./step-status.ts";
import { nodeOf, type StepNode, stepTree } from "./step-tree.ts";
import { cutText, plainStyle, plainText } from "./text.ts";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

interface ProgressInput extends StepLineInput {
  readonly run: Run;
  readonly shortId: string;
  readonly size: ScreenSize;
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

/** Beyond this many steps a frame looks only at those that move: its cost must not grow. */
const WALK_MAX = 5_000;

/** The lines of the live view. */
export function progressLines(input: ProgressInput): readonly string[] {
  const { columns, rows } = input.size;
  if (rows < 2) return [];
  const frame = { ...input, width: Math.max(1, columns - 1), room: rows - 2 };
  const header = headerLine(frame);
  if (input.run.stepsTotal > WALK_MAX) return [header, ...ofMany(frame)];
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

/** As `collapsed`, but from the run's own sets and counters; what was skipped counts as done. */
function ofMany(frame: Frame): readonly string[] {
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

/** How many lines are left for steps that move. */
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
      // Composites say little that the steps in them do not.
      const leaf = node.visit?.instances === undefined;
      if (kept.size < count && node.status === status && leaf) kept.add(node);
    }
  }
  return active.filter((node) => kept.has(node));
}
