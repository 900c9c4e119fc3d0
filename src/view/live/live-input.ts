/**
 * Everything that a frame of the live view shows, as values: the run, the output that was read so far,
 * the person's choice, the size of the terminal and the time.
 *
 * Owns: these types, what running agents have spent together with what the run has recorded, the meaning
 * of the keys that only change the view, and which output is the newest one.
 * Does not: read anything, or act on the run; the keys that do so belong to the screen.
 */

import { attemptOf, hasProcess, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { formatDuration } from "../../util/duration.ts";
import { stepTree } from "../step-tree.ts";
import type { Style, Tone } from "../text.ts";

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

/** A line of output, as plain text. */
export interface LiveLine {
  readonly text: string;
  readonly tone?: Tone;
}

/** What an agent has used in its running attempt, which the run does not know yet. */
export interface LiveSpending {
  readonly turns: number;
  readonly costUsd?: number;
  /** The conversation, and the cost of all of it, where the agent reports only that. */
  readonly session?: string;
  readonly conversationUsd?: number;
}

/** The output of one attempt. */
export interface LiveOutput {
  /** The last lines, the newest last. */
  readonly lines: readonly LiveLine[];
  /** When the last line came. */
  readonly changedAt: number;
  readonly spending?: LiveSpending | undefined;
  /** The tool that its agent uses now. */
  readonly tool?: string | undefined;
}

/** What the person at the terminal has chosen to see. */
export interface LiveChoice {
  /** The path of the chosen step; without one, the newest output is shown. */
  readonly step?: string | undefined;
  readonly isExpanded: boolean;
  readonly showsHelp: boolean;
  /** How many lines the pane is scrolled back. */
  readonly scrolledBy: number;
}

export interface LiveInput {
  readonly run: Run;
  readonly shortId: string;
  readonly now: number;
  readonly size: ScreenSize;
  /** The output of running attempts, and of the chosen one, by attempt (`fix@2.3`). */
  readonly outputs: ReadonlyMap<string, LiveOutput>;
  readonly choice: LiveChoice;
  /** The attempt whose output the pane shows. */
  readonly shown?: string | undefined;
  /** The question of a gate, below everything else. */
  readonly footer: readonly string[];
  /** Whether the person drives the run or only watches it. */
  readonly role: "owner" | "watcher";
  /** The keys that work now; none when nobody can type. */
  readonly keys: readonly string[];
  /** How long the rest of the run will take, judged by earlier runs. */
  readonly remainingMs?: number | undefined;
  readonly style: Style;
}

/** The output of the attempt that a visit is at. */
export function outputOf({ outputs }: LiveInput, visit: Visit): LiveOutput | undefined {
  return outputs.get(attemptText(attemptOf(visit)));
}

/** Turns and cost of a visit: what is recorded, and what its agent uses now. */
export function visitSpending(
  input: LiveInput,
  visit: Visit,
): { readonly turns: number; readonly costUsd: number | undefined } {
  const live =
    visit.state.status === "running" ? runningSpending(input, visit) : { turns: 0, costUsd: 0 };
  const { turns = 0, costUsd } = visit.spent ?? {};
  const known = costUsd !== undefined || live.costUsd > 0;
  return { turns: turns + live.turns, costUsd: known ? (costUsd ?? 0) + live.costUsd : undefined };
}

/** The cost of the whole run so far; undefined while nothing has a cost. */
export function runCost(input: LiveInput): number | undefined {
  const { run } = input;
  let live = 0;
  for (const visit of run.running) live += runningSpending(input, visit).costUsd;
  if (run.spent.costUsd === undefined && live === 0) return undefined;
  return (run.spent.costUsd ?? 0) + live;
}

function runningSpending(
  input: LiveInput,
  visit: Visit,
): { readonly turns: number; readonly costUsd: number } {
  const spending = outputOf(input, visit)?.spending;
  if (spending === undefined) return { turns: 0, costUsd: 0 };
  const { turns, costUsd, session, conversationUsd } = spending;
  if (costUsd !== undefined || conversationUsd === undefined)
    return { turns, costUsd: costUsd ?? 0 };
  const before = input.run.conversations.get(session ?? "")?.costUsd ?? 0;
  return { turns, costUsd: Math.max(0, conversationUsd - before) };
}

const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;

/** The time of something that still runs, in whole seconds: its text changes once a second. */
export function clockText(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))}s`;
  return formatDuration(ms);
}

/** Nothing is chosen. */
export const NOTHING_CHOSEN: LiveChoice = { isExpanded: false, showsHelp: false, scrolledBy: 0 };

/** The keys that change the view. */
export type LiveKey = "up" | "down" | "enter" | "escape" | "page-up" | "page-down" | "?";

const PAGE_LINES = 10;
/** The pane stays with a step that has printed something in this time. */
const STAY_MS = 3_000;

/** The choice after a key. `steps` are the paths that can be chosen, in their order. */
export function choiceAfter(
  choice: LiveChoice,
  key: LiveKey,
  steps: readonly string[],
): LiveChoice {
  switch (key) {
    case "up":
    case "down":
      return { ...choice, showsHelp: false, scrolledBy: 0, step: neighbour(choice, key, steps) };
    case "enter":
      return { ...choice, showsHelp: false, isExpanded: !choice.isExpanded };
    case "escape":
      return choice.showsHelp ? { ...choice, showsHelp: false } : NOTHING_CHOSEN;
    case "page-up":
      return { ...choice, showsHelp: false, scrolledBy: choice.scrolledBy + PAGE_LINES };
    case "page-down":
      return { ...choice, scrolledBy: Math.max(0, choice.scrolledBy - PAGE_LINES) };
    case "?":
      return { ...choice, showsHelp: !choice.showsHelp };
  }
}

/** From nothing, "up" leads to the last step and "down" to the first one. */
function neighbour(
  { step }: LiveChoice,
  key: "up" | "down",
  steps: readonly string[],
): string | undefined {
  const at = step === undefined ? -1 : steps.indexOf(step);
  if (at < 0) return key === "up" ? steps.at(-1) : steps[0];
  const next = key === "up" ? Math.max(0, at - 1) : Math.min(steps.length - 1, at + 1);
  return steps[next];
}

/** The steps that have, or had, a process: their paths, in the order of the view. */
export function choosableSteps(run: Run): readonly string[] {
  const paths: string[] = [];
  for (const { path, step, visit } of stepTree(run)) {
    if (visit !== undefined && visit.attempts > 0 && hasProcess(step)) paths.push(path);
  }
  return paths;
}

/** The attempt whose output is shown when nothing is chosen; it changes only after a pause. */
export function newestOutput(
  before: string | undefined,
  running: ReadonlyMap<string, LiveOutput>,
  now: number,
): string | undefined {
  const current = before === undefined ? undefined : running.get(before);
  if (current !== undefined && current.lines.length > 0 && now - current.changedAt < STAY_MS) {
    return before;
  }
  let newest: readonly [string, LiveOutput] | undefined;
  for (const [at, output] of running) {
    if (output.lines.length === 0) continue;
    if (newest === undefined || output.changedAt > newest[1].changedAt) newest = [at, output];
  }
  return newest?.[0];
}
