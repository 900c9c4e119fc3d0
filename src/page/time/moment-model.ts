/**
 * What a moment of a run holds, as rows to show: the paths of its files as a tree whose folders can be
 * open or closed, and what changed from one context to another.
 */
import type { Doc } from "../api.ts";

export interface TreeRow {
  readonly path: string;
  readonly name: string;
  readonly depth: number;
  readonly isFolder: boolean;
  readonly bytes: number;
}

interface Listed {
  readonly path: string;
  readonly bytes: number;
}

/** The rows of open folders, folders first, by name. */
export function treeRows(
  files: readonly Listed[],
  isOpen: (folder: string) => boolean,
): readonly TreeRow[] {
  return rowsIn(folderOf(files), "", 0, isOpen);
}

/** Only the files whose path contains the words, without folders. */
export function foundRows(files: readonly Listed[], words: string): readonly TreeRow[] {
  const wanted = words.toLowerCase();
  return files
    .filter(({ path }) => path.toLowerCase().includes(wanted))
    .map(({ path, bytes }) => ({ path, name: path, depth: 0, isFolder: false, bytes }));
}

interface Folder {
  readonly folders: Map<string, Folder>;
  readonly files: { readonly name: string; readonly bytes: number }[];
}

function folderOf(files: readonly Listed[]): Folder {
  const root: Folder = { folders: new Map(), files: [] };
  for (const { path, bytes } of files) {
    const names = path.split("/");
    const name = names.pop() ?? path;
    let folder = root;
    for (const part of names) {
      const next = folder.folders.get(part) ?? { folders: new Map(), files: [] };
      folder.folders.set(part, next);
      folder = next;
    }
    folder.files.push({ name, bytes });
  }
  return root;
}

function rowsIn(
  folder: Folder,
  prefix: string,
  depth: number,
  isOpen: (folder: string) => boolean,
): readonly TreeRow[] {
  const folders = [...folder.folders].toSorted(([a], [b]) => a.localeCompare(b));
  const files = folder.files.toSorted((a, b) => a.name.localeCompare(b.name));
  return [
    ...folders.flatMap(([name, inner]): readonly TreeRow[] => {
      const path = `${prefix}${name}`;
      const row = { path, name, depth, isFolder: true, bytes: 0 };
      return [row, ...(isOpen(path) ? rowsIn(inner, `${path}/`, depth + 1, isOpen) : [])];
    }),
    ...files.map(({ name, bytes }) => {
      return { path: `${prefix}${name}`, name, depth, isFolder: false, bytes };
    }),
  ];
}

type Context = Doc<"moment">["context"];

/** One key of the context that changed. */
export interface ContextChange {
  readonly key: string;
  readonly kind: "added" | "changed" | "removed";
  readonly before: Context[string] | undefined;
  readonly after: Context[string] | undefined;
}

/** What changed from one context to another, by key. */
export function contextChanges(before: Context, after: Context): readonly ContextChange[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return keys.flatMap((key): readonly ContextChange[] => {
    const [hadIt, hasIt] = [Object.hasOwn(before, key), Object.hasOwn(after, key)];
    if (hadIt && hasIt && JSON.stringify(before[key]) === JSON.stringify(after[key])) return [];
    const kind = hadIt ? (hasIt ? "changed" : "removed") : "added";
    return [{ key, kind, before: before[key], after: after[key] }];
  });
}
