/**
 * Results of earlier runs, for steps with `cache`. The executor looks for one by the key of the attempt's
 * work: a hash of everything that its result depends on, as far as Perdure knows it. Two attempts with
 * the same key do the same work on the same files. `reuseResult` puts a result into the workspace in
 * place of a process.
 *
 * Owns: what counts for the key (docs/adr/0050-reuse.md), the version of that choice, whether an earlier
 *   result is whole and fits the files, and making its changes path by path.
 * Does not: decide when a result is looked for or taken (core/attempt/reuse.ts). The key takes the files
 *   from a snapshot.
 * Invariants:
 * - results/T1 Everything that a reported result names was read and compared with its hash, and is
 *   named in the store for this run, so that a clean of the earlier run does not remove it.
 * - results/T2 A damaged result is not used, and is named.
 * - results/K1 No secret is part of a key: its value is masked before anything is hashed, so that
 *   nobody can confirm a guess, and a new token does not run a step again.
 * - results/K2 Whatever is not known to be the same makes another key. The id of the run and the
 *   directories of its workspace are the only values of a run that do not count.
 * - results/X1 Making the same changes again changes nothing, so a kill needs no record beside the event
 *   that names the result.
 * - results/X2 A path that somebody changed meanwhile stays as it is; then the other paths are put back,
 *   and the step runs.
 */
import { isAbsolute, join, relative, resolve } from "node:path";
import type { OperationOf } from "../../core/action.ts";
import { findingsIn } from "../../core/attempt/check.ts";
import type {
  AttemptRef,
  EventOf,
  FoundResult,
  Output,
  RejectedResult,
  Saved,
} from "../../core/event.ts";
import type { FactOf } from "../../core/fact.ts";
import { enclosingVisits, findVisit, stepOf, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { repetitionOf } from "../../core/values.ts";
import type { ResultIndex, StoredResult } from "../../journal/run-log.ts";
import { workDefinition } from "../../plan/fingerprint.ts";
import { ancestorsOf, graphsIn } from "../../plan/graph-index.ts";
import { checksOf, type Step } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { formatBytes } from "../../util/bytes.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { canonicalJson, type Json, sha256 } from "../../util/json.ts";
import { redactJson, redactorOf } from "../../util/secrets.ts";
import { renderShell } from "../../util/shell.ts";
import { renderText } from "../../util/template.ts";
import {
  artifactPath,
  describeFile,
  putArtifact,
  targetOutside,
} from "../../workspace/artifact.ts";
import { applyChanges } from "../../workspace/snapshot/apply.ts";
import {
  changedUnsaved,
  hashFiles,
  misfits,
  readChange,
} from "../../workspace/snapshot/recorded-change.ts";
import { type SnapshotStore, writeRefs } from "../../workspace/snapshot/store.ts";
import type { Workspace } from "../../workspace/snapshot/workspace.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { secretsOf } from "../evidence/evidence.ts";
import {
  earlierOutputs,
  evaluatorAt,
  isStepMistake,
  type LaunchInput,
  outputPaths,
  rootOf,
  variablesOf,
  workDirOf,
} from "../launch.ts";
import { snapshotRef } from "../run-workspace.ts";
import type { Executor, FactWriter } from "./executor.ts";

/** How many results with the same key are judged, the newest first. */
const CANDIDATES_MAX = 5;
/** Larger results are not reused, unless the configuration says otherwise. */
const BYTES_MAX = 1024 ** 3;
/** How many paths a message names. */
const PATHS_SHOWN_MAX = 5;

interface ResultOptions {
  readonly site: () => LaunchInput;
  readonly store: SnapshotStore;
  /** Absent: the runs of a fleet share no results. */
  readonly index: ResultIndex | undefined;
}

type Recalled = Omit<FactOf<"recalled">, "type" | "at">;
type Rejection = Pick<RejectedResult, "why" | "message">;

/** The results executor of one run, for one owner. */
export class ResultExecutor implements Executor<"recall"> {
  readonly #options: ResultOptions;
  readonly #underWay = new Set<Promise<void>>();
  #closed = false;

  constructor(options: ResultOptions) {
    this.#options = options;
  }

  begin(operation: OperationOf<"recall">, writer: FactWriter): void {
    const { at } = operation;
    const work = this.#recall(operation).then(
      (recalled) => {
        this.#underWay.delete(work);
        failpoint("reuse.recalled");
        if (!this.#closed) writer.post({ type: "recalled", at, ...recalled });
      },
      (error: unknown) => {
        this.#underWay.delete(work);
        if (!this.#closed) writer.fail(error);
      },
    );
    this.#underWay.add(work);
  }

  /** Waits for the lookups under way; their results are not reported. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#underWay);
  }

  async #recall({ at, base, take, since }: OperationOf<"recall">): Promise<Recalled> {
    const { store, index } = this.#options;
    const site = this.#options.site();
    const visit = findVisit(site.run, at);
    assert(visit !== undefined, `no visit ${attemptText(at)}`);
    const except = valueIfKnown(() => productsOf(site, visit));
    // The launch reports the fault of an expression.
    if (except === undefined) return {};
    const files = await hashFiles(store, base, { patterns: stepOf(visit).cache?.files, except });
    const key = valueIfKnown(() => workKey(site, visit, files.ok ? files.hash : ""));
    if (key === undefined) return {};
    if (!files.ok) return { key, why: "left-out" };
    if (index === undefined) return { key, why: "fleet" };
    if (!take) return { key, why: "off" };
    const others = await index.withKey(key, { since, limit: CANDIDATES_MAX, but: site.run.id });
    const rejected: RejectedResult[] = [];
    for (const one of others) {
      const { runId: run, event } = one;
      const judged = await this.#judge(site, visit, base, one);
      const named = rejected.length === 0 ? {} : { rejected };
      if (!("why" in judged)) {
        await this.#keep(at, judged);
        return { key, found: judged, ...named };
      }
      rejected.push({ run, attempt: attemptText(event), ...judged });
    }
    return rejected.length === 0 ? { key, why: "none" } : { key, why: "rejected", rejected };
  }

  /** The result that can be taken, or why it cannot. */
  async #judge(
    site: LaunchInput,
    visit: Visit,
    now: string,
    { runId, time, event }: StoredResult,
  ): Promise<FoundResult | Rejection> {
    const { store } = this.#options;
    const { base, after, spent } = event.reusable;
    const bytesMax = site.plan.cache?.bytesMax ?? BYTES_MAX;
    const kept = await outputBytes(site, event.outputs);
    if (typeof kept === "string") return { why: "damaged", message: kept };
    try {
      const change = await readChange(store, { base, after });
      if ("problem" in change) return { why: "damaged", message: change.problem };
      const bytes = change.bytes + kept;
      if (bytes > bytesMax) {
        const message = `it has ${formatBytes(bytes)}, more than ${formatBytes(bytesMax)}`;
        return { why: "size", message };
      }
      const paths = await misfits(store, change, now);
      if (paths.length > 0) {
        const shown = paths.slice(0, PATHS_SHOWN_MAX).join(", ");
        return { why: "files", message: `it changes files that differ here: ${shown}` };
      }
    } catch (error) {
      if (!(error instanceof WorkspaceError)) throw error;
      return { why: "damaged", message: error.message };
    }
    const from = event.from ?? {
      run: runId,
      attempt: attemptText(event),
      time,
      ...defined({ spent }),
    };
    const paths = outputPaths(site, visit);
    const outputs = Object.entries<Output>(event.outputs).map(
      ([name, output]) => [name, { ...output, path: paths[name] ?? output.path }] as const,
    );
    const { exit, context, answer, output, reported, exposes } = event;
    const words = { ...defined({ answer, output, reported }), ...findingsIn(event) };
    const held = { exit, context, outputs: Object.fromEntries(outputs), ...words };
    return { from, held, ...defined({ exposes }), base, after };
  }

  /** Names the snapshots of a result for this run (results/T1). */
  async #keep(at: AttemptRef, { base, after }: FoundResult): Promise<void> {
    const { id } = this.#options.site().run;
    const named = { reused: after, "reused-base": base };
    const refs = Object.entries(named).map(([when, commit]) => {
      return { ref: snapshotRef(id, at, when), commit };
    });
    await writeRefs(this.#options.store, refs);
    failpoint("reuse.kept");
  }
}

/** A value; undefined when an expression in it fails. */
function valueIfKnown<T>(value: () => T): T | undefined {
  try {
    return value();
  } catch (error) {
    if (isStepMistake(error)) return undefined;
    throw error;
  }
}

/** The bytes of the kept copies of outputs, or what is wrong with one. */
async function outputBytes(
  { dir }: LaunchInput,
  outputs: EventOf<"step.completed">["outputs"],
): Promise<number | string> {
  let sum = 0;
  for (const [name, { sha256, bytes }] of Object.entries<Output>(outputs)) {
    const copy = await describeFile(artifactPath(dir.artifacts, sha256));
    if (copy?.sha256 !== sha256) {
      return `the kept copy of its output "${name}" is ${copy === undefined ? "missing" : "damaged"}`;
    }
    sum += bytes;
  }
  return sum;
}

/** The version of the choice; a new one makes all earlier results unknown. */
const KEY_VERSION = 1;

/** The key of the work of a visit; throws ExpressionError or TemplateError. */
function workKey(site: LaunchInput, visit: Visit, filesHash: string): string {
  const { plan } = site;
  const step = stepOf(visit);
  const { work } = step;
  const evaluate = evaluatorAt(site, visit);
  const agent = work.kind === "agent" ? plan.agents[work.agent] : undefined;
  const checks = checksOf(step).flatMap((check) =>
    check.kind === "command" ? [renderShell(check.run, evaluate)] : [],
  );
  const { item, loop_index: iteration } = repetitionOf(visit.record.scope);
  const whole = {
    definition: workDefinition(plan, step),
    agent,
    asked: {
      run: work.kind === "shell" ? renderShell(work.run, evaluate) : undefined,
      prompt: work.kind === "agent" ? renderText(work.prompt, evaluate) : undefined,
      preamble: visit.briefing?.preamble,
      command: renderShell(agent?.command ?? "", evaluate),
      checks,
      key: renderText(step.cache?.key ?? "", evaluate),
    },
    env: variablesOf(site, visit),
    cwd: workDirOf(site, visit),
    outputs: outputPaths(site, visit),
    before: Object.fromEntries(
      Array.from(earlierOutputs(visit), ([name, { sha256: hash }]) => [name, hash]),
    ),
    repetition: { item, iteration, visit: visit.number },
    files: filesHash,
    platform: `${process.platform} ${process.arch}`,
  };
  const hidden = redactJson(redactorOf(secretsOf(site).flatMap(({ texts }) => texts)), whole);
  const json = canonicalJson(JSON.parse(JSON.stringify(hidden)) as Json);
  return sha256(`${KEY_VERSION}\n${withoutPlaces(site, visit, json)}`);
}

/**
 * The outputs of the step and of the steps that are not before it, below its workspace: they are
 * products of earlier runs, and the work does not start from them. Outputs of steps before it count.
 */
function productsOf(site: LaunchInput, visit: Visit): readonly string[] {
  const root = rootOf(site, visit);
  const found = new Set(Object.values(outputPaths(site, visit)));
  for (const { record } of [visit, ...enclosingVisits(visit)]) {
    const { scope, position } = record;
    const before = new Set(ancestorsOf(scope.graph, position, Number.POSITIVE_INFINITY));
    const others = scope.graph.steps.filter((_, index) => !before.has(index));
    for (const path of others.flatMap(plainOutputs)) found.add(resolve(root, path));
  }
  const within = [...found].map((path) => relative(root, path));
  return within.filter((path) => !path.startsWith("..") && !isAbsolute(path)).sort();
}

/** The paths of the outputs of a step and of the steps in it, where no expression decides them. */
function plainOutputs({ outputs, cwd = ".", work }: Step): readonly string[] {
  const own = Object.values(outputs).map((path) => join(cwd, path));
  const inner = graphsIn(work).flatMap(({ steps }) => steps.flatMap(plainOutputs));
  return [...own.filter((path) => !path.includes("${{")), ...inner];
}

/** The text with the same word for the directories of every run. */
function withoutPlaces(site: LaunchInput, visit: Visit, text: string): string {
  const inJson = (path: string): string => JSON.stringify(path).slice(1, -1);
  const shared = site.run.workspace?.path ?? site.run.created?.cwd ?? ".";
  return [rootOf(site, visit), shared, site.dir.root]
    .sort((one, other) => other.length - one.length)
    .reduce((at, place) => at.replaceAll(inJson(place), "<workspace>"), text);
}

/**
 * Makes the changes of a result in a workspace that was as in the snapshot `start`; returns why the result
 * was not taken, if it was not.
 */
export async function reuseResult(
  place: Workspace,
  { base, after, held }: FoundResult,
  { start, artifacts }: { readonly start: string; readonly artifacts: string },
): Promise<Pick<FactOf<"reused">, "problem">> {
  failpoint("reuse.begun");
  const { changedMeanwhile } = await applyChanges(place, { from: base, to: after });
  failpoint("reuse.files");
  let problem: FactOf<"reused">["problem"];
  if (changedMeanwhile.length > 0) {
    const shown = changedMeanwhile.slice(0, PATHS_SHOWN_MAX).join(", ");
    problem = { why: "changed", message: `somebody changed these files meanwhile: ${shown}` };
  }
  for (const [name, output] of Object.entries(held.outputs)) {
    if (problem !== undefined) break;
    if ((await describeFile(output.path))?.sha256 === output.sha256) continue;
    const outside = targetOutside([place.path], output.path);
    const isPut = outside === undefined && (await putArtifact(artifacts, output, output.path));
    if (isPut) continue;
    const message = `its output "${name}" cannot be put at ${output.path}`;
    problem = { why: "damaged", message };
  }
  if (problem !== undefined) await applyChanges(place, { from: after, to: start });
  failpoint("reuse.taken");
  return defined({ problem });
}

/** The files that ended steps with `cache` changed and that the snapshot after them does not hold. */
export async function unsavedOf(
  site: LaunchInput,
  ended: readonly AttemptRef[],
  place: Workspace,
  { skipped = [] }: Saved,
): Promise<readonly string[]> {
  const found = new Set<string>();
  for (const at of ended) {
    const visit = findVisit(site.run, at);
    const settings = visit && stepOf(visit).cache;
    if (visit?.recall?.key === undefined || settings === undefined) continue;
    // The snapshots and outputs of a result that was taken hold all its changes.
    if (settings.dropsIgnored === true || visit.recall.found !== undefined) continue;
    const search = {
      since: visit.startedAt ?? 0,
      skipped: skipped.map(({ path }) => path),
      // Its outputs are kept beside the snapshots.
      except: Object.values(outputPaths(site, visit)),
    };
    for (const path of await changedUnsaved(place, search)) found.add(path);
  }
  return [...found];
}
