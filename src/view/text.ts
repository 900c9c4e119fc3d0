/**
 * Building blocks of texts: plain text and its width on a terminal, lists, tables, times, and
 * commands that a person can copy into a shell.
 *
 * Owns: display widths, and removing everything by which a step's output could control a terminal.
 * Does not: choose colours; a view names a tone, and the screen decides how that looks.
 * Invariants:
 * - view/W1 `plainText` returns no control characters, so one line stays one line.
 * - view/W2 `cutText` returns at most the requested width.
 * - view/W5 `terminalText` keeps nothing that a terminal obeys but colours within a line.
 */

import type { Json } from "../util/json.ts";

const ESC = "\u001b";
const CSI = "\u009b";
const BELL = "\u0007";
/** Titles and links (ended by a bell or ESC \), then every other escape sequence. */
const ESCAPES = new RegExp(
  `${ESC}\\][^${BELL}${ESC}]*(?:${BELL}|${ESC}\\\\)?|[${ESC}${CSI}]\\[?[0-?]*[ -/]*[@-~]`,
  "g",
);
/** Bidirectional overrides can make a line read as something else; they go too. */
const CONTROLS = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu;
/** ASCII, Latin letters and the signs that our own lines use: one column each. */
const NARROW = /^[ -~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027…‖│▶●◆◌↻✓✗]*$/;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]/u;
const WIDE_ASTRAL = /[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const NO_WIDTH = /^[\p{M}\p{Cf}]+$/u;
/** Made when first needed: it takes 10 ms, and most texts are narrow. */
let segmenter: Intl.Segmenter | undefined;

/** One line without escapes and control characters, and without text that a `\r` overwrote. */
export function plainText(text: string): string {
  const shown = text
    .replace(ESCAPES, "")
    .split("\r")
    .findLast((part) => part.trim() !== "");
  return (shown ?? "")
    .replace(/[\t\n]/g, " ")
    .replace(CONTROLS, "")
    .trimEnd();
}

/** A text without the sequences that a terminal obeys. */
export function withoutEscapes(text: string): string {
  return text.replace(ESCAPES, "");
}

/** Lines as plain text; tabs and the ends of lines stay. */
export function plainLines(text: string): string {
  return text.split("\n").map(plainLine).join("\n");
}

function plainLine(line: string): string {
  const parts = withoutEscapes(line).split("\r");
  return withoutControls(parts.findLast((part) => part.trim() !== "") ?? "");
}

const COLOUR_SOURCE = `${ESC}\\[[0-9;:]*m`;
const COLOUR = new RegExp(`(${COLOUR_SOURCE})`);
const COLOURS = new RegExp(COLOUR_SOURCE, "g");
const RESET = `${ESC}[0m`;
const RESETS = new RegExp(`^${ESC}\\[0*m$`);

/** Lines for a terminal: keeps colours, removes everything else that a terminal obeys. */
export function terminalText(text: string): string {
  return text.split("\n").map(terminalLine).join("\n");
}

function terminalLine(line: string): string {
  const parts = line.split(COLOUR);
  const shown = parts.map((part, index) => (index % 2 === 1 ? part : withoutControls(part)));
  const last = parts.at(-2);
  return shown.join("") + (last === undefined || RESETS.test(last) ? "" : RESET);
}

function withoutControls(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, (found) => (found === "\t" ? found : ""));
}

interface PrintedText {
  /** The step; absent where the reader asked for only one. */
  readonly path?: string | undefined;
  readonly text: string;
  /** Who speaks beside the step: a check, or a judge. */
  readonly mark?: string | undefined;
  readonly tone?: Tone | undefined;
}

/** A line of output: `build │ text`; with a mark, where a check or a judge speaks: `build check │`. */
export function outputLine(printed: PrintedText, style: Style = plainStyle): string {
  const { path, text, mark, tone } = printed;
  const who = [path, mark].filter((part) => part !== undefined).join(" ");
  // The lines of a single step are what it printed, its colours included.
  const plain = path === undefined ? text : plainText(text);
  const said = tone === undefined ? plain : style(tone, plain);
  return who === "" ? said : `${style("dim", `${who} │`)} ${said}`.trimEnd();
}

/** The first line of a text that may have many, as plain text. */
export function firstLine(text: string): string {
  return plainText(text.trimStart().split("\n", 1)[0] ?? "");
}

/** How many columns of a terminal a text takes; colours take none. */
export function displayWidth(text: string): number {
  if (NARROW.test(text)) return text.length;
  if (text.includes(ESC)) return displayWidth(text.replaceAll(COLOURS, ""));
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += segmentWidth(segment);
  return width;
}

function graphemesOf(text: string): Iterable<Intl.SegmentData> {
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  return segmenter.segment(text);
}

function segmentWidth(segment: string): number {
  if (NO_WIDTH.test(segment)) return 0;
  return WIDE.test(segment) || WIDE_ASTRAL.test(segment) ? 2 : 1;
}

/** A plain text cut to a width; `…` marks the cut. */
export function cutText(text: string, widthMax: number): string {
  if (widthMax <= 0) return "";
  if (displayWidth(text) <= widthMax) return text;
  let cut = "";
  let width = 0;
  for (const { segment } of graphemesOf(text)) {
    width += segmentWidth(segment);
    if (width > widthMax - 1) break;
    cut += segment;
  }
  return `${cut.trimEnd()}…`;
}

/** A text in lines of a width, broken between words; later lines are indented. */
export function wrapText(text: string, width: number): readonly string[] {
  const rows: string[] = [];
  const last = addWords(rows, "", text, width);
  return [...rows, last];
}

/** Adds words to a row; the rows that are full go to `rows`. Gives the last one. */
function addWords(rows: string[], row: string, text: string, width: number): string {
  let last = row;
  for (const word of text.split(/(?<=\S)(?=\s)/)) {
    if (last.trim() !== "" && displayWidth(last + word.trimEnd()) > width) {
      rows.push(last.trimEnd());
      last = WRAP_INDENT + word.trimStart();
    } else last += word;
  }
  return last;
}

const WRAP_INDENT = "  ";

const COMMAND_INDENT = "    ";

/** A command in lines of a width; each line but the last ends in a backslash, so a copy works. */
export function commandRows(command: string, width: number): readonly string[] {
  const words = command.match(/(?:[^\s']|'[^']*'|\\')+/g) ?? [command];
  const rows: string[] = [];
  let row = "";
  for (const word of words) {
    const longer = row === "" ? COMMAND_INDENT + word : `${row} ${word}`;
    if (row !== "" && displayWidth(longer) + " \\".length > width) {
      rows.push(`${row} \\`);
      row = COMMAND_INDENT + WRAP_INDENT + word;
    } else row = longer;
  }
  return [...rows, row];
}

/** A command of ours, where one is suggested: after a colon, or alone in an indented line. */
const SUGGESTED = new RegExp(
  `((?<=: |^ +)(?:${COLOUR_SOURCE})*perdure(?: (?:'[^']*'|[^\\s'();])+)+)`,
);

/** As `wrapText`; a suggested command that does not fit gets lines of its own. Colours stay. */
export function wrapAdvice(text: string, width: number): readonly string[] {
  if (displayWidth(text) <= width) return [text];
  const rows: string[] = [];
  let row = "";
  for (const [index, part] of text.split(SUGGESTED).entries()) {
    if (index % 2 === 0) {
      row = addWords(rows, row, part, width);
      continue;
    }
    if (displayWidth(row + part) <= width) {
      row += part;
      continue;
    }
    if (row.trim() !== "") rows.push(row.trimEnd());
    const own = commandRows(part, width);
    rows.push(...own.slice(0, -1));
    row = own.at(-1) ?? "";
  }
  return coloured(row.trim() === "" ? rows : [...rows, row]);
}

/** Rows of one text: a colour that begins in one of them continues in the next. */
function coloured(rows: readonly string[]): readonly string[] {
  let open = "";
  return rows.map((row) => {
    const shown = open + row;
    const last = shown.match(COLOURS)?.at(-1) ?? "";
    open = RESETS.test(last) ? "" : last;
    return open === "" ? shown : shown + RESET;
  });
}

/** A plain text filled up with spaces to a width. */
export function padText(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - displayWidth(text)));
}

/** "a, b, c and 4 more": a list that stays short. `total` counts what `names` may leave out. */
export function shortList(
  names: readonly string[],
  namesMax: number,
  total = names.length,
): string {
  const shown = names.slice(0, namesMax);
  const left = total - shown.length;
  if (left > 0) return shown.length === 0 ? `${left}` : `${shown.join(", ")} and ${left} more`;
  return shown.join(", ");
}

/** "1 step", "2 steps". */
export function countText(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}

const COMMIT_LENGTH = 10;

/** A commit as people read and type it. */
export function commitText(commit: string): string {
  return commit.slice(0, COMMIT_LENGTH);
}

const GAP = "  ";

interface TableOptions {
  /** The widest that each column may get; a longer cell is cut. */
  readonly widthsMax?: readonly (number | undefined)[];
  readonly style?: Style;
  /** The width of the terminal: cells that do not fit move to the next line. */
  readonly width?: number | undefined;
  /** The tone of a cell, by its row and column. */
  readonly toneOf?: (row: number, column: number) => Tone | undefined;
}

/** The lines of a table. Cells are plain text. */
export function tableLines(
  rows: readonly (readonly string[])[],
  options: TableOptions = {},
): readonly string[] {
  const { widthsMax = [], style = plainStyle, width = Number.POSITIVE_INFINITY, toneOf } = options;
  const cut = rows.map((row) =>
    row.map((cell, column) => cutText(cell, widthsMax[column] ?? Number.POSITIVE_INFINITY)),
  );
  const widths: number[] = [];
  for (const row of cut) {
    row.forEach((cell, column) => {
      const widest = widths[column] ?? 0;
      widths[column] = Math.max(widest, displayWidth(cell));
    });
  }
  return cut.flatMap((row, at) => {
    const last = row.findLastIndex((cell) => cell !== "");
    const lines: string[] = [];
    let line = "";
    for (const [column, cell] of row.slice(0, last + 1).entries()) {
      if (cell === "" && lines.length > 0) continue;
      if (cell !== "" && line.trim() !== "" && displayWidth(line + cell) > width) {
        lines.push(line.trimEnd());
        line = COMMAND_INDENT;
      }
      const tone = toneOf?.(at, column);
      const padding = column === last ? 0 : (widths[column] ?? 0) - displayWidth(cell);
      const shown = tone === undefined ? cell : style(tone, cell);
      line += shown + " ".repeat(Math.max(0, padding)) + (column === last ? "" : GAP);
    }
    return [...lines, line.trimEnd()];
  });
}

/** "2026-02-01 10:00:00". */
export function utcText(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replace("T", " ");
}

/** "2026-02-01T10:00:00.250Z". */
export function isoText(time: number): string {
  return new Date(time).toISOString();
}

/** `perdure resume a1b2c3d4`: a command with every word quoted as the shell needs it. */
export function commandText(...words: readonly string[]): string {
  return ["perdure", ...words].map(shellWord).join(" ");
}

/** A word for a POSIX shell, quoted only if necessary. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export type Tone = "good" | "bad" | "busy" | "wait" | "dim" | "strong";

/** Gives a text a tone; its width stays the same. */
export type Style = (tone: Tone, text: string) => string;

/** No tone. */
export const plainStyle: Style = (_tone, text) => text;

const WIDTH_MAX = 120;

/** `Exponents in numbers · high`: its texts and numbers, the longest first; undefined without any. */
export function inputText(input: Json): string | undefined {
  const values =
    typeof input === "object" && input !== null && !Array.isArray(input)
      ? Object.values(input)
      : [input];
  const words = values
    .filter((value) => typeof value === "string" || typeof value === "number")
    .map((value) => plainText(String(value)).trim())
    .filter((word) => word !== "")
    .toSorted((a, b) => b.length - a.length);
  return words.length === 0 ? undefined : cutText(words.join(" · "), WIDTH_MAX);
}
