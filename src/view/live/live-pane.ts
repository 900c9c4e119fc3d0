/**
 * The pane of the live view: the newest output, that of the chosen step, or the list of keys.
 *
 * Owns: its title, and how long lines are broken.
 * Does not: choose the attempt that it shows (live-choice.ts).
 */
import { cutText, displayWidth, type Style, wrapText } from "../text.ts";
import type { LiveInput, LiveLine } from "./live-input.ts";

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
  ["enter", "give its output all the room, or less again"],
  ["pgup pgdn", "scroll its output"],
  ["esc", "back to the newest output"],
  ["a", "answer the question of a gate"],
  ["tab", "leave the question, or return to it"],
  ["s", "stop after the running steps"],
];
const CLOSE: KeyMeaning = ["?", "close this list"];
const KEYS_WIDTH = 11;

/** The rows of the pane, without its title; at most `room` of them. */
export function paneRows(input: LiveInput, width: number, room: number): readonly string[] {
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
export function paneRowsWanted(input: LiveInput, width: number, most: number): number {
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
export function paneTitle(input: LiveInput, width: number): string {
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
