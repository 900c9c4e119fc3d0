/**
 * Everything that a frame of the live view shows, as values: the run, the output that was read so far,
 * the person's choice, the size of the terminal and the time.
 *
 * Owns: these types, and what running agents have spent together with what the run has recorded.
 * Does not: read anything.
 */
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { formatDuration } from "../../util/duration.ts";
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
