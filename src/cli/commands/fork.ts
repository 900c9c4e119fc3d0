/**
 * `perdure fork`: a new run that has another one's past up to a point, and a future of its own.
 *
 * Owns: what is copied, and in which order it becomes durable.
 * Does not: start anything itself; `--run` resumes the new run.
 * Invariants:
 * - K4 Past, lineage and plan of a fork are one transaction: a kill leaves it whole or not at all. The
 *   refs that keep its snapshots stand before that, so that no cleaning of the other run takes them.
 */
import { randomUUID } from "node:crypto";
import { filesOption } from "../../app/back-files.ts";
import { fitInput, parseInput, refuseUnknownKeys, type TypedInput } from "../../app/input.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { advice, command, naming, Refusal } from "../../app/refusal.ts";
import { RunFiles } from "../../app/run-files.ts";
import { keepsFiles, openRunWorkspace } from "../../app/run-workspace.ts";
import { effectsOf } from "../../core/effect.ts";
import { EVENT_VERSION, type Recorded, type RunCreated, type RunForked } from "../../core/event.ts";
import { replay } from "../../core/evolve.ts";
import { parsePlace } from "../../core/place.ts";
import { stepOf } from "../../core/run.ts";
import { fullSummary } from "../../core/summary.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { Json } from "../../util/json.ts";
import { changeLines } from "../../view/back-plan.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { type ForkPoint, pointAfterLast, pointBefore } from "../../view/fork-point.ts";
import { savedBy } from "../../view/work-history.ts";
import { planRestore, shownPlan } from "../../workspace/restore-plan.ts";
import { listRefs, REFS, writeRefs } from "../../workspace/store.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

export interface ForkOptions extends OutputOptions, TypedInput {
  readonly at?: string;
  readonly run?: boolean;
  readonly files?: string;
  readonly dryRun?: boolean;
}

/** Makes a run of its own out of another one's past. */
export async function forkCommand(id: string, options: ForkOptions): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  if (known.cleanedAt !== undefined) {
    const message = `the files of run ${known.shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("run", known.run.created?.file || "FILE"));
  }
  const point = pointOf(known, options.at);
  const input = await inputOf(known, options);
  const restore = await restoreOf(project, known, point, options);
  const quiet = wantsJson(options) || options.quiet === true;
  const say = (line: string): void => (quiet ? undefined : print(line));
  for (const line of [...restore.lines, ...repeatLines(known, point)]) say(line);
  if (options.dryRun === true) return EXIT.done;
  const runId = randomUUID();
  if (keepsFiles(known)) await keepSnapshots(project, known, runId, point);
  failpoint("fork.refs-written");
  createFork(project, known, runId, { point, input, restore: restore.commit });
  failpoint("fork.created");
  const fork = loadRun(project, runId);
  RunFiles.open(fork.dir, fork.run, fork, fork.events).close(fork.run);
  if (wantsJson(options) && options.run !== true) {
    printJson({ run_id: runId, forked_from: known.id, sequence: point.seq });
  }
  say(`Run ${runId} was forked from ${known.shortId}, ${point.where}`);
  if (options.run !== true) {
    say(`Start it: perdure resume ${fork.shortId}`);
    return EXIT.done;
  }
  project.journal.close();
  const { resumeCommand } = await import("./resume.ts");
  return resumeCommand(runId, options);
}

function pointOf({ events, shortId }: KnownRun, at: string | undefined): ForkPoint {
  return naming(shortId, () =>
    at === undefined ? pointAfterLast(events) : pointBefore(events, parsePlace(at)),
  );
}

async function inputOf({ plan, run }: KnownRun, options: TypedInput): Promise<Json | undefined> {
  if (options.input === undefined && options.json === undefined) return undefined;
  const { inputSchema: schema } = plan;
  const file = run.created?.file || "FILE";
  const typed = parseInput(options, schema);
  refuseUnknownKeys(typed, schema, file);
  return fitInput(typed, schema, file);
}

/** What must not happen twice and happened after the point: the fork comes to it again. */
function repeatLines({ run, shortId }: KnownRun, { seq }: ForkPoint): readonly string[] {
  const later = [...run.effects.values()].filter(({ visit }) => (visit?.endSeq ?? seq + 1) > seq);
  return later.map(({ place, done, visit }) => {
    const probed = visit !== undefined && stepOf(visit).probe !== undefined;
    const happened = done === true ? "happened" : "may have happened";
    const asked = probed ? "its probe is" : "you are";
    return `once: ${place} ${happened} in run ${shortId}; ${asked} asked before it happens again`;
  });
}

interface Restore {
  readonly commit: string | undefined;
  readonly lines: readonly string[];
}

/** The files that the fork begins with; the user's own are put back only when that is asked for. */
async function restoreOf(
  project: Project,
  known: KnownRun,
  { commit, where }: ForkPoint,
  options: ForkOptions,
): Promise<Restore> {
  const given = filesOption(options.files);
  const here = known.plan.workspace?.kind === "here";
  if ((given ?? (here ? "keep" : "restore")) === "keep") {
    return { commit: undefined, lines: ["files: the fork goes on with those that are there"] };
  }
  if (!keepsFiles(known) || commit === undefined) {
    if (given === "restore") {
      throw new Refusal(
        "no-snapshots",
        `no snapshot of the files ${where} is kept`,
        advice("--files keep"),
      );
    }
    return { commit: undefined, lines: [`files: no snapshot of them ${where} is kept`] };
  }
  const line = `files: the fork begins with the snapshot ${where}`;
  if (!here) return { commit, lines: [`${line}, in a workspace of its own`] };
  const { workspace } = await openRunWorkspace(project, known);
  const changes = workspace && shownPlan(await planRestore(workspace, commit));
  const told = `${line}; what is there when it starts is set aside`;
  return { commit, lines: [told, ...(changes === undefined ? [] : changeLines(changes))] };
}

/** The snapshots of the common past get refs of the fork's own. */
async function keepSnapshots(
  project: Project,
  known: KnownRun,
  runId: string,
  point: ForkPoint,
): Promise<void> {
  const { store } = await openRunWorkspace(project, known);
  const wanted = new Set(
    known.events.slice(0, point.seq).flatMap(({ event }) => savedBy(event) ?? []),
  );
  if (point.commit !== undefined) wanted.add(point.commit);
  const there = await listRefs(store, `${REFS}${known.id}/`);
  const commits = new Set(there.map(({ commit }) => commit).filter((one) => wanted.has(one)));
  const refs = Array.from(commits, (commit) => ({
    ref: `${REFS}${runId}/forked/${commit}`,
    commit,
  }));
  if (refs.length > 0) await writeRefs(store, refs);
}

function createFork(
  { journal, dir }: Project,
  known: KnownRun,
  runId: string,
  given: { point: ForkPoint; input: Json | undefined; restore: string | undefined },
): void {
  const { events, planOf, planTexts, id } = known;
  const { point, input, restore } = given;
  const from = { run: id, seq: point.seq };
  const [first] = events;
  assert(first?.event.type === "run.created", "a run begins with its creation");
  const time = Date.now();
  const changed = input === undefined ? {} : { input };
  const effects = effectsOf(known.run);
  // The directory of the other run is that of the other run.
  const { logs: _, ...common } = first.event;
  const created: RunCreated = { ...common, ...changed, from };
  const forked: RunForked = {
    type: "run.forked",
    from,
    ...changed,
    ...(restore === undefined ? {} : { restore }),
    ...(effects.length === 0 ? {} : { effects }),
  };
  const version = EVENT_VERSION;
  const past: readonly Recorded[] = [
    ...events.slice(1, point.seq).map(withoutFacts),
    { seq: point.seq + 1, time, version, event: forked },
  ];
  const all = [{ seq: 1, time, version, event: created }, ...past];
  const places = workspaceOf(runDirOf(dir, runId));
  const summary = fullSummary(replay(planOf, runId, all), places);
  const planText = planTexts.get(created.fingerprint) ?? known.planText;
  journal.create({ runId, planText, created, time, past, summary });
}

/** The facts behind an event stay with the run that it happened in. */
function withoutFacts({ seq, time, version, event }: Recorded): Recorded {
  return { seq, time, version, event };
}
