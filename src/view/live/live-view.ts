/**
 * A frame of the live view: header, steps, pane, question, keys, from top to bottom. The pane shows
 * the newest output, that of the chosen step, or the list of keys.
 *
 * Owns: how many rows each part gets, which parts of the header a narrow terminal leaves out, and how
 * long lines of the pane are broken.
 * Does not: draw, measure time or read files; everything is an argument.
 * Invariants:
 * - view/S1 Never more than rows - 1 lines, and no line wider than columns - 1.
 * - view/S2 Active and failed steps are shown before pending and completed ones; the rest is
 *   counted.
 */

import { type Run, stepOf } from "../../core/run.ts";
import { usdText } from "../../core/spending.ts";
import { runElapsed } from "../step-status.ts";
import { cutText, displayWidth, plainText, type Style, wrapText } from "../text.ts";
import { clockText, type LiveInput, type LiveLine, runCost } from "./live-input.ts";
import { stepRows } from "./live-steps.ts";

/** With fewer rows below the header, there is no line with keys. */
const ROWS_WITH_KEYS_MIN = 8;
/** With fewer rows, there is no pane, unless the person asks for it. */
const ROWS_WITH_PANE_MIN = 6;
/** What the steps keep when the pane is expanded. */
const STEPS_BESIDE_EXPANDED = 4;
const PANE_ROWS_MIN = 6;
/** The part of the screen that the pane may take by itself. */
const PANE_SHARE = 3;

/** The lines of the live view. */
export function liveLines(input: LiveInput): readonly string[] {
  const { columns, rows } = input.size;
  if (rows < 2) return [];
  const width = Math.max(1, columns - 1);
  const room = rows - 2;
  const footer = input.footer.slice(Math.max(0, input.footer.length - room));
  const below = room - footer.length;
  const keys = below >= ROWS_WITH_KEYS_MIN && input.keys.length > 0 ? [keysLine(input, width)] : [];
  return [
    headerLine(input, width),
    ...stepsAndPane(input, width, below - keys.length),
    ...footer.map((line) => cutText(line, width)),
    ...keys,
  ];
}

function stepsAndPane(input: LiveInput, width: number, room: number): readonly string[] {
  const { isExpanded, showsHelp } = input.choice;
  const isWanted = isExpanded || showsHelp || input.choice.step !== undefined;
  const isRoomy = room >= ROWS_WITH_PANE_MIN || (isWanted && room > 2);
  const most = isExpanded ? room : Math.max(PANE_ROWS_MIN, Math.floor(room / PANE_SHARE));
  const wanted = isRoomy ? paneRowsWanted(input, width, showsHelp ? room : most) : 0;
  if (wanted === 0) return stepRows(input, width, room);
  const beside = isExpanded ? STEPS_BESIDE_EXPANDED : Math.ceil(room / 2);
  const reserved = Math.min(wanted + 1, room - Math.min(beside, room - 2));
  const steps = stepRows(input, width, room - reserved);
  const height = Math.min(wanted, room - steps.length - 1);
  const rows = paneRows(input, width, height);
  const blank = Array.from({ length: Math.max(0, height - rows.length) }, () => "");
  return [...steps, paneTitle(input, width), ...rows, ...blank];
}

function keysLine({ keys, style }: LiveInput, width: number): string {
  return style("dim", cutText(` ${keys.join("  ")}`, width));
}

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
function headerLine(input: LiveInput, width: number): string {
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

/** A line that takes more rows is cut. */
const ROWS_PER_LINE_MAX = 3;
/** More of a line is not measured. */
const LINE_COUNTED_MAX = 600;
const INDENT = "  ";

type KeyMeaning = readonly [keys: string, meaning: string];

const LEAVING: Readonly<Record<LiveInput["role"], readonly KeyMeaning[]>> = {
  owner: [
    ["d", "detach: the run continues in the background"],
    ["ctrl-c", "stop now; a second one ends the steps at once"],
  ],
  watcher: [["d  ctrl-c", "leave; the run continues"]],
};

const HELP: readonly KeyMeaning[] = [
  ["↑ ↓  k j", "choose a step; its output is shown"],
  ["enter", "expand its output, or shrink it again"],
  ["pgup pgdn", "scroll its output"],
  ["esc", "back to the newest output"],
  ["a", "answer the question of a gate"],
  ["tab", "leave the question, or return to it"],
  ["s", "stop after the running steps"],
];
const CLOSE: KeyMeaning = ["?", "close this list"];
const KEYS_WIDTH = 11;

/** The rows of the pane, without its title; at most `room` of them. */
function paneRows(input: LiveInput, width: number, room: number): readonly string[] {
  const { style, choice } = input;
  if (room <= 0) return [];
  if (choice.showsHelp) return helpRows(input, width).slice(0, room);
  const lines = linesShown(input);
  const rows: string[] = [];
  const end = Math.max(Math.min(room, lines.length), lines.length - choice.scrolledBy);
  for (let at = end - 1; at >= 0 && rows.length < room; at--) {
    const line = lines[at];
    if (line !== undefined) rows.unshift(...rowsOf(line, style, width));
  }
  return rows.slice(-room);
}

/** How many rows the pane could use, for as long as the same steps run; at most `most`. */
function paneRowsWanted(input: LiveInput, width: number, most: number): number {
  if (input.choice.showsHelp) return helpOf(input).length;
  const shown = linesShown(input);
  if (shown.length === 0) return 0;
  // The pane keeps its height when it changes from one running step to another.
  const others =
    input.choice.step === undefined ? Array.from(input.outputs.values(), ({ lines }) => lines) : [];
  const heights = [shown, ...others].map((lines) => heightOf(lines.slice(-most), width));
  return Math.min(most, Math.max(...heights));
}

/** How many rows these lines take, about. */
function heightOf(lines: readonly LiveLine[], width: number): number {
  const room = Math.max(1, width - INDENT.length);
  return lines.reduce((rows, { text }) => {
    const wrapped = Math.max(1, Math.ceil(displayWidth(text.slice(0, LINE_COUNTED_MAX)) / room));
    return rows + Math.min(ROWS_PER_LINE_MAX, wrapped);
  }, 0);
}

/** "─ review[2] ──────". */
function paneTitle(input: LiveInput, width: number): string {
  const { choice, shown = "", style } = input;
  const back = choice.scrolledBy === 0 ? "" : `, ${choice.scrolledBy} lines back`;
  const what = choice.showsHelp ? "keys" : `${shown}${back}`;
  const title = cutText(`─ ${what} `, width);
  return style("dim", title + "─".repeat(Math.max(0, width - displayWidth(title))));
}

function linesShown({ outputs, shown }: LiveInput): readonly LiveLine[] {
  return outputs.get(shown ?? "")?.lines ?? [];
}

function rowsOf({ text, tone }: LiveLine, style: Style, width: number): readonly string[] {
  const room = Math.max(1, width - INDENT.length);
  const rows = wrapText(text.slice(0, ROWS_PER_LINE_MAX * width), room).slice(0, ROWS_PER_LINE_MAX);
  return rows.map((row) => {
    const cut = INDENT + cutText(row, room);
    return tone === undefined ? cut : style(tone, cut);
  });
}

function helpOf({ role }: LiveInput): readonly KeyMeaning[] {
  return [...HELP, ...LEAVING[role], CLOSE];
}

function helpRows(input: LiveInput, width: number): readonly string[] {
  const { style } = input;
  return helpOf(input).map(([keys, meaning]) => {
    const line = cutText(`${INDENT}${keys.padEnd(KEYS_WIDTH)}${meaning}`, width);
    const split = INDENT.length + KEYS_WIDTH;
    return style("strong", line.slice(0, split)) + line.slice(split);
  });
}
