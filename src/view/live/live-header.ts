/**
 * The first line of the live view: name, progress bar, count, time, estimate, cost and running steps.
 *
 * Owns: which of them a narrow terminal leaves out.
 */
import { type Run, stepOf } from "../../core/run.ts";
import { usdText } from "../../core/spending.ts";
import { runElapsed } from "../step-status.ts";
import { cutText, displayWidth, plainText } from "../text.ts";
import { clockText, type LiveInput, runCost } from "./live-input.ts";

const BAR_WIDTH_MAX = 20;
const BAR_WIDTH_MIN = 6;
const NAME_WIDTH_MIN = 8;
const GAP = "  ";

interface Part {
  readonly text: string;
  /** Parts with larger numbers are left out first. */
  readonly rank: number;
}

/** The header in exactly one line. */
export function headerLine(input: LiveInput, width: number): string {
  const { run, shortId, now, style } = input;
  const stopping = stopText(input);
  const { stepsDone } = run;
  const stepsTotal = run.stepsTotal + stepsAhead(run);
  const parts: readonly Part[] = [
    { text: shortId, rank: 1 },
    { text: `${stepsDone}/${stepsTotal}`, rank: 2 },
    { text: clockText(runElapsed(run, "owned", now)), rank: 3 },
    { text: remainingText(input), rank: 6 },
    { text: costText(input), rank: 4 },
    { text: run.running.size === 0 ? "" : `${run.running.size} running`, rank: 7 },
    { text: stopping, rank: 2 },
  ].filter(({ text }) => text !== "");
  const name = plainText(run.created?.pipeline ?? "");
  const nameMin = Math.min(NAME_WIDTH_MIN, displayWidth(name));
  const shown = fitting(parts, width - nameMin - BAR_WIDTH_MIN - GAP.length - 1);
  const texts = shown.map(({ text }) => text);
  const fixed = texts.reduce((sum, text) => sum + GAP.length + displayWidth(text), 0);
  const room = width - 1 - fixed;
  // A long name gives way to the bar.
  const nameMax = Math.max(room - GAP.length - BAR_WIDTH_MIN, Math.min(nameMin, room), 1);
  const nameShown = cutText(name, nameMax);
  const free = room - displayWidth(nameShown) - GAP.length;
  const bar = barText(stepsDone, stepsTotal, Math.min(BAR_WIDTH_MAX, free));
  const [id = "", ...rest] = texts;
  const line = [nameShown, id, ...(bar === "" ? [] : [bar]), ...rest].join(GAP);
  return style(stopping === "" ? "strong" : "wait", cutText(` ${line}`, width));
}

/** The steps of items that a fan-out has found and not begun. */
function stepsAhead({ composites, waiting }: Run): number {
  let ahead = 0;
  for (const visit of [...composites, ...waiting.close]) {
    const { work } = stepOf(visit);
    const { total, opened } = visit.instances ?? { total: 0, opened: 0 };
    if (work.kind === "each") ahead += Math.max(0, total - opened) * work.graph.steps.length;
  }
  return ahead;
}

/** The parts that fit side by side, in their order. */
function fitting(parts: readonly Part[], width: number): readonly Part[] {
  const used = (some: readonly Part[]): number =>
    some.reduce((sum, { text }) => sum + GAP.length + displayWidth(text), 0);
  let shown = parts;
  while (shown.length > 1 && used(shown) > width) {
    const last = Math.max(...shown.map(({ rank }) => rank));
    shown = shown.filter(({ rank }) => rank !== last);
  }
  return shown;
}

/** "▕█████░░░▏" of at most this width; empty when there is no room for one. */
function barText(done: number, total: number, width: number): string {
  if (width < BAR_WIDTH_MIN || total === 0) return "";
  const cells = width - 2;
  const full = Math.min(cells, Math.floor((done / total) * cells));
  return `▕${"█".repeat(full)}${"░".repeat(cells - full)}▏`;
}

/** "~3m 20s left". */
function remainingText({ remainingMs, run }: LiveInput): string {
  if (remainingMs === undefined || run.state.status !== "running") return "";
  return `~${clockText(remainingMs)} left`;
}

/** "$0.53 of $5.00". */
function costText(input: LiveInput): string {
  const cost = runCost(input);
  const { usd } = input.run.funds;
  if (cost === undefined) return usd === undefined ? "" : `$0 of ${usdText(usd)}`;
  return usd === undefined ? usdText(cost) : `${usdText(cost)} of ${usdText(usd)}`;
}

function stopText({ run }: LiveInput): string {
  if (run.state.status !== "stopping") return "";
  return run.state.mode === "now" ? "stopping" : `stopping ${STOPS[run.state.mode]}`;
}

const STOPS = { "after-turn": "after the turns", "after-step": "after the steps" } as const;
