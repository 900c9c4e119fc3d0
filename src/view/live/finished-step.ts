/**
 * A finished attempt as ordinary lines: how it ended, and the end of its output. They leave the live
 * view at its top and stay in the scrollback.
 *
 * Owns: how many lines of an output stay, and what they say about its cost.
 */
import type { Spent } from "../../core/event.ts";
import { usdText } from "../../core/spending.ts";
import { countText, type Style, wrapAdvice } from "../text.ts";
import type { LiveLine } from "./live-input.ts";

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
