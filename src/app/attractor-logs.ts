/**
 * `--logs DIR`: the run directory of the DOT language. A run writes it as a second projection of the
 * journal, next to its own files. A person can resume a run by such a directory; a directory of another
 * engine gives a new run that continues where that engine stopped.
 *
 * Owns: the files in the directory, and finding the run that a directory belongs to.
 * Does not: know the content of the files (view/json/attractor-log.ts), or drive the run.
 * Invariants:
 * - attractor-logs/J5 Every file here can be rebuilt from the events and the attempts' folders.
 * - attractor-logs/O1 A file appears by rename, complete.
 */
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { Recorded, StepReport, VisitEnd } from "../core/event.ts";
import { findVisit, type Run, stepOf, type Visit } from "../core/run.ts";
import { evaluateIn } from "../core/values.ts";
import { nodeFolder, restartFolder } from "../engine/attractor-stage.ts";
import { readStatus, STATUS_FILE } from "../engine/evidence/status-file.ts";
import { attemptDirOf, PROMPT_FILE, type RunDir } from "../engine/state-dir.ts";
import { envNamesOf } from "../plan/build.ts";
import type { AttractorCheckpoint, Plan, PlanReading } from "../plan/plan.ts";
import { textOf } from "../runner/file-text.ts";
import { defined } from "../util/defined.ts";
import { failpoint } from "../util/failpoint.ts";
import { isObject, type JsonObject, parseJson } from "../util/json.ts";
import { renderText } from "../util/template.ts";
import {
  AttractorLog,
  AttractorProgress,
  attemptOfEnd,
  statusJson,
} from "../view/json/attractor-log.ts";
import { loadRun } from "./loaded-run.ts";
import { type ReadPlan, requirePlan } from "./pipeline/pipeline-file.ts";
import { createProject, openLocalProject, type Project } from "./project/project.ts";
import { advice, command, Refusal, when } from "./refusal.ts";
import { checkEnvironment, createRun } from "./start.ts";

/** A copy of the other engine's checkpoint, which Perdure's checkpoint replaces. */
const KEPT_FILE = "checkpoint.before.json";

export interface LogsRun {
  readonly project: Project;
  readonly runId: string;
  /** The pipeline file, with its warnings. */
  readonly read?: ReadPlan;
}

/**
 * The run that writes to a directory. `file`, if given, must be its pipeline; `reading` says how to read
 * it when the run continues that of another engine.
 */
export async function runOfLogs(
  given: string,
  file: string | undefined,
  reading: PlanReading,
): Promise<LogsRun> {
  const logs = resolve(given);
  const path = join(logs, "checkpoint.json");
  const text = textOf(path);
  const again = command("run", file ?? "FILE", "--logs", relative(process.cwd(), logs) || ".");
  const manifest = jsonIn(textOf(join(logs, "manifest.json")));
  const { run_id: runId, project } = { ...objectOr(manifest), ...ownPart(text) };
  if (text === undefined && (typeof runId !== "string" || typeof project !== "string")) {
    throw new Refusal(
      "missing-file",
      `there is no checkpoint in ${given}: ${path} is missing`,
      again,
    );
  }
  if (typeof runId !== "string" || typeof project !== "string") {
    const continuesFrom = stoppedAt(logs, jsonIn(text));
    if (continuesFrom !== undefined && file !== undefined)
      return continueOtherEngine(logs, file, { ...reading, continuesFrom });
    const message = `${path} was not written by perdure: it names no run`;
    throw new Refusal(
      "bad-logs-directory",
      continuesFrom === undefined ? `${message}, and no node at which one stopped` : message,
      continuesFrom === undefined
        ? when("start a new run without --logs", "run", file ?? "FILE")
        : when(`continue after \`${continuesFrom.node}\``, "resume", "--logs", given, "FILE.dot"),
    );
  }
  if (!existsSync(join(project, "state.db"))) {
    const message = `run ${runId} of ${given} no longer exists: there is no state in ${project}`;
    throw new Refusal("bad-logs-directory", message, again);
  }
  const opened = await openLocalProject(dirname(project), "read-write");
  if (!(await opened.journal.log.resolve(runId)).includes(runId)) {
    const message = `run ${runId} of ${given} is no longer in ${project}`;
    throw new Refusal("bad-logs-directory", message, again);
  }
  await refuseOtherFile(opened, runId, file);
  const [option] = Object.keys(reading);
  if (option !== undefined) {
    const word = option === "handlers" ? "handler" : option;
    const message = `--${word}: run ${runId.slice(0, 8)} keeps how its file was read at its start`;
    throw new Refusal("bad-option", message, command("resume", "--logs", given));
  }
  return { project: opened, runId };
}

/**
 * Moves the directory of a completed run aside, and returns its new name. Refuses one that holds the
 * checkpoint of an unfinished run: a new run would overwrite it.
 */
export function freeLogs(given: string): string | undefined {
  const logs = resolve(given);
  const text = textOf(join(logs, "checkpoint.json"));
  if (text === undefined) return undefined;
  const { run_id: runId, status } = ownPart(text);
  if (status === "completed" && typeof runId === "string") {
    const aside = freeName(`${logs}.${runId.slice(0, 8)}`);
    renameSync(logs, aside);
    return relative(process.cwd(), aside);
  }
  const state = status === "failed" ? "has failed" : "is unfinished";
  const what = typeof runId === "string" ? `run ${runId}, which ${state}` : "another engine's run";
  // `why` knows whether a failed run needs `resume` or `retry`.
  const next =
    typeof runId === "string"
      ? status === "failed"
        ? command("why", runId)
        : command("resume", "--logs", given)
      : advice("name another directory");
  throw new Refusal("logs-directory-used", `${given} holds the checkpoint of ${what}`, next);
}

/** The path, with the first number that makes it new if it exists. */
function freeName(path: string): string {
  let name = path;
  for (let number = 2; existsSync(name); number++) name = `${path}.${number}`;
  return name;
}

async function refuseOtherFile(
  { journal }: Project,
  runId: string,
  file: string | undefined,
): Promise<void> {
  if (file === undefined) return;
  const [run] = (await journal.log.list({ file: resolve(file) })).filter(
    (one) => one.runId === runId,
  );
  if (run !== undefined) return;
  const message = `run ${runId} is not a run of ${file}`;
  throw new Refusal("wrong-pipeline", message, command("show", runId.slice(0, 8)));
}

/** The part of a checkpoint that Perdure adds to the fields of the language. */
function ownPart(text: string | undefined): JsonObject {
  return objectOr(objectOr(jsonIn(text)).perdure);
}

/** The value if it is an object, or an empty one. */
function objectOr(value: unknown): JsonObject {
  return isObject(value) ? (value as JsonObject) : {};
}

/** The JSON in a text; undefined if it is none. */
function jsonIn(text = ""): unknown {
  const parsed = parseJson(text);
  return parsed.ok ? parsed.json : undefined;
}

/** The node where another engine stopped; undefined when its checkpoint does not say. */
function stoppedAt(logs: string, checkpoint: unknown): AttractorCheckpoint | undefined {
  if (!isObject(checkpoint)) return undefined;
  // Some engines write the names of the specification in camel case.
  const node = checkpoint.current_node ?? checkpoint.currentNode;
  const completed = checkpoint.completed_nodes ?? checkpoint.completedNodes;
  const context = checkpoint.context ?? checkpoint.contextValues ?? checkpoint.context_values ?? {};
  if (typeof node !== "string" || !Array.isArray(completed) || !isObject(context)) return undefined;
  const names = completed.filter((name): name is string => typeof name === "string");
  const known = context as JsonObject;
  const reported = reportedBy(logs, node);
  // Without the node's own report, the label that the context remembers is the best guess.
  const remembered = known.preferred_label;
  const label =
    reported === undefined && typeof remembered === "string" && remembered !== ""
      ? { label: remembered }
      : defined({ label: reported?.label, next: reported?.next });
  const outcome = reported?.outcome === undefined ? {} : { outcome: reported.outcome };
  return { node, completed: names, context: { ...known, ...outcome }, ...label };
}

/** The report of a node in the directory of another engine. */
function reportedBy(logs: string, node: string): StepReport | undefined {
  // A name with a slash would lead out of the directory.
  if (node.includes("/") || !existsSync(join(logs, node, STATUS_FILE))) return undefined;
  const status = readStatus(join(logs, node, STATUS_FILE));
  return status.ok ? status.reported : undefined;
}

/** The run that continues from that checkpoint: a new one, unless an earlier command created it. */
async function continueOtherEngine(
  logs: string,
  file: string,
  reading: PlanReading,
): Promise<LogsRun> {
  const path = resolve(file);
  const read = await requirePlan(path, ["run", file], reading);
  const { plan, sha256: fileSha256 } = read;
  checkEnvironment(envNamesOf(plan), ["resume", "--logs", logs, file]);
  const project = await createProject(process.cwd());
  for (const { runId, cleanedAt } of await project.journal.log.list({ file: path })) {
    if (cleanedAt !== undefined) continue;
    const { run, plan: known } = await loadRun(project, runId);
    const isSame = run.created?.logs === logs && known.reading?.continuesFrom !== undefined;
    if (isSame) return { project, runId, read };
  }
  copyFileSync(join(logs, "checkpoint.json"), join(logs, KEPT_FILE));
  const runId = await createRun(project, plan, {
    file: path,
    fileSha256,
    input: null,
    args: process.argv.slice(2),
    cwd: process.cwd(),
    logs,
  });
  return { project, runId, read };
}

const RESPONSE_FILE = "response.md";
const PROGRESS_FILE = "progress.ndjson";
const FINAL_FILE = "final.json";

interface LogsSite {
  /** The directory of `--logs`. */
  readonly logs: string;
  /** The project whose journal has the run. */
  readonly project: string;
  readonly dir: RunDir;
}

/** The directory of one run, open for its owner. */
export class AttractorLogFiles {
  readonly #site: LogsSite;
  readonly #log: AttractorLog;
  readonly #progress: AttractorProgress;

  private constructor(site: LogsSite, plan: Plan) {
    this.#site = site;
    this.#log = new AttractorLog(plan);
    this.#progress = new AttractorProgress(plan);
  }

  /** Opens the directory and brings it up to date with the journal. */
  static open(
    site: LogsSite,
    plan: Plan,
    run: Run,
    events: readonly Recorded[],
  ): AttractorLogFiles {
    const files = new AttractorLogFiles(site, plan);
    mkdirSync(site.logs, { recursive: true });
    writeWhole(site.logs, PROGRESS_FILE, "");
    files.record(events, run);
    return files;
  }

  /** Writes what a batch of durable events changes. */
  record(events: readonly Recorded[], run: Run): void {
    let news = false;
    // A long history writes each folder once: only the last visit of a node counts.
    const ends = new Map<string, VisitEnd>();
    for (const recorded of events) {
      const { type } = recorded.event;
      const end = this.#log.add(recorded);
      if (end !== undefined) for (const folder of this.#foldersOf(end, run)) ends.set(folder, end);
      const begun = type === "run.created" || type === "run.restarted";
      if (begun) {
        const manifest = this.#log.manifest(run, this.#site.project);
        writeWhole(this.#root, "manifest.json", json(manifest));
      }
      news ||= end !== undefined || type.startsWith("run.");
    }
    for (const [folder, end] of ends) this.#writeNode(folder, end, run);
    if (news) this.#writeCheckpoint(run);
    const lines = events.flatMap((recorded) => this.#progress.of(recorded, run.id));
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    appendFileSync(join(this.#site.logs, PROGRESS_FILE), text);
    failpoint("attractor-logs.done");
  }

  /** A restarted run writes into a subdirectory and keeps the files of the earlier start. */
  get #root(): string {
    return restartFolder(this.#site.logs, this.#log.restarts);
  }

  /**
   * A node in a branch also has a folder below that branch, because other branches may run a copy
   * of it.
   */
  #foldersOf(end: VisitEnd, run: Run): readonly string[] {
    const plain = join(this.#root, end.step);
    const own = nodeFolder(this.#root, run.scopes.get(end.scope), end.step);
    return [...new Set([plain, own])];
  }

  #writeNode(folder: string, end: VisitEnd, run: Run): void {
    const at = attemptOfEnd(end);
    const attempt = at === undefined ? undefined : attemptDirOf(this.#site.dir, at);
    const visit = findVisit(run, end);
    const work = visit && stepOf(visit).work;
    const simulated = work?.kind === "pass" ? work.simulates : undefined;
    const prompt =
      simulated?.prompt === undefined
        ? attempt && textOf(join(attempt, PROMPT_FILE))
        : promptText(run, visit, simulated.prompt);
    const answer = end.type === "step.completed" ? end.answer : undefined;
    const response =
      simulated === undefined
        ? attempt && textOf(join(attempt, RESPONSE_FILE))
        : typeof answer === "string"
          ? answer
          : simulated.answer;
    if (prompt !== undefined) {
      for (const name of [PROMPT_FILE, "prompt.txt"]) writeWhole(folder, name, prompt);
    }
    const printed = "context" in end ? end.context?.["tool.output"] : undefined;
    if (typeof printed === "string") writeWhole(folder, "tool_output.txt", printed);
    if (response !== undefined) writeWhole(folder, RESPONSE_FILE, response);
    if (this.#isInUse(folder, end, run)) return;
    writeWhole(folder, "status.json", json(statusJson(end, work)));
  }

  /**
   * True while a stage runs that may report in the status.json of this folder: the file of an
   * earlier visit must not replace its report. The end of that stage writes the file.
   */
  #isInUse(folder: string, end: VisitEnd, run: Run): boolean {
    const root = this.#root;
    return [...run.running].some((visit) => {
      if (stepOf(visit).id !== end.step) return false;
      const { scope } = visit.record;
      return folder === join(root, end.step) || folder === nodeFolder(root, scope, end.step);
    });
  }

  #writeCheckpoint(run: Run): void {
    const { json: checkpoint, artifacts } = this.#log.checkpoint(run, this.#site.project);
    for (const [name, text] of artifacts) writeWhole(join(this.#root, "artifacts"), name, text);
    writeWhole(this.#root, "context.json", json(checkpoint.context));
    writeWhole(this.#root, "checkpoint.json", json(checkpoint));
    const final = this.#log.final(run);
    // A failed run that continues has not ended.
    if (final === undefined) rmSync(join(this.#root, FINAL_FILE), { force: true });
    else writeWhole(this.#root, FINAL_FILE, json(final));
    // `resume --logs` reads the checkpoint in the top directory.
    if (this.#log.restarts > 0) writeWhole(this.#site.logs, "checkpoint.json", json(checkpoint));
  }
}

/** The prompt as an agent would get it; an expression without a value stays as it was written. */
function promptText(run: Run, visit: Visit | undefined, prompt: string): string {
  return renderText(prompt, (source) => {
    const found = visit && evaluateIn(run, visit, source, {});
    return found?.ok === true ? found.value : `\${{ ${source} }}`;
  });
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function writeWhole(folder: string, name: string, text: string): void {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  const draft = `${path}.new`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}
