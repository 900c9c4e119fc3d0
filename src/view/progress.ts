/**
 * The live view of a run: one line per step while they fit. When they do not, first those that are
 * done are only counted, then those that have not started; what moves stays.
 *
 * Owns: which lines a screen of a given size shows.
 * Does not: draw (room `tui`), keep time or read files; all comes in as arguments.
 * Invariants:
 * - S1 Never more than rows - 1 lines, and no line wider than columns - 1.
 * - S2 A step that runs, waits, failed or was interrupted is shown before any that did not start or
 *   is done; what finds no room is counted.
 */
import type { Run, Visit } from "../core/run.ts";
import { formatDuration } from "../util/duration.ts";
import { cutText, plainText } from "./display-text.ts";
import { type StepLineInput, stepLines } from "./step-line.ts";
import { runElapsed, type StepStatus } from "./step-status.ts";
import { nodeOf, type StepNode, stepTree } from "./step-tree.ts";
import { plainStyle } from "./style.ts";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

export interface ProgressInput extends StepLineInput {
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
  done: "done",
  assumed: "done",
  handled: "done",
  skipped: "skipped",
  unreached: "skipped",
  pending: "pending",
  ready: "pending",
};

/** What is dropped last when even the steps that move do not fit. */
const PRIORITY = ["failed", "running", "waiting", "interrupted"] as const;

/** Beyond this many steps a frame looks only at those that move: its cost must not grow (A1). */
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
  const counts: Record<Group, number> = { active: 0, done: 0, skipped: 0, pending: 0 };
  for (const { status } of nodes) counts[GROUPS[status]]++;
  const isOpen = ({ status }: StepNode): boolean =>
    GROUPS[status] === "active" || GROUPS[status] === "pending";
  if (counts.active + counts.pending < frame.room) {
    return framed({ ...counts, pending: 0 }, nodes.filter(isOpen), frame);
  }
  const active = nodes.filter(({ status }) => GROUPS[status] === "active");
  const room = roomFor(counts, frame);
  return framed(counts, active.length <= room ? active : mostUrgent(active, room - 1), frame);
}

/** As `collapsed`, but from the run's own sets and counters; what was skipped counts as done. */
function ofMany(frame: Frame): readonly string[] {
  const { run } = frame;
  const sets = [...PRIORITY.map((status) => run[status]), run.composites];
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
  const done = doneLine(counts);
  const moving = shown.filter(({ status }) => GROUPS[status] === "active").length;
  const left = counts.active - moving;
  const lines = [
    ...(done === undefined ? [] : [style("good", cutText(done, width))]),
    ...stepLines(shown, frame, width),
    ...(left === 0 ? [] : [style("busy", cutText(`… ${left} more on the move`, width))]),
    ...(counts.pending === 0 ? [] : [style("dim", cutText(`· ${counts.pending} pending`, width))]),
  ];
  return lines.slice(0, Math.max(0, room));
}

function doneLine({ done, skipped }: Record<Group, number>): string | undefined {
  if (done === 0 && skipped === 0) return undefined;
  if (done === 0) return `– ${skipped} skipped`;
  return skipped === 0 ? `✓ ${done} done` : `✓ ${done} done, ${skipped} skipped`;
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
