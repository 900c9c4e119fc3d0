/**
 * The details of a snapshot besides its tree; they are in the message of its commit.
 *
 * Owns: writing and reading them.
 * Does not: hold content.
 */

import { type RawPath, shownPath } from "../disk.ts";
import { git } from "../git.ts";
import type { Head } from "../repository.ts";
import { hasCommit, inStoreAndProject, missingCommit, type SnapshotStore } from "./store.ts";

/** A file or a whole directory that is not in a snapshot. */
export interface Skipped<Path = RawPath> {
  readonly path: Path;
  readonly bytes: number;
  readonly why:
    | "too-large"
    /** Untracked files that tools can make again: installed packages, build output. */
    | "generated"
    | "unreadable"
    | "not-a-file"
    /** Git cannot store the name (a part of it is ".git" in some spelling). */
    | "name"
    /** A worktree of the same repository, which belongs to another task. */
    | "other-worktree";
}

/** For people and for the journal, paths are text: `Details<string>`. */
export interface Details<Path = RawPath> {
  /** Empty directories. */
  readonly empties: readonly Path[];
  readonly skipped: readonly Skipped<Path>[];
  /** Repositories in the workspace, and the commits that were checked out there. */
  readonly nested: readonly { readonly path: Path; readonly head: string | undefined }[];
  /** The commit that was checked out in the workspace itself. */
  readonly head: Head | undefined;
}

interface StoredSnapshot {
  readonly commit: string;
  readonly tree: string;
  readonly parents: readonly string[];
  readonly message: string;
  readonly details: Details;
}

const SKIPPED_MAX = 1_000;
/** The deepest directories that stand for skipped paths when there are too many. */
const DEPTH_MAX = 8;
const MARK = "perdure-snapshot: ";
export const NO_DETAILS: Details = { empties: [], skipped: [], nested: [], head: undefined };

/** The message of a snapshot's commit. */
export function messageOf(message: string, details: Details): string {
  // Plain ASCII, so that names that are not UTF-8 stay the same.
  const json = JSON.stringify(details).replace(
    /[^\x20-\x7e]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${message}\n\n${MARK}${json}\n`;
}

/**
 * The branch and the commit to check out with the files of a snapshot: those at that time, or a
 * later commit with the same work, if it is there.
 */
export async function headWith(
  store: SnapshotStore,
  snapshot: string,
  later?: string,
): Promise<Head | undefined> {
  const { head } = (await readSnapshot(store, snapshot)).details;
  if (head === undefined || later === undefined || !(await hasCommit(store, later))) return head;
  return { ...head, commit: later };
}

/** Reads the commit of a snapshot; a commit of the user has no details. */
export async function readSnapshot(store: SnapshotStore, commit: string): Promise<StoredSnapshot> {
  const call = { ...inStoreAndProject(store), answers: [128] };
  const { stdout, exit } = await git(call, "cat-file", "commit", commit);
  if (exit !== 0) throw missingCommit(store, commit);
  const text = stdout.toString("utf8");
  const split = text.indexOf("\n\n");
  const headers = text.slice(0, split).split("\n");
  const body = text.slice(split + 2);
  const at = body.lastIndexOf(`\n${MARK}`);
  const headersNamed = (name: string): readonly string[] =>
    headers
      .filter((line) => line.startsWith(`${name} `))
      .map((line) => line.slice(name.length + 1));
  return {
    commit,
    tree: headersNamed("tree")[0] ?? "",
    parents: headersNamed("parent"),
    message: (at < 0 ? body : body.slice(0, at)).trimEnd(),
    details: at < 0 ? NO_DETAILS : parseDetails(body.slice(at + 1 + MARK.length)),
  };
}

/** The skipped paths; if there are too many, their directories stand for them. */
export function boundedSkips(skipped: readonly Skipped[]): readonly Skipped[] {
  let some = skipped;
  let depth = some.length > SKIPPED_MAX ? DEPTH_MAX : 0;
  for (; some.length > SKIPPED_MAX && depth > 0; depth--) {
    const merged = new Map<RawPath, Skipped>();
    for (const { path, bytes, why } of some) {
      const parts = path.split("/");
      const short = (parts.length <= depth ? path : parts.slice(0, depth).join("/")) as RawPath;
      merged.set(short, { path: short, bytes: (merged.get(short)?.bytes ?? 0) + bytes, why });
    }
    some = [...merged.values()];
  }
  return some;
}

/** True for one of these paths, and for a path below one of them. */
export function isAtOrBelow(some: readonly { readonly path: RawPath }[], path: RawPath): boolean {
  return some.some((one) => path === one.path || path.startsWith(`${one.path}/`));
}

/** The details with paths as text. */
export function shownDetails({ empties, skipped, nested, head }: Details): Details<string> {
  return {
    empties: empties.map(shownPath),
    skipped: skipped.map((one) => ({ ...one, path: shownPath(one.path) })),
    nested: nested.map((one) => ({ path: shownPath(one.path), head: one.head })),
    head,
  };
}

function parseDetails(json: string): Details {
  return { ...NO_DETAILS, ...(JSON.parse(json) as Partial<Details>) };
}
