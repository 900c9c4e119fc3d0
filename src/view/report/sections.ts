/**
 * The sections of a report as titles, sentences and tables; Markdown and HTML write them each in
 * their own way.
 *
 * Owns: the content, the words and the limits of each section.
 * Does not: escape anything; cells are plain text or literal values.
 * Invariants:
 * - view/M1 A table has at most ROWS_MAX rows: its beginning and its end, and how many were left
 *   out.
 */
import type { Spent } from "../../core/event.ts";
import { formatDuration } from "../../util/duration.ts";
import type { Json } from "../../util/json.ts";
import { budgetText, spentText } from "../cost-text.ts";
import { TINTS, type Tint } from "../graph/markup.ts";
import { STEP_STYLES } from "../step-status.ts";
import { cutText, plainText, utcText } from "../text.ts";
import { ownerText } from "./history.ts";
import type { RunReport } from "./report.ts";

/** How many rows a table of a report has at most. */
export const ROWS_MAX = 400;
const VALUE_WIDTH_MAX = 160;

/** Plain text, text in the colour of a state, or a literal value. */
export type Cell =
  | string
  | { readonly code: string }
  | { readonly text: string; readonly tint: Tint };

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

export interface Section {
  readonly id: string;
  readonly title: string;
  /** Sentences above the table, or instead of it. */
  readonly lines: readonly string[];
  readonly table?: Table;
}

/** The head of the report: names and values. */
export function headTable(report: RunReport): readonly (readonly [string, Cell])[] {
  const { run, spent, budget } = report;
  const { created } = run;
  const used = spentText(spent);
  const rows: (readonly [string, Cell])[] = [
    ["run", { code: report.runId }],
    ["pipeline", plainText(report.pipeline)],
    ["state", report.status],
  ];
  if (created !== undefined) {
    rows.push(["file", { code: created.file }], ["directory", { code: created.cwd }]);
    if (created.input !== null) rows.push(["input", valueCell(created.input)]);
    rows.push(["started", `${utcText(created.time)} UTC`]);
  }
  rows.push(["last event", `${utcText(report.endedAt)} UTC`]);
  rows.push(["took", formatDuration(report.elapsedMs)]);
  rows.push(["active time", formatDuration(report.workedMs)]);
  if (used !== undefined) rows.push(["used", used]);
  const limits = budgetText(budget);
  if (limits !== "") rows.push(["budget", limits]);
  return rows;
}

/** The sections in their order, without the empty ones. */
export function sectionsOf(report: RunReport): readonly Section[] {
  return [
    stepSection(report),
    problemSection(report),
    pathSection(report),
    contextSection(report),
    ownerSection(report),
    decisionSection(report),
  ].flatMap((section) => (section === undefined ? [] : [withoutEmptyColumns(section)]));
}

/** Drops the columns that are empty in every row. */
function withoutEmptyColumns(section: Section): Section {
  const { table } = section;
  if (table === undefined) return section;
  const filled = table.head.map((_, column) => table.rows.some((row) => row[column] !== ""));
  const keep = <T>(cells: readonly T[]): readonly T[] => cells.filter((_, index) => filled[index]);
  return { ...section, table: { head: keep(table.head), rows: table.rows.map(keep) } };
}

function stepSection({ steps }: RunReport): Section {
  const rows = steps.map((step): readonly Cell[] => [
    `${"\u00a0\u00a0".repeat(step.depth)}${STEP_STYLES[step.status].glyph} ${step.label}`,
    { text: step.state, tint: TINTS[step.status] },
    count(step.visits),
    count(step.attempts),
    step.attempts === 0 ? "" : formatDuration(step.workedMs),
    spentCell(step.spent),
    step.result,
  ]);
  const head = ["Step", "State", "Visits", "Attempts", "Time", "Used", "Result"];
  return { id: "steps", title: "Steps", lines: [], table: { head, rows } };
}

function problemSection({ problems }: RunReport): Section {
  const title = "Problems";
  if (problems.length === 0) return { id: "problems", title, lines: ["None."] };
  const rows = problems.map(({ time, at, kind, why, handling }): readonly Cell[] => [
    utcText(time),
    { code: at },
    { text: kind, tint: kind === "failed" || kind === "lost" ? "failed" : "waiting" },
    why,
    handling.length === 0 ? "not yet" : handling.join("; then "),
  ]);
  const head = ["When (UTC)", "Attempt", "What", "Why", "Handled"];
  return { id: "problems", title, lines: [], table: { head, rows } };
}

function pathSection({ visits }: RunReport): Section {
  const rows = visits.map((visit, index): readonly Cell[] => [
    `${index + 1}`,
    { code: visit.path },
    utcText(visit.startedAt),
    visit.endedAt === undefined ? "" : formatDuration(Math.max(0, visit.endedAt - visit.startedAt)),
    count(visit.attempts),
    visit.outcome,
    visit.next.join(", "),
  ]);
  const head = ["", "Visit", "Began (UTC)", "Took", "Attempts", "Outcome", "Next"];
  const lines = rows.length === 0 ? ["No step has started."] : [];
  const section = { id: "path", title: "Path", lines };
  return rows.length === 0 ? section : { ...section, table: { head, rows } };
}

function contextSection({ context }: RunReport): Section | undefined {
  if (context.length === 0) return undefined;
  const rows = context.map(({ time, by, key, before, after }): readonly Cell[] => [
    utcText(time),
    { code: by },
    { code: key },
    before === undefined ? "" : valueCell(before),
    valueCell(after),
  ]);
  const head = ["When (UTC)", "By", "Key", "Before", "After"];
  return { id: "context", title: "Context", lines: [], table: { head, rows } };
}

function ownerSection({ owners }: RunReport): Section | undefined {
  if (owners.length === 0) return undefined;
  const rows = owners.map(({ epoch, owner, from, until, left }): readonly Cell[] => [
    `${epoch}`,
    ownerText(owner),
    utcText(from),
    formatDuration(Math.max(0, until - from)),
    left,
  ]);
  const head = ["", "Owner", "From (UTC)", "For", "How it ended"];
  return { id: "owners", title: "Runners", lines: [], table: { head, rows } };
}

function decisionSection({ decisions }: RunReport): Section | undefined {
  if (decisions.length === 0) return undefined;
  const rows = decisions.map(({ seq, time, what }): readonly Cell[] => [
    `${seq}`,
    utcText(time),
    what,
  ]);
  const head = ["Event", "When (UTC)", "Decision"];
  return { id: "decisions", title: "Decisions", lines: [], table: { head, rows } };
}

function count(value: number): string {
  return value === 0 ? "" : `${value}`;
}

function spentCell(spent: Spent | undefined): string {
  return spent === undefined ? "" : (spentText(spent) ?? "");
}

function valueCell(value: Json): Cell {
  return { code: cutText(plainText(JSON.stringify(value)), VALUE_WIDTH_MAX) };
}

interface Shortened<T> {
  readonly first: readonly T[];
  readonly leftOut: number;
  readonly last: readonly T[];
}

/** The beginning and the end of a list that is too long (view/M1). */
export function shortened<T>(list: readonly T[], max: number): Shortened<T> {
  if (list.length <= max) return { first: list, leftOut: 0, last: [] };
  const half = Math.floor(max / 2);
  const last = list.slice(list.length - half);
  return { first: list.slice(0, max - half), leftOut: list.length - max, last };
}
