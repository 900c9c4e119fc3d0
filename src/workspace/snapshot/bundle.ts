/**
 * Snapshots as one file that can be moved to another machine.
 *
 * Owns: writing, checking and reading git bundles of snapshots.
 * Does not: contain anything but commits; the export contains the journal and its files.
 */
import { rename } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { failpoint } from "../../util/failpoint.ts";
import { flush } from "../disk.ts";
import { git, gitFailure } from "../git.ts";
import { WorkspaceError } from "../workspace-error.ts";
import {
  HEAD_REFS,
  inStoreAndProject,
  linkProject,
  REFS,
  type SnapshotRef,
  type SnapshotStore,
  withRefs,
  writeRefs,
} from "./store.ts";

/** Git's words for a bundle in which nothing would be. */
const EMPTY = /empty bundle/;

/**
 * Writes snapshots, and the commits that they need except `without`. False when nothing is left to
 * write: the other machine has everything.
 */
export async function writeBundle(
  store: SnapshotStore,
  options: {
    readonly refs: readonly SnapshotRef[];
    readonly file: string;
    /** Commits that the other machine already has. */
    readonly without?: readonly string[];
  },
): Promise<boolean> {
  const { refs, without = [] } = options;
  const file = resolve(options.file);
  const made = `${file}.${process.pid}.new`;
  const input = [
    ...refs.map(({ ref }) => ref),
    // Their trees as well: they are not parents of the snapshots, and git compares only those.
    ...without.flatMap((commit) => [`^${commit}`, `^${commit}^{tree}`]),
  ];
  let isEmpty = false;
  await withRefs(inStoreAndProject(store), refs, async (named) => {
    const call = { ...named, input: `${input.join("\n")}\n`, answers: [128] };
    const args = ["bundle", "create", "--quiet", made, "--stdin"];
    const result = await git(call, ...args);
    isEmpty = result.exit !== 0 && EMPTY.test(result.stderr);
    if (result.exit !== 0 && !isEmpty) throw gitFailure(call, args, result);
    if (!isEmpty) await git(named, "bundle", "verify", "--quiet", made);
  });
  if (isEmpty) return false;
  await flush(made);
  failpoint("workspace.bundle-written");
  await rename(made, file);
  await flush(dirname(file));
  return true;
}

/** Imports the snapshots of a bundle into the store; refs with the same names are replaced. */
export async function readBundle(
  store: SnapshotStore,
  file: string,
): Promise<readonly SnapshotRef[]> {
  // A bundle without its base needs commits of the project, which the store must have as well.
  await linkProject(store);
  const call = { ...inStoreAndProject(store), answers: [1, 128] };
  const path = resolve(file);
  const checked = await git(call, "bundle", "verify", "--quiet", path);
  const taken = checked.exit === 0 ? await git(call, "bundle", "unbundle", path) : checked;
  if (taken.exit !== 0) {
    throw new WorkspaceError(
      "bundle-broken",
      `${file} cannot be taken in: ${taken.stderr.trim()}`,
      "export the run again, or fetch the commits that it names first",
    );
  }
  failpoint("workspace.bundle-read");
  const refs = taken.stdout
    .toString("utf8")
    .split("\n")
    .map((line) => ({ commit: line.split(" ")[0] ?? "", ref: line.slice(line.indexOf(" ") + 1) }))
    .filter(({ ref }) => ref.startsWith(REFS) || ref.startsWith(HEAD_REFS));
  await writeRefs(store, refs);
  return refs;
}
