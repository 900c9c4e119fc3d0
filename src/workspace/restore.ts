/**
 * Puts a snapshot back into a workspace.
 *
 * Owns: what is removed and written when, in an order that can be killed anywhere and run again.
 * Does not: keep what is overwritten; the caller takes a snapshot before, if it is to be kept.
 *
 * R4 Rules of what is ignored change last, and what may be removed is written down before the first
 *    change: a second try after a kill sees other rules and must not remove more than the first.
 */
import * as fs from "node:fs/promises";
import { failpoint } from "../util/failpoint.ts";
import { absent } from "./disk.ts";
import { writeFiles } from "./file-writer.ts";
import { headsOf, isNested } from "./nested.ts";
import { directoriesAbove, placeOf, type RawPath, shownPath } from "./raw-path.ts";
import { writeNote } from "./restore-note.ts";
import {
  changesTo,
  isRulesFile,
  planRestore,
  type RestorePlan,
  type ShownPlan,
  shownPlan,
} from "./restore-plan.ts";
import { readContent } from "./snapshot.ts";
import type { Workspace } from "./workspace.ts";
import { WorkspaceError } from "./workspace-error.ts";

export interface Restored extends ShownPlan {
  /** True when a snapshot taken now has the very same files. */
  readonly exact: boolean;
  /** Repositories in the workspace in which another commit is checked out than at the snapshot. */
  readonly nestedMoved: readonly {
    readonly path: string;
    readonly was: string | undefined;
    readonly now: string | undefined;
  }[];
}

const PATHS_SHOWN_MAX = 5;

/** Makes the workspace what it was at a snapshot; what it does is what planRestore says. */
export async function restoreSnapshot(workspace: Workspace, commit: string): Promise<Restored> {
  const plan = await planRestore(workspace, commit);
  if (plan.blocked.length > 0) throw blockedError(plan);
  await writeNote(workspace, { status: "open", commit, remove: plan.mayRemove });
  failpoint("workspace.restore-planned");
  const rulesLast = (a: RawPath, b: RawPath): number =>
    Number(isRulesFile(a)) - Number(isRulesFile(b));
  const remove = plan.remove.toSorted(rulesLast);
  const write = plan.write.toSorted((a, b) => rulesLast(a.path, b.path));
  for (const path of remove.filter((one) => !isRulesFile(one))) await removeFile(workspace, path);
  await removeEmpties(workspace, plan);
  await writeFiles(workspace, write);
  for (const path of remove.filter(isRulesFile)) await removeFile(workspace, path);
  await removeEmpties(workspace, plan);
  await makeEmpties(workspace, plan);
  failpoint("workspace.restore-written");
  const after = await readContent(workspace);
  const { gone: spared } = await changesTo(workspace.store, after.tree, plan.tree);
  await writeNote(workspace, { status: "done", spared });
  failpoint("workspace.restore-done");
  const sameEmpties = JSON.stringify(after.details.empties) === JSON.stringify(plan.was.empties);
  const shown = shownPlan(plan);
  return {
    ...shown,
    left: [...new Set([...shown.left, ...spared.map(shownPath)])],
    exact: after.tree === plan.tree && sameEmpties,
    nestedMoved: await nestedMoved(workspace, plan),
  };
}

async function removeFile(workspace: Workspace, path: RawPath): Promise<void> {
  await fs.unlink(placeOf(workspace.path, path)).catch(absent);
  failpoint("workspace.restore-removed");
  await removeBareAbove(workspace, path);
}

/** Removes the directories above a path that hold nothing any more. */
async function removeBareAbove(workspace: Workspace, path: RawPath): Promise<void> {
  for (const directory of directoriesAbove(path)) {
    if (!(await removeBare(workspace, directory))) return;
  }
}

async function removeBare(workspace: Workspace, directory: RawPath): Promise<boolean> {
  try {
    await fs.rmdir(placeOf(workspace.path, directory));
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return true;
    if (["ENOTEMPTY", "EEXIST", "ENOTDIR", "EBUSY"].includes(String(code))) return false;
    throw error;
  }
}

/** Empty directories of now that were none then: they may stand where a file belongs. */
async function removeEmpties(workspace: Workspace, { now, was }: RestorePlan): Promise<void> {
  const wanted = new Set(was.empties);
  for (const path of now.details.empties.filter((one) => !wanted.has(one))) {
    if (await removeBare(workspace, path)) await removeBareAbove(workspace, path);
  }
}

async function makeEmpties(workspace: Workspace, { was }: RestorePlan): Promise<void> {
  for (const path of was.empties) {
    await fs.mkdir(placeOf(workspace.path, path), { recursive: true });
    failpoint("workspace.restore-directory");
  }
}

async function nestedMoved(
  workspace: Workspace,
  { was, now }: RestorePlan,
): Promise<Restored["nestedMoved"]> {
  const all = new Set([...was.nested, ...now.details.nested].map(({ path }) => path));
  const there: RawPath[] = [];
  for (const path of all) if (await isNested(workspace, path)) there.push(path);
  const heads = await headsOf(
    workspace,
    there.map((path) => ({ path, indexFile: "" })),
  );
  const headNow = new Map(heads.map(({ path, head }) => [path, head]));
  const headThen = new Map(was.nested.map(({ path, head }) => [path, head]));
  return [...all]
    .map((path) => ({ path: shownPath(path), was: headThen.get(path), now: headNow.get(path) }))
    .filter((one) => one.was !== one.now);
}

function blockedError({ blocked }: RestorePlan): WorkspaceError {
  const names = blocked.slice(0, PATHS_SHOWN_MAX).map((path) => `'${shownPath(path)}'`);
  const more = blocked.length > names.length ? ` and ${blocked.length - names.length} more` : "";
  return new WorkspaceError(
    "blocked",
    `the snapshot has something else where ${names.join(", ")}${more} stand, which no snapshot holds`,
    "nothing has been changed; move them away",
  );
}
