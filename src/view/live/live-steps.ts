/**
 * Which steps the live view shows: all of them while they fit. If they do not fit, completed steps are
 * only counted, then pending ones; active steps stay, with the last completed and the next pending
 * ones if there is room. The chosen step is always shown.
 *
 * Owns: this choice, and the lines that count the rest.
 * Does not: write the line of a step (step-row.ts).
 */
import type { Run, Visit } from "../../core/run.ts";
import type { StepStatus } from "../step-status.ts";
import { nodeOf, type StepNode, stepTree } from "../step-tree.ts";
import { cutText } from "../text.ts";
import type { LiveInput } from "./live-input.ts";
import { stepLines } from "./step-row.ts";

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
