/**
 * Merges the changes of two workspaces with the same base.
 *
 * Owns: the three-way merge of snapshots, by git's own merge.
 * Does not: change files of a workspace; restoring the result does.
 *
 * workspace/M1 The same three snapshots and options always give the same commit or the same
 *   conflicts.
 */
import { failpoint } from "../../util/failpoint.ts";
import { shownPath, splitNul } from "../disk.ts";
import { git, gitHas } from "../git.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { type Details, NO_DETAILS, readSnapshot } from "./details.ts";
import { commitTree } from "./snapshot.ts";
import { inStore, type SnapshotStore, writeRefs } from "./store.ts";

interface MergeConflict {
  readonly path: string;
  /** Git's name of the kind: "contents", "modify/delete", "binary", "file/directory" and so on. */
  readonly kind: string;
}

type MergeResult =
  | { readonly status: "merged"; readonly commit: string; readonly tree: string }
  | {
      readonly status: "conflicts";
      readonly conflicts: readonly MergeConflict[];
      /** The merged files, with conflict markers. */
      readonly tree: string;
    };

const MERGE_MINOR_MIN = 38;
const CONFLICTS = 1;

/** Merges the snapshot `theirs` into `ours`, both made from `base`; a clean result gets the ref. */
export async function mergeSnapshots(
  store: SnapshotStore,
  options: {
    readonly base: string;
    readonly ours: string;
    readonly theirs: string;
    readonly ref: string;
    readonly message: string;
    /** The time of the commit, in milliseconds since 1970. */
    readonly at: number;
  },
): Promise<MergeResult> {
  await needMergeTree();
  const base = await readSnapshot(store, options.base);
  const ours = await readSnapshot(store, options.ours);
  const theirs = await readSnapshot(store, options.theirs);
  // Git searches the base among the ancestors, so each of the three trees gets a new commit.
  const root = await bareCommit(store, base.tree, []);
  const left = await bareCommit(store, ours.tree, [root]);
  const right = await bareCommit(store, theirs.tree, [root]);
  const call = { ...inStore(store), answers: [CONFLICTS] };
  const flags = ["--write-tree", "-z", "--messages"];
  const { exit, stdout } = await git(call, "merge-tree", ...flags, left, right);
  const [tree = "", ...rest] = splitNul(stdout);
  if (exit === CONFLICTS) return { status: "conflicts", conflicts: conflictsIn(rest), tree };
  const details = mergeDetails(base.details, ours.details, theirs.details);
  const parents = [options.ours, options.theirs];
  const { ref, message, at } = options;
  const commit = await commitTree(store, tree, details, { message, parents, at });
  failpoint("workspace.merge-written");
  await writeRefs(store, [{ ref, commit }]);
  failpoint("workspace.merge-named");
  return { status: "merged", commit, tree };
}

async function bareCommit(
  store: SnapshotStore,
  tree: string,
  parents: readonly string[],
): Promise<string> {
  return commitTree(store, tree, NO_DETAILS, { message: "merge", parents, at: 0 });
}

async function needMergeTree(): Promise<void> {
  if (await gitHas(MERGE_MINOR_MIN)) return;
  throw new WorkspaceError(
    "git-missing",
    "merging workspaces needs git 2.38 or newer",
    "install a newer git; or let the steps share one workspace",
  );
}

/** Conflicts by path, from the messages after the list of entries. */
function conflictsIn(items: readonly string[]): readonly MergeConflict[] {
  const end = items.indexOf("");
  const entries = end < 0 ? items : items.slice(0, end);
  const kinds = new Map<string, string>();
  const messages = end < 0 ? [] : items.slice(end + 1);
  for (let at = 0; at < messages.length; ) {
    const count = Number(messages[at]);
    const paths = messages.slice(at + 1, at + 1 + count);
    const kind = /^CONFLICT \((.*)\)$/.exec(messages[at + 1 + count] ?? "")?.[1];
    if (kind !== undefined) for (const path of paths) if (!kinds.has(path)) kinds.set(path, kind);
    at += count + 3;
  }
  const unmerged = entries.map((entry) => entry.slice(entry.indexOf("\t") + 1));
  const paths = [...new Set([...unmerged, ...kinds.keys()])];
  return paths.map((path) => ({ path: shownPath(path), kind: kinds.get(path) ?? "contents" }));
}

function mergeDetails(base: Details, ours: Details, theirs: Details): Details {
  const was = new Set(base.empties);
  const mine = new Set(ours.empties);
  const other = new Set(theirs.empties);
  const empties = [...new Set([...mine, ...other])]
    .filter((path) => (mine.has(path) && other.has(path)) || !was.has(path))
    .sort();
  const skipped = [
    ...new Map([...theirs.skipped, ...ours.skipped].map((one) => [one.path, one])).values(),
  ];
  return { ...ours, empties, skipped };
}
