/** Differences between two moments of a run, in words: files, lines and context. */
import type { Json } from "../util/json.ts";
import type { file, PartOf } from "./json/document-parts.ts";
import { plainText, shortList, tableLines } from "./text.ts";

/** A file that differs. */
export interface ChangedFile {
  readonly path: string;
  readonly from: string | undefined;
  readonly status: "added" | "changed" | "removed" | "renamed" | "retyped";
  readonly binary: boolean;
  readonly added: number;
  readonly removed: number;
}

/** Keys of the context that differ. */
export interface ContextChange {
  readonly added: Readonly<Record<string, Json>>;
  readonly changed: Readonly<Record<string, { readonly from: Json; readonly to: Json }>>;
  readonly removed: readonly string[];
}

const MARKS = { added: "A", changed: "M", removed: "D", renamed: "R", retyped: "T" } as const;
const KEYS_MAX = 20;

/** What differs between two contexts. */
export function contextChange(
  from: ReadonlyMap<string, Json>,
  to: ReadonlyMap<string, Json>,
): ContextChange {
  const added: Record<string, Json> = {};
  const changed: Record<string, { from: Json; to: Json }> = {};
  for (const [key, value] of to) {
    const before = from.get(key);
    if (before === undefined) added[key] = value;
    else if (JSON.stringify(before) !== JSON.stringify(value)) {
      changed[key] = { from: before, to: value };
    }
  }
  return { added, changed, removed: [...from.keys()].filter((key) => !to.has(key)) };
}

/** A line for each file, `A src/new.ts  +12`; those beyond the limit are counted. */
export function fileLines(
  files: readonly ChangedFile[],
  filesMax = Number.POSITIVE_INFINITY,
): readonly string[] {
  const rows = files.slice(0, filesMax).map((file) => {
    const path = file.from === undefined ? file.path : `${file.from} -> ${file.path}`;
    return [`  ${MARKS[file.status]} ${plainText(path)}`, countsText(file)];
  });
  const left = files.length - rows.length;
  return [...tableLines(rows), ...(left > 0 ? [`  and ${left} more`] : [])];
}

/** "3 files changed, +12 -4". */
export function totalText(files: readonly ChangedFile[]): string {
  if (files.length === 0) return "no file changed";
  const count = files.length === 1 ? "1 file changed" : `${files.length} files changed`;
  const lines = linesText(files);
  return lines === "" ? count : `${count}, ${lines}`;
}

/** "+12 -4": the lines of all files together. */
export function linesText(files: readonly ChangedFile[]): string {
  let added = 0;
  let removed = 0;
  for (const file of files) {
    added += file.added;
    removed += file.removed;
  }
  return signed(added, removed);
}

function countsText({ binary, added, removed }: ChangedFile): string {
  return binary ? "binary" : signed(added, removed);
}

function signed(added: number, removed: number): string {
  const parts = [added === 0 ? "" : `+${added}`, removed === 0 ? "" : `-${removed}`];
  return parts.filter((part) => part !== "").join(" ");
}

/** "context: added a, b; changed c"; nothing when it is the same. */
export function contextLines({ added, changed, removed }: ContextChange): readonly string[] {
  const parts = [
    ["added", Object.keys(added)],
    ["changed", Object.keys(changed)],
    ["removed", removed],
  ] as const;
  const said = parts
    .filter(([, keys]) => keys.length > 0)
    .map(([what, keys]) => `${what} ${shortList(keys, KEYS_MAX)}`);
  return said.length === 0 ? [] : [`context: ${said.join("; ")}`];
}

/** A file that differs, for programs. */
export function fileJson(changed: ChangedFile): PartOf<typeof file> {
  const { path, from, status, binary, added, removed } = changed;
  return { path, from: from ?? null, status, binary, added, removed };
}
