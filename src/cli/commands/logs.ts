/** `perdure logs RUN [STEP] [-f]`: what the steps printed, attempt by attempt. */
import { createReadStream, existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { type LineReaders, lineReaders } from "../../app/agent-lines.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { outputFiles } from "../../app/output-files.ts";
import { livenessOf, openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import type { AttemptRef, RunEvent } from "../../core/event.ts";
import { attemptText, parseStepPath, stepPath } from "../../core/place.ts";
import { findVisit, stepOf } from "../../core/run.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { followLines } from "../../runner/process/output.ts";
import { attemptEnd } from "../../view/attempt-history.ts";
import { outputLine } from "../../view/display-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { spokenLines } from "../../view/question-text.ts";
import { isOutputClosed, print, printError } from "../print.ts";

export interface LogsOptions {
  readonly follow?: boolean;
}

const LOOK_MS = 200;

/** Prints the output of all attempts, or of those of one step. */
export async function logsCommand(
  id: string,
  step: string | undefined,
  options: LogsOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-only");
  const known = loadRun(project, resolveRunId(project.journal, id));
  checkStep(known, step);
  if (known.cleanedAt !== undefined) {
    throw new Refusal(
      "files-removed",
      `the files of run ${known.shortId} were removed by perdure clean`,
      command("show", known.shortId),
    );
  }
  const wanted: Wanted = { step, readers: await lineReaders(known.plan), lines: 0 };
  const shown = new Set<string>();
  for (;;) {
    const now = loadRun(project, known.id);
    for (const at of attemptsOf(now, step)) {
      if (shown.has(attemptText(at))) continue;
      shown.add(attemptText(at));
      const running = options.follow === true && isRunning(now, at);
      await (running ? followAttempt(project, now, at, wanted) : printAttempt(now, at, wanted));
    }
    if (options.follow !== true || isOver(project, known.id)) break;
    await sleep(LOOK_MS);
  }
  if (wanted.lines === 0) printError(`${step ?? `run ${known.shortId}`} has printed nothing`);
  return EXIT.done;
}

type Started = Extract<RunEvent, { type: "step.started" }>;

/** What is asked for. */
interface Wanted {
  readonly step: string | undefined;
  readonly readers: LineReaders;
  /** How many lines there were. */
  lines: number;
}

/** A file of an attempt, and what prints a line of it. */
interface PrintedFile {
  readonly name: string;
  readonly show: (line: string) => void;
}

/**
 * Lines of one step stand alone; those of a whole run, or of what is in a step, name theirs. What its
 * checks and its judge say is marked.
 */
function printedFiles(known: KnownRun, at: Started, wanted: Wanted): readonly PrintedFile[] {
  const visit = findVisit(known.run, at);
  const printed = { step: visit && stepOf(visit), judge: at.judge };
  const read = wanted.readers(printed);
  const path = stepPath(at);
  return outputFiles(printed).map(({ name, mark, isWork }) => ({
    name,
    show: (line) => {
      for (const shown of isWork ? read(line) : [line]) {
        wanted.lines++;
        const alone = mark === undefined ? shown : `${mark} │ ${shown}`;
        print(wanted.step === path ? alone : outputLine(path, shown, mark));
      }
    },
  }));
}

async function printAttempt(known: KnownRun, at: Started, wanted: Wanted): Promise<void> {
  const files = printedFiles(known, at, wanted);
  for (const line of spokenLines(known.events, at)) files[0]?.show(line);
  for (const { name, show } of files) {
    const path = join(attemptDirOf(known.dir, at), name);
    if (!existsSync(path)) continue;
    for await (const line of createInterface({ input: createReadStream(path) })) show(line);
  }
}

async function followAttempt(
  project: Project,
  known: KnownRun,
  at: Started,
  wanted: Wanted,
): Promise<void> {
  const folder = attemptDirOf(known.dir, at);
  const files = printedFiles(known, at, wanted).map(({ name, show }) =>
    followLines(join(folder, name), show),
  );
  while (isRunning(loadRun(project, known.id), at) && !isOver(project, known.id)) {
    await sleep(LOOK_MS);
  }
  for (const file of files) await file.close();
}

/** Nothing more comes, or nobody reads it. */
function isOver({ journal }: Project, runId: string): boolean {
  return isOutputClosed() || livenessOf(journal.leaseOf(runId)) !== "owned";
}

/** The attempts of a step and of all that is in it, or of the whole run. */
function attemptsOf({ events }: KnownRun, step: string | undefined): readonly Started[] {
  const isMeant = (at: AttemptRef): boolean =>
    step === undefined || stepPath(at) === step || at.scope.startsWith(`${step}@`);
  return events.flatMap(({ event }) =>
    event.type === "step.started" && isMeant(event) ? [event] : [],
  );
}

function isRunning({ events }: KnownRun, at: AttemptRef): boolean {
  const key = attemptText(at);
  return !events.some(({ event }) => {
    const end = attemptEnd(event);
    return end !== undefined && attemptText(end) === key;
  });
}

function checkStep(known: KnownRun, step: string | undefined): void {
  // An update may have taken a step out of the plan; what it printed is there.
  if (step === undefined || attemptsOf(known, step).length > 0) return;
  const { run, plan, shortId } = known;
  const { scope, step: id } = parseStepPath(step);
  const graph = run.scopes.get(scope)?.graph ?? plan.graph;
  if (graph.steps.some((one) => one.id === id)) return;
  const ids = graph.steps.slice(0, 20).map((one) => one.id);
  const message = `run ${shortId} has no step ${step}; its steps are ${ids.join(", ")}`;
  throw new Refusal("unknown-step", message, command("show", shortId));
}
