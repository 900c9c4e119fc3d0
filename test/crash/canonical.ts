/**
 * What a run left behind, without everything that may differ between a run that was interrupted
 * and one that was not: ids, times, owners, paths, and the attempts that were lost before they
 * started. Two runs did the same exactly when these are equal.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import type { AttemptRef, Recorded, RunEvent, VisitRef } from "../../src/core/event.ts";
import { stepPath } from "../../src/core/step-path.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import type { Project } from "../rig/project.ts";
import type { CrashPipeline } from "./pipelines.ts";

/** What is compared. */
export interface Remains {
  readonly status: string;
  readonly journal: readonly unknown[];
  readonly steps: readonly unknown[];
  /** The files of the workspace and of the run: path -> content. */
  readonly files: Readonly<Record<string, unknown>>;
}

export interface StoredRun {
  readonly runId: string;
  readonly status: string;
  readonly events: readonly Recorded[];
  readonly steps: readonly { readonly stepId: string; readonly state: string }[];
}

/** The runs in a project's journal; none when there is no journal. */
export async function storedRuns(project: Project): Promise<readonly StoredRun[]> {
  if (!project.exists(".perdure", "state.db")) return [];
  const journal = await openSqliteJournal(project.path(".perdure", "state.db"), {
    mode: "read-only",
  });
  try {
    const runs: StoredRun[] = [];
    for (const { runId, status } of await journal.log.list({})) {
      const { events } = await journal.log.load(runId);
      const steps = await journal.log.stepsOf(runId);
      const states = steps.map(({ stepId, state }) => ({ stepId, state }));
      runs.push({ runId, status, events, steps: states });
    }
    return runs;
  } finally {
    await journal.close();
  }
}

/** The remains of the one run of a project. */
export function remainsOf(project: Project, run: StoredRun, pipeline: CrashPipeline): Remains {
  const numbers = attemptNumbers(run.events);
  const plain = (value: unknown): unknown => withoutIds(value, project.dir, run.runId);
  return {
    status: run.status,
    steps: run.steps,
    journal: journalOf(run.events, numbers, pipeline).map(plain),
    files: {
      ...workspaceFiles(project, pipeline),
      ...(plain(runFiles(project, run, numbers, pipeline)) as Record<string, unknown>),
    },
  };
}

/** "step@visit.attempt" as recorded -> its number without the attempts that were lost. */
type AttemptNumbers = ReadonlyMap<string, number>;

function attemptNumbers(events: readonly Recorded[]): AttemptNumbers {
  const lost = new Set<string>();
  for (const { event } of events) if (event.type === "step.lost") lost.add(attemptKey(event));
  const numbers = new Map<string, number>();
  const counts = new Map<string, number>();
  for (const { event } of events) {
    if (event.type !== "step.started" || lost.has(attemptKey(event))) continue;
    const place = placeKey(event);
    const number = (counts.get(place) ?? 0) + 1;
    counts.set(place, number);
    numbers.set(attemptKey(event), number);
  }
  return numbers;
}

/** As the folder of an attempt is called. */
export function attemptKey(at: AttemptRef): string {
  return `${placeKey(at)}.${at.attempt}`;
}

function placeKey({ scope, step, visit }: VisitRef): string {
  return `${scope.replaceAll("/", "~")}${step}@${visit}`;
}

function journalOf(
  events: readonly Recorded[],
  numbers: AttemptNumbers,
  pipeline: CrashPipeline,
): readonly unknown[] {
  const kept: RunEvent[] = [];
  for (const { event } of events) {
    if (["run.opened", "step.lost", "step.adopted"].includes(event.type)) continue;
    if ("attempt" in event) {
      const number = numbers.get(attemptKey(event));
      if (number === undefined) continue;
      const renumbered = { ...event, attempt: number };
      kept.push(renumbered);
    } else if (event.type !== "run.failed" || kept.at(-1)?.type !== "run.failed") {
      // A failed run that is resumed without an allowance says so once more.
      kept.push(event);
    }
  }
  const delayless = kept.map((event) => ({
    ...event,
    ...("retry" in event && event.retry !== undefined ? { retry: "later" } : {}),
    ...("wake" in event && event.wake !== undefined ? { wake: "later" } : {}),
    ...("deadline" in event && event.deadline !== undefined ? { deadline: "later" } : {}),
    ...("given" in event ? { given: "then" } : {}),
  }));
  if (pipeline.parallel !== true) return delayless;
  const stepOf = (event: object): string =>
    "step" in event && "scope" in event ? `${String(event.scope)}${String(event.step)}` : "";
  return delayless.toSorted((one, other) => compare(stepOf(one), stepOf(other)));
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Everything beside `.perdure`; with parallel steps the order of lines is nobody's promise. */
function workspaceFiles(project: Project, pipeline: CrashPipeline): Record<string, string> {
  const files: Record<string, string> = {};
  for (const name of filesBelow(project.dir, (entry) => entry !== ".perdure")) {
    const text = project.read(name);
    const sorted = pipeline.parallel === true && name === "effects";
    files[name] = sorted ? text.split("\n").toSorted(compare).join("\n") : text;
  }
  return files;
}

/** The projections and what the attempts printed; a lost attempt has left nothing but a receipt. */
function runFiles(
  project: Project,
  run: StoredRun,
  numbers: AttemptNumbers,
  pipeline: CrashPipeline,
): Record<string, unknown> {
  const root = project.path(".perdure", "runs", run.runId);
  const files: Record<string, unknown> = {};
  for (const name of filesBelow(root, () => true)) {
    const [folder, key = "", file = ""] = name.split("/");
    if (folder === "attempts") {
      const number = numbers.get(key);
      if (!["receipt.json", "output.log", "check.log", "check-2.log", "exit"].includes(file))
        continue;
      if (number === undefined) continue;
      const shown = `attempts/${key.replace(/\.\d+$/, `.${number}`)}/${file}`;
      files[shown] = contentOf(join(root, name), pipeline, run);
    } else if (name !== "events.jsonl" && !name.endsWith(".bad")) {
      files[name] = contentOf(join(root, name), pipeline, run);
    }
  }
  return files;
}

function contentOf(path: string, pipeline: CrashPipeline, run: StoredRun): unknown {
  const text = fs.readFileSync(path, "utf8");
  if (!path.endsWith(".json")) return text;
  const value = JSON.parse(text) as Record<string, unknown>;
  // Numbers that count the lost attempts and the resumes, and times.
  for (const key of ["attempt", "sequence", "duration_ms"]) delete value[key];
  if (Array.isArray(value.node_history) && pipeline.parallel === true) {
    value.node_history = value.node_history.map(String).toSorted(compare);
  }
  if (path.endsWith("checkpoint.json")) {
    value.node_retries = retriesWithoutLosses(value.node_retries, run.events);
  }
  return value;
}

function retriesWithoutLosses(
  retries: unknown,
  events: readonly Recorded[],
): Record<string, number> {
  const counts = { ...(retries as Record<string, number>) };
  const last = new Map<string, number>();
  for (const { event } of events) {
    if (event.type === "step.started") last.set(stepPath(event), event.visit);
  }
  for (const { event } of events) {
    // Only the tries of the last visit are among the retries.
    if (event.type !== "step.lost" || last.get(stepPath(event)) !== event.visit) continue;
    counts[stepPath(event)] = (counts[stepPath(event)] ?? 0) - 1;
  }
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0));
}

function withoutIds(value: unknown, dir: string, runId: string): unknown {
  const text = JSON.stringify(value)
    .replaceAll(dir, "DIR")
    .replaceAll(runId, "RUN")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/(attempts\/[^/"]+@\d+)\.\d+/g, "$1.N");
  return JSON.parse(text);
}

function filesBelow(root: string, wanted: (entry: string) => boolean): readonly string[] {
  const entries = fs.existsSync(root) ? fs.readdirSync(root).toSorted(compare) : [];
  return entries.filter(wanted).flatMap((entry) => {
    const path = join(root, entry);
    if (!fs.statSync(path).isDirectory()) return [entry];
    return filesBelow(path, () => true).map((below) => `${entry}/${below}`);
  });
}
