/**
 * What `perdure service` prints: what it did, and its state.
 *
 * Owns: these texts, and the document for programs.
 * Does not: find anything out (app/service).
 */
import type { DocumentJson } from "./json/documents.ts";
import { timeJson } from "./json/part-json.ts";
import { commandText, countText, tableLines, utcText } from "./text.ts";

/** Why the service continued a run. */
export type ResumeCause = "owner-died" | "shutdown" | "not-started" | "answered" | "time-came";

/** Something that the service did. */
export type ServiceReport =
  | {
      readonly kind: "resumed";
      /** The run in words. */
      readonly about: string;
      readonly directory: string;
      readonly because: ResumeCause;
    }
  | {
      readonly kind: "started";
      readonly file: string;
      readonly runId: string;
      readonly time: number;
    }
  | { readonly kind: "cleaned"; readonly directory: string; readonly runs: number }
  | { readonly kind: "problem"; readonly problem: ServiceProblem };

/** Something that needs a person. */
export interface ServiceProblem {
  readonly directory: string;
  /** The run, if it is about one. */
  readonly runId?: string;
  readonly message: string;
}

/** A pipeline with a schedule, and when it starts next. */
export interface ScheduleStanding {
  readonly file: string;
  readonly name: string;
  readonly text: string;
  readonly directory: string;
  readonly next: number | undefined;
  /** Why the run of its last time could not be started. */
  readonly problem: string | undefined;
}

/** How the service stands. */
export interface ServiceStanding {
  /** The file of the unit, if it is installed. */
  readonly unit: string | undefined;
  /** The process, while it runs. */
  readonly pid: number | undefined;
  readonly seenAt: number | undefined;
  readonly projects: number;
  readonly schedules: readonly ScheduleStanding[];
  readonly problems: readonly ServiceProblem[];
  /** When it cleans for the first time, while that is in the future. */
  readonly cleansFrom: number | undefined;
}

const CAUSES: Readonly<Record<ResumeCause, string>> = {
  "owner-died": "its process had died",
  shutdown: "the machine had been shut down",
  "not-started": "the process that was to start it had died",
  answered: "its question was answered",
  "time-came": "the time to answer its question had run out",
};

/** One line for what the service did. */
export function reportText(report: ServiceReport): string {
  switch (report.kind) {
    case "resumed":
      return `continued ${report.about} in ${report.directory}: ${CAUSES[report.because]}`;
    case "started":
      return `started run ${report.runId} of ${report.file}, scheduled for ${utcText(report.time)} UTC`;
    case "cleaned":
      return `cleaned ${countText(report.runs, "completed run")} in ${report.directory}`;
    case "problem":
      return problemText(report.problem);
  }
}

function problemText({ directory, runId, message }: ServiceProblem): string {
  const next = runId === undefined ? "" : `; see: ${commandText("-C", directory, "why", runId)}`;
  return `${directory}: ${message}${next}`;
}

/** The line about the first clean. */
export function cleanLine(from: number): string {
  return (
    `From ${utcText(from)} UTC on, perdure service cleans completed runs after seven days. ` +
    "To keep them: service: {clean: never} in perdure.yaml"
  );
}

/** How the service stands, for people. */
export function serviceLines(standing: ServiceStanding): readonly string[] {
  const { unit, pid, projects, schedules, problems, cleansFrom } = standing;
  const rows = schedules.map(({ file, text, next, problem }) => [
    `  ${text}`,
    file,
    next === undefined ? "never" : `next ${utcText(next)} UTC`,
    problem === undefined ? "" : `could not be started: ${problem}`,
  ]);
  return [
    unit === undefined ? "Not installed. Install it: perdure service install" : `unit: ${unit}`,
    pid === undefined
      ? `It is not running${lastSeen(standing)}. Run it here: perdure service run`
      : `It is running as process ${pid} and watches ${countText(projects, "project")}.`,
    ...(rows.length === 0 ? [] : ["schedules", ...tableLines(rows)]),
    ...(cleansFrom === undefined ? [] : [cleanLine(cleansFrom)]),
    ...(problems.length === 0
      ? []
      : ["needs you", ...problems.map((one) => `  ${problemText(one)}`)]),
  ];
}

function lastSeen({ seenAt }: ServiceStanding): string {
  return seenAt === undefined ? "" : `; it last ran at ${utcText(seenAt)} UTC`;
}

/** How the service stands, for programs. */
export function serviceJson(standing: ServiceStanding): DocumentJson<"service"> {
  return {
    unit: standing.unit ?? null,
    pid: standing.pid ?? null,
    seen_at: timeJson(standing.seenAt),
    cleans_from: timeJson(standing.cleansFrom),
    schedules: standing.schedules.map(({ file, name, text, directory, next, problem }) => ({
      file,
      pipeline: name,
      schedule: text,
      directory,
      next: timeJson(next),
      problem: problem ?? null,
    })),
    problems: standing.problems.map(({ directory, runId, message }) => ({
      directory,
      run_id: runId ?? null,
      message,
    })),
  };
}
