/**
 * The steps of a run as rows of a list that a person can read: a tree with closed parts, or only the
 * steps that a filter lets through; and its events as lines. News change the rows and add lines.
 */
import type { Doc, StepRow } from "../api.ts";

/** Which steps are listed. */
export type RowFilter = "all" | "failed" | "active";

export interface ListRow {
  readonly row: StepRow;
  readonly depth: number;
  /** How many steps are in it. */
  readonly inside: number;
  readonly isOpen: boolean;
}

/** A composite step with more steps in it is closed until a person opens it. */
const OPEN_MAX = 24;

const ACTIVE: readonly StepRow["status"][] = ["running", "waiting", "retrying", "interrupted"];

/** True for a step that has begun and not ended. */
export function isActive({ status }: StepRow): boolean {
  return ACTIVE.includes(status);
}

/** How many steps each filter lets through. */
export function rowCounts(rows: readonly StepRow[]): Readonly<Record<RowFilter, number>> {
  const failed = rows.filter(({ status }) => status === "failed").length;
  const active = rows.filter(isActive).length;
  return { all: rows.length, failed, active };
}

interface ShownInput {
  readonly filter: RowFilter;
  /** A part of the path or the label. */
  readonly words: string;
  /** Composite steps that a person has opened or closed. */
  readonly toggled: ReadonlyMap<string, boolean>;
}

/** The rows to show. With a filter, the composite steps around a step are shown with it. */
export function shownRows(rows: readonly StepRow[], input: ShownInput): readonly ListRow[] {
  const inside = new Map<string, number>();
  for (const { parent } of rows) {
    if (parent !== null) inside.set(parent, (inside.get(parent) ?? 0) + 1);
  }
  const wanted = wantedSteps(rows, input);
  const depths = new Map<string, number>();
  const hidden = new Set<string>();
  const shown: ListRow[] = [];
  for (const row of rows) {
    const depth = row.parent === null ? 0 : (depths.get(row.parent) ?? 0) + 1;
    depths.set(row.step, depth);
    const isHidden = row.parent !== null && hidden.has(row.parent);
    const count = inside.get(row.step) ?? 0;
    const isOpen = input.toggled.get(row.step) ?? (wanted !== undefined || count <= OPEN_MAX);
    if (isHidden || !isOpen) hidden.add(row.step);
    if (isHidden || (wanted !== undefined && !wanted.has(row.step))) continue;
    shown.push({ row, depth, inside: count, isOpen });
  }
  return shown;
}

/** The steps that the filter lets through, and what is around them; undefined for all. */
function wantedSteps(
  rows: readonly StepRow[],
  { filter, words }: ShownInput,
): ReadonlySet<string> | undefined {
  const text = words.trim().toLowerCase();
  if (filter === "all" && text === "") return undefined;
  const parents = new Map(rows.map(({ step, parent }) => [step, parent]));
  const wanted = new Set<string>();
  for (const row of rows) {
    const hasState =
      filter === "all" || (filter === "failed" ? row.status === "failed" : isActive(row));
    const hasText = text === "" || `${row.step} ${row.label}`.toLowerCase().includes(text);
    if (!hasState || !hasText) continue;
    let step: string | null | undefined = row.step;
    while (typeof step === "string" && !wanted.has(step)) {
      wanted.add(step);
      step = parents.get(step);
    }
  }
  return wanted;
}

/** The rows with the failed items of each fan-out before its other items; the rest keeps its order. */
export function failedFirst(rows: readonly StepRow[]): readonly StepRow[] {
  if (!rows.some(({ items }) => (items?.failed ?? 0) > 0)) return rows;
  const inside = Map.groupBy(rows, ({ parent }) => parent);
  const ordered: StepRow[] = [];
  /** Adds a step with what is in it; says whether any of it failed. */
  const add = (row: StepRow, into: StepRow[]): boolean => {
    into.push(row);
    const children = inside.get(row.step) ?? [];
    let hasFailed = row.status === "failed";
    if ((row.items?.failed ?? 0) === 0) {
      for (const child of children) hasFailed = add(child, into) || hasFailed;
      return hasFailed;
    }
    const others: StepRow[] = [];
    for (const item of Map.groupBy(children, itemOf).values()) {
      const all: StepRow[] = [];
      let isFailed = false;
      for (const child of item) isFailed = add(child, all) || isFailed;
      (isFailed ? into : others).push(...all);
    }
    into.push(...others);
    return true;
  };
  for (const row of inside.get(null) ?? []) add(row, ordered);
  return ordered;
}

/** The item that a step belongs to: `map@1.1[3]` for `map@1.1[3]/fix`. */
function itemOf({ step }: StepRow): string {
  return step.slice(0, step.lastIndexOf("/"));
}

/** The rows with those that changed; a new one comes after everything in the step that it is in. */
export function mergedRows(
  before: readonly StepRow[],
  changed: readonly StepRow[],
): readonly StepRow[] {
  if (changed.length === 0) return before;
  const news = new Map(changed.map((row) => [row.step, row]));
  const rows = before.map((row) => {
    const changedRow = news.get(row.step);
    news.delete(row.step);
    return changedRow ?? row;
  });
  if (news.size === 0) return rows;
  const fresh = new Map<string | null, StepRow[]>();
  for (const row of news.values()) {
    const siblings = fresh.get(row.parent);
    if (siblings === undefined) fresh.set(row.parent, [row]);
    else siblings.push(row);
  }
  return withChildren(rows, fresh);
}

function withChildren(
  rows: readonly StepRow[],
  fresh: ReadonlyMap<string | null, readonly StepRow[]>,
): readonly StepRow[] {
  const merged: StepRow[] = [];
  /** The composite steps around the row that was added last. */
  const open: string[] = [];
  const close = (step: string): void => {
    for (const row of fresh.get(step) ?? []) {
      merged.push(row);
      close(row.step);
    }
  };
  for (const row of rows) {
    while (open.length > 0 && open.at(-1) !== row.parent) close(open.pop() as string);
    merged.push(row);
    open.push(row.step);
  }
  while (open.length > 0) close(open.pop() as string);
  for (const row of fresh.get(null) ?? []) {
    merged.push(row);
    close(row.step);
  }
  return merged;
}

/** An event of a run, as the terminal prints it. */
export type RunLine = Doc<"runNews">["lines"][number];

/** Lines in their order, each once: a stream that continues may repeat some. */
export function mergedLines(
  before: readonly RunLine[],
  news: readonly RunLine[],
): readonly RunLine[] {
  const last = before.at(-1)?.sequence ?? 0;
  const fresh = news.filter(({ sequence }) => sequence > last);
  return fresh.length === 0 ? before : [...before, ...fresh];
}

/** The lines that have all of these words, in their text or in the path of their step. */
export function linesWith(lines: readonly RunLine[], words: string): readonly RunLine[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (wanted.length === 0) return lines;
  return lines.filter(({ text, step }) => {
    const line = `${step ?? ""} ${text}`.toLowerCase();
    return wanted.every((word) => line.includes(word));
  });
}
