/** `perdure restore`: takes the files of a checkpoint back, into the run's workspace or elsewhere. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { unavailable } from "../../app/available-run.ts";
import { execute } from "../../app/execute.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, type Next, naming, Refusal } from "../../app/refusal.ts";
import { openRunWorkspace } from "../../app/run-workspace.ts";
import { NO_DISPLAY } from "../../app/screen.ts";
import { changeLines } from "../../view/back-plan.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { type Point, pointNamed } from "../../view/point.ts";
import { restoreSnapshot } from "../../workspace/restore.ts";
import { planRestore, shownPlan } from "../../workspace/restore-plan.ts";
import type { SnapshotStore } from "../../workspace/store.ts";
import { openWorkspace } from "../../workspace/workspace.ts";
import { print } from "../print.ts";
import { sayOutcome } from "./back.ts";

export interface RestoreOptions {
  readonly into?: string;
  readonly yes?: boolean;
}

/** Takes the files of a step, a visit, an attempt or a snapshot back. */
export async function restoreCommand(
  id: string,
  name: string,
  options: RestoreOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const { commit } = pointOf(known, name);
  if (commit === undefined) {
    throw new Refusal("impossible", `the files of "${name}" are those that are there already`);
  }
  if (options.into !== undefined) {
    const { store } = await openRunWorkspace(project, known);
    const next = command("restore", known.shortId, name, "--into", "NEW-DIR");
    return restoreInto(store, commit, { path: resolve(options.into), next });
  }
  return restoreHere(project, known, { name, commit }, options.yes === true);
}

function pointOf({ events, shortId }: KnownRun, name: string): Point {
  return naming(shortId, () => pointNamed(events, name));
}

/** Into an empty directory: nothing there can be overwritten. */
async function restoreInto(
  store: SnapshotStore,
  commit: string,
  { path, next }: { readonly path: string; readonly next: Next },
): Promise<ExitCode> {
  if (existsSync(path) && readdirSync(path).length > 0) {
    throw new Refusal("not-empty", `${path} is not empty`, next);
  }
  mkdirSync(path, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), "perdure-restore-"));
  try {
    const workspace = await openWorkspace(store, { path, indexFile: join(scratch, "index") });
    await restoreSnapshot(workspace, commit);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  print(`restored into ${path}`);
  return EXIT.done;
}

/** Into the run's own workspace, by its engine: what is there is set aside and journalled. */
async function restoreHere(
  project: Project,
  known: KnownRun,
  { name, commit }: { name: string; commit: string },
  sure: boolean,
): Promise<ExitCode> {
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  const { workspace } = await openRunWorkspace(project, known);
  const changes = workspace && shownPlan(await planRestore(workspace, commit));
  const lines = changes === undefined ? [] : changeLines(changes);
  for (const line of lines) print(line);
  if (changes !== undefined && lines.length === 0) {
    print(`The files are those of ${name} already.`);
    return EXIT.done;
  }
  if (known.plan.workspace?.kind === "here" && !sure) {
    throw new Refusal(
      "not-confirmed",
      "these are your own files; nothing was changed",
      command("restore", known.shortId, name, "--yes"),
    );
  }
  const { known: after, endedBy } = await execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: "perdure restore",
    wishes: async () => [{ type: "restore-requested", commit, of: name }],
  });
  sayOutcome(project, known);
  return endedBy === undefined ? EXIT.done : exitCodeOf(after.run, endedBy);
}
