/**
 * The last lines of a run, or of this process's part of it: what happened, the end of the output of a
 * failed step, and the commands that work, each on a line of its own.
 *
 * Owns: the layout of the card. Its sentences are those of `why`.
 * Invariants:
 * - end-card/C1 Sentences are broken between words, and a command that continues on the next line does so
 *   after a backslash, so that a copy of it works.
 */

import { spentText } from "./cost-text.ts";
import { RUN_STYLES, runStatusOf } from "./step-status.ts";
import { completedCounts } from "./step-tree.ts";
import { commandRows, displayWidth, plainStyle, type Style, wrapText } from "./text.ts";
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
