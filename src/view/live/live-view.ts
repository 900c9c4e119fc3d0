/**
 * A frame of the live view: header, steps, pane, question, keys, from top to bottom.
 *
 * Owns: how many rows each part gets.
 * Does not: draw, measure time or read files; everything is an argument.
 * Invariants:
 * - view/S1 Never more than rows - 1 lines, and no line wider than columns - 1.
 * - view/S2 Active and failed steps are shown before pending and completed ones; the rest is
 *   counted.
 */
import { cutText } from "../text.ts";
import { headerLine } from "./live-header.ts";
import type { LiveInput } from "./live-input.ts";
import { paneRows, paneRowsWanted, paneTitle } from "./live-pane.ts";
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
