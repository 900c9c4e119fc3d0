/** `report --format md`: the report as Markdown that is readable as plain text, too. */
import { formatDuration } from "../../util/duration.ts";
import { mermaidText } from "../graph/mermaid.ts";
import { cutText, displayWidth, padText, plainText } from "../text.ts";
import type { Bar, RunReport } from "./report.ts";
import {
  type Cell,
  headTable,
  ROWS_MAX,
  type Section,
  sectionsOf,
  shortened,
  type Table,
} from "./sections.ts";

const TIMELINE_COLUMNS = 60;
const LABEL_WIDTH_MAX = 32;
/** A larger graph is not drawn. */
const PICTURE_NODES_MAX = 60;

/** The whole document. */
export function reportMarkdown(report: RunReport): string {
  const { happened, done, next, output = [] } = report.words;
  const lines = [
    `# Report on run ${escaped(report.runId.slice(0, 8))}: ${escaped(report.pipeline)}`,
    "",
    ...[happened, done, next].flatMap((line) => [escaped(line), ""]),
    ...(output.length === 0 ? [] : [...fenced(output), ""]),
    ...tableText({ head: ["", ""], rows: headTable(report) }),
    "",
    ...pictureText(report),
    ...timelineText(report),
    ...sectionsOf(report).flatMap(sectionText),
    ...outputText(report),
  ];
  return `${lines.join("\n").trimEnd()}\n`;
}

function pictureText({ drawing }: RunReport): readonly string[] {
  const { nodes } = drawing.picture;
  if (nodes.length === 0 || nodes.length > PICTURE_NODES_MAX || drawing.nodesLeftOut > 0) return [];
  return ["## Pipeline", "", ...fenced(mermaidText(drawing).trimEnd().split("\n"), "mermaid"), ""];
}

/** A line for each attempt, as long as it ran. */
function timelineText({ bars, startedAt = 0, endedAt }: RunReport): readonly string[] {
  if (bars.length === 0) return [];
  const { first, leftOut, last } = shortened(bars, ROWS_MAX);
  const labels = [...first, ...last].map(({ at }) => cutText(plainText(at), LABEL_WIDTH_MAX));
  const width = Math.max(...labels.map(displayWidth));
  const total = Math.max(1, endedAt - startedAt);
  const line = (bar: Bar): string => barLine(bar, { width, from: startedAt, total, endedAt });
  const note = leftOut === 0 ? [] : [`... ${leftOut} more attempts ...`];
  return ["## Timeline", "", ...fenced([...first.map(line), ...note, ...last.map(line)]), ""];
}

interface Scale {
  readonly width: number;
  readonly from: number;
  readonly total: number;
  readonly endedAt: number;
}

function barLine(bar: Bar, { width, from, total, endedAt }: Scale): string {
  const column = (time: number): number =>
    Math.min(TIMELINE_COLUMNS, Math.max(0, Math.round(((time - from) / total) * TIMELINE_COLUMNS)));
  const start = Math.min(column(bar.startedAt), TIMELINE_COLUMNS - 1);
  const length = Math.max(1, column(bar.endedAt ?? endedAt) - start);
  const ink = (bar.composite ? "─" : "█").repeat(length);
  const label = padText(cutText(plainText(bar.at), LABEL_WIDTH_MAX), width);
  const drawn = padText(" ".repeat(start) + ink, TIMELINE_COLUMNS);
  return `${label} |${drawn}| ${bar.outcome} ${formatDuration(bar.workedMs)}`;
}

function sectionText({ title, lines, table }: Section): readonly string[] {
  return [
    `## ${escaped(title)}`,
    "",
    ...lines.flatMap((line) => [escaped(line), ""]),
    ...(table === undefined ? [] : [...tableText(table), ""]),
  ];
}

function tableText({ head, rows }: Table): readonly string[] {
  const { first, leftOut, last } = shortened(rows, ROWS_MAX);
  const row = (cells: readonly Cell[]): string => `| ${cells.map(cellText).join(" | ")} |`;
  const note =
    leftOut === 0 ? [] : [row([`... ${leftOut} more ...`, ...head.slice(1).map(() => "")])];
  return [
    row(head),
    `|${"---|".repeat(head.length)}`,
    ...first.map(row),
    ...note,
    ...last.map(row),
  ];
}

function outputText({ outputs }: RunReport): readonly string[] {
  if (outputs.size === 0) return [];
  const parts = Array.from(outputs).flatMap(([at, text]) => [
    `### ${escaped(at)}`,
    "",
    ...fenced(text.split("\n").map(plainText)),
    "",
  ]);
  return ["## Output", "", ...parts];
}

/** A code block whose fence is longer than any fence inside it. */
function fenced(lines: readonly string[], language = ""): readonly string[] {
  const ticks = [...lines.join("\n").matchAll(/`+/g)].map(([run]) => run.length);
  const fence = "`".repeat(Math.max(3, ...ticks.map((length) => length + 1)));
  return [fence + language, ...lines, fence];
}

function cellText(cell: Cell): string {
  if (typeof cell === "string") return escaped(cell);
  return "code" in cell ? coded(cell.code) : escaped(cell.text);
}

/**
 * A value between backticks. In a table, even there a bar ends a cell. A value that looks like
 * markup is written with entities, because some readers do not respect backticks.
 */
function coded(text: string): string {
  if (/[<>]/.test(text)) return `<code>${escaped(text)}</code>`;
  const plain = plainText(text).replaceAll("|", "\\|");
  if (plain === "") return "";
  const ticks = [...plain.matchAll(/`+/g)].map(([run]) => run.length);
  const fence = "`".repeat(Math.max(1, ...ticks.map((length) => length + 1)));
  const pad = plain.startsWith("`") || plain.endsWith("`") ? " " : "";
  return `${fence}${pad}${plain}${pad}${fence}`;
}

/**
 * Text of which Markdown makes nothing else; an underline inside a word is none of its business.
 */
function escaped(text: string): string {
  return plainText(text)
    .replace(/[\\`*[\]|~]|(?<!\w)_|_(?!\w)/g, "\\$&")
    .replace(/^(\s*)([-+#=])/, "$1\\$2")
    .replace(/^(\s*\d+)([.)])(?=\s|$)/, "$1\\$2")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
}
