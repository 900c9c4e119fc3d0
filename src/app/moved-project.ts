/**
 * A project whose directory is not where a run left it: somebody moved it, or this is a copy.
 *
 * Owns: noticing it, the paths of the run in the new place, and the event that says so.
 * Does not: repair worktrees (workspace/worktree-links.ts), or move files.
 * Invariants:
 * - M4 Whoever loads a run sees its paths below the project that it was loaded from, so nothing ever
 *   works on the files of the place where the run was before.
 * - M5 A run goes on in a copy only when a person says so, and while nothing of it lives anywhere.
 */
import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { RunMoved } from "../core/event.ts";
import { movedPath } from "../core/move.ts";
import type { Run } from "../core/run.ts";
import { type StateDir, stateDirOf } from "../engine/state-dir.ts";
import { JournalError, type Lease } from "../journal/journal.ts";
import { openSqliteJournal } from "../journal/sqlite.ts";
import { findMarked, runMarker } from "../runner/process/sweep.ts";
import { ownerText } from "./owner.ts";
import { livenessOf } from "./project.ts";
import { command, Refusal, when } from "./refusal.ts";

/** How the paths of a run change when its project is this one; undefined when they do not. */
export function moveTo(dir: StateDir, { created }: Run): RunMoved | undefined {
  if (created === undefined) return undefined;
  const to = dirname(dir.root);
  const from = created.project ?? oldProject(created.cwd, to);
  return from === to ? undefined : { type: "run.moved", from, to };
}

/** An older version did not record the project; most runs are started in its own directory. */
function oldProject(cwd: string, project: string): string {
  return movedPath({ from: project, to: "" }, cwd) === cwd ? cwd : project;
}

/** Refuses to go on in a copy of the project, unless a person wants that and the run is dead (M5). */
export function refuseCopy(
  dir: StateDir,
  run: { readonly id: string; readonly shortId: string; readonly moved?: RunMoved | undefined },
  asCopy: boolean,
): void {
  const { id, shortId, moved } = run;
  if (moved === undefined) return;
  const original = stateDirOf(moved.from);
  const lease = originalLease(original, dir, id);
  if (lease === "none") return;
  if (!asCopy) {
    const message = `this project is a copy of ${moved.from}, which has run ${shortId} as well`;
    const there = command("-C", moved.from, "resume", shortId);
    const here = when("to use the files here instead", "resume", shortId, "--as-copy");
    throw new Refusal("project-copied", message, [there, here]);
  }
  const [pid] = findMarked(runMarker(id));
  const owner =
    lease?.owner !== undefined && livenessOf(lease) === "owned" ? lease.owner : undefined;
  if (owner === undefined && pid === undefined) return;
  const who = owner === undefined ? `process ${pid} of it lives` : `owned by ${ownerText(owner)}`;
  const message = `run ${shortId} goes on in ${moved.from} (${who})`;
  throw new Refusal("run-owned", message, command("-C", moved.from, "stop", shortId));
}

/** The lease of a run in the project that this one was copied from, or that there is no such run. */
function originalLease(original: StateDir, dir: StateDir, id: string): Lease | undefined | "none" {
  if (!existsSync(original.database) || isSame(original.root, dir.root)) return "none";
  try {
    const journal = openSqliteJournal(original.database, { mode: "read-only" });
    try {
      return journal.resolve(id).includes(id) ? journal.leaseOf(id) : "none";
    } finally {
      journal.close();
    }
  } catch (error) {
    // What cannot be read may hold the run.
    if (error instanceof JournalError) return undefined;
    throw error;
  }
}

/** One directory under two names: a mount, or a link. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [statSync(one), statSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}
