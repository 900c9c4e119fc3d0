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
import { git } from "../git.ts";
import { WorkspaceError } from "../workspace-error.ts";
import {
  HEAD_REFS,
  inStoreAndProject,
  linkProject,
  listRefs,
  REFS,
  type SnapshotRef,
  type SnapshotStore,
  withRefs,
  writeRefs,
} from "./store.ts";

/** Writes the snapshots under these refs, and the commits that they need except `without`. */
export async function writeBundle(
  store: SnapshotStore,
  options: {
    /** Refs of snapshots, or the beginnings of their names. */
    readonly refs: readonly string[];
    readonly file: string;
    /** Commits that the other machine already has. */
    readonly without?: readonly string[];
  },
): Promise<readonly SnapshotRef[]> {
  const refs = (await Promise.all(options.refs.map((one) => listRefs(store, one)))).flat();
  if (refs.length === 0) {
    throw new WorkspaceError(
      "snapshot-missing",
      `there are no snapshots under ${options.refs.join(", ")}`,
      "choose a run that has checkpoints",
    );
  }
  const file = resolve(options.file);
  const made = `${file}.${process.pid}.new`;
  const input = [
    ...refs.map(({ ref }) => ref),
    // Their trees as well: they are not parents of the snapshots, and git compares only those.
    ...(options.without ?? []).flatMap((commit) => [`^${commit}`, `^${commit}^{tree}`]),
  ];
  await withRefs(inStoreAndProject(store), refs, async (named) => {
    const call = { ...named, input: `${input.join("\n")}\n` };
    await git(call, "bundle", "create", "--quiet", made, "--stdin");
    await git(call, "bundle", "verify", "--quiet", made);
  });
  await flush(made);
  failpoint("workspace.bundle-written");
  await rename(made, file);
  await flush(dirname(file));
  return refs;
}

/** Imports the snapshots of a bundle into the store; refs with the same names are replaced. */
export async function readBundle(
  store: SnapshotStore,
  file: string,
): Promise<readonly SnapshotRef[]> {
  // A bundle without its base needs commits of the project, which the store must have, too.
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
