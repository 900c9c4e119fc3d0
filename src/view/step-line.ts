/**
 * One line of the live view per step: glyph, name, state, time, attempt, and its last line.
 *
 * Owns: the columns.
 * Does not: choose which steps are shown (progress.ts).
 */

import type { Wait } from "../core/graph/visit-state.ts";
import { attemptOf, type Visit } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { failureText, messageText } from "./failure-text.ts";
import { choicesText, questionText, wakeText } from "./question-text.ts";
import { attemptOrdinal, elapsedOf, STEP_STYLES, type StepStatus } from "./step-status.ts";
import type { StepNode } from "./step-tree.ts";
import { cutText, displayWidth, padText, plainStyle, plainText, type Style } from "./text.ts";

export interface StepLineInput {
  readonly now: number;
  /** The last line of output of each running attempt, by its text (`fix@2.3`). */
  readonly lastLines: ReadonlyMap<string, string>;
  readonly style?: Style;
}

/** More of a line than any screen shows is not looked at. */
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
export function stepLines(
  nodes: readonly StepNode[],
  input: StepLineInput,
  width: number,
): readonly string[] {
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
    const said = cell.said === "" ? "" : `  ${cell.said}`;
    const line = cutText((front + said).trimEnd(), width);
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
  readonly said: string;
}

function nodeCells(node: StepNode, input: StepLineInput): Cells {
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
    said: said(node, input),
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
function said(node: StepNode, input: StepLineInput): string {
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

function progressText(visit: Visit, { step }: StepNode, { lastLines }: StepLineInput): string {
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
