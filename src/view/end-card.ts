/**
 * The last lines of a run, or of this process's part of it: what happened, the end of the output of a
 * failed step, and the commands that work, each on a line of its own; below them the result of a worktree
 * run, as text and as JSON: its branch, how to look at it and how to take it.
 *
 * Owns: the layout of the card. Its sentences are those of `why`.
 * Invariants:
 * - end-card/C1 Sentences are broken between words, and a command that continues on the next line does so
 *   after a backslash, so that a copy of it works.
 */
import { spentText } from "./cost-text.ts";
import type { PartOf, result as resultPart } from "./json/document-parts.ts";
import { RUN_STYLES, runStatusOf } from "./step-status.ts";
import { completedCounts } from "./step-tree.ts";
import {
  commandRows,
  commandText,
  countText,
  displayWidth,
  plainStyle,
  type Style,
  wrapText,
} from "./text.ts";
import { type WhyInput, why, whyAdvice, whyLines } from "./why.ts";

/** The end of the output of the step that failed. */
export interface FailedOutput {
  readonly lines: readonly string[];
  /** The command that shows all of it. */
  readonly logs: string;
}

interface CardInput extends WhyInput {
  readonly output?: FailedOutput | undefined;
  /** The width of the terminal; without one, no line is broken. */
  readonly width?: number | undefined;
  readonly style?: Style;
}

const INDENT = "  ";

/** The lines of the card. */
export function endCard(input: CardInput): readonly string[] {
  const { run, width = Number.POSITIVE_INFINITY, style = plainStyle, output } = input;
  const { happened, done, output: checks } = why(input);
  const advice = whyAdvice(input);
  const { glyph, tone } = RUN_STYLES[runStatusOf(run, input.liveness)];
  const [head = "", ...more] = wrapText(`${glyph} ${happened}`, width);
  const isCompleted = run.state.status === "completed";
  const layout = { width, style };
  // After a success, the first command is enough; the one that shows the output is above.
  const commands = isCompleted
    ? advice.slice(0, 1)
    : advice.filter(({ command }) => command !== output?.logs);
  return [
    style(tone, head),
    ...more,
    ...(checks ?? output?.lines ?? []).map((line) =>
      `${INDENT}${style("dim", "│")} ${line}`.trimEnd(),
    ),
    ...(output === undefined ? [] : commandLines("╰ all of it", output.logs, layout)),
    ...wrapText(`${INDENT}${isCompleted ? countsText(input) : done}`, width),
    ...commands.flatMap(({ say, command }) => commandLines(capitalised(say), command, layout)),
  ];
}

/** How a run stands: the card on a terminal, elsewhere three lines and the output. */
export function standingLines(input: CardInput): readonly string[] {
  if (input.width !== undefined) return endCard(input);
  const output = why(input).output ?? input.output?.lines.map((line) => `${INDENT}│ ${line}`);
  return [...whyLines(input, input.style), ...(output ?? [])];
}

/** "5 steps; 12 turns, $0.05". */
function countsText({ run }: CardInput): string {
  const spent = spentText(run.spent);
  const counts = completedCounts(run);
  return spent === undefined ? counts : `${counts}; ${spent}`;
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

interface CardLayout {
  readonly width: number;
  readonly style: Style;
}

/** "  Continue: perdure resume a1b2c3d4"; a command that does not fit gets lines of its own. */
function commandLines(
  say: string,
  command: string,
  { width, style }: CardLayout,
): readonly string[] {
  const line = `${INDENT}${say}: ${command}`;
  if (displayWidth(line) <= width) return [`${INDENT}${say}: ${style("strong", command)}`];
  return [
    ...wrapText(`${INDENT}${say}:`, width),
    ...commandRows(command, width).map((row) => style("strong", row)),
  ];
}

/** What is on the branch of a worktree run. */
export interface ResultSummary {
  readonly tip: string;
  readonly branch: string | undefined;
  readonly commits: number;
  readonly files: number;
  readonly added: number;
  readonly removed: number;
  readonly uncommitted: readonly string[];
  readonly target: string | undefined;
  readonly newOnTarget: number;
  readonly isMerged: boolean;
  readonly place: { readonly worktree: string; readonly base: string };
}

const SHORT_LENGTH = 8;

/** The lines about the result of a run; none when it changed nothing. */
export function resultLines(result: ResultSummary, shortId: string): readonly string[] {
  const { branch, tip, commits, uncommitted, target, newOnTarget, place, isMerged } = result;
  if (commits === 0 && uncommitted.length === 0) return [];
  const look = lookCommand(result);
  const moved =
    newOnTarget > 0 && !isMerged && target !== undefined
      ? [`note    ${target} has ${countText(newOnTarget, "new commit")} since the run started`]
      : [];
  const others = commits === 0 ? "" : "   (or: apply, pr)";
  const take = isMerged
    ? `taken   ${target ?? "the checkout"} has all of its commits`
    : `take    ${takeCommand(result, shortId)}${others}`;
  return [
    `branch  ${branch ?? tip.slice(0, SHORT_LENGTH)}: ${contentText(result)}`,
    `files   ${place.worktree}`,
    ...(look === undefined ? [] : [`look    ${look}`]),
    ...moved,
    take,
  ].map((line) => `  ${line}`);
}

/** The lines about the result of a run that a fleet has: only taking it brings it here. */
export function fleetResultLines(branch: string, shortId: string): readonly string[] {
  const take = `${commandText("merge", shortId)}   (or: apply, pr; in a clone of its repository)`;
  return [`  branch  ${branch}, in the fleet`, `  take    ${take}`];
}

/** The same for programs. */
export function resultJson(
  result: ResultSummary | undefined,
  shortId: string,
): PartOf<typeof resultPart> {
  if (result === undefined) return null;
  const { place, target, isMerged, commits, uncommitted } = result;
  const isEmpty = commits === 0 && uncommitted.length === 0;
  return {
    branch: result.branch ?? null,
    directory: place.worktree,
    base: target ?? place.base,
    base_moved: result.newOnTarget,
    commits,
    files_changed: result.files,
    lines_added: result.added,
    lines_removed: result.removed,
    uncommitted,
    merged: isMerged,
    look: lookCommand(result) ?? null,
    take: isMerged || isEmpty ? null : takeCommand(result, shortId),
  };
}

/** Shows the commits of the run. A branch that has them is no base to compare with. */
function lookCommand(result: ResultSummary): string | undefined {
  const { branch, tip, commits, target, place, isMerged } = result;
  if (commits === 0) return undefined;
  const name = branch ?? tip.slice(0, SHORT_LENGTH);
  const base = place.base.slice(0, SHORT_LENGTH);
  return `git diff ${isMerged ? base : (target ?? base)}...${name}`;
}

function takeCommand({ commits }: ResultSummary, shortId: string): string {
  return commandText(commits === 0 ? "apply" : "merge", shortId);
}

function contentText({ commits, files, added, removed, uncommitted }: ResultSummary): string {
  const loose =
    uncommitted.length === 0
      ? "nothing uncommitted"
      : `${countText(uncommitted.length, "uncommitted file")}`;
  const changed = `${countText(commits, "commit")}, ${countText(files, "file")}`;
  return `${changed}, +${added} -${removed}, ${loose}`;
}
