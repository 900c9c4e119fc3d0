/**
 * Implements `run`, `resume` and `openRun` of the library.
 *
 * Owns: the options of these functions, and closing the project if one of them throws.
 * Does not: drive a run (run-handle.ts).
 */
import { resolve } from "node:path";
import { unavailable } from "../app/drive/ownership.ts";
import { requireVariables } from "../app/drive/run-environment.ts";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { projectDirectory } from "../app/pipeline/configuration-file.ts";
import { readDefinition, readPipeline } from "../app/pipeline/pipeline-file.ts";
import {
  createProject,
  livenessOf,
  openProject,
  type Project,
  resolveRunId,
  withProject,
} from "../app/project/project.ts";
import {
  advice,
  asRefusal,
  command,
  type DiagnosticTexts,
  PipelineInvalid,
  Refusal,
} from "../app/refusal.ts";
import { answerGate } from "../app/request/answer.ts";
import { askableOwner, askForRewind } from "../app/request/ask-owner.ts";
import { settleStep } from "../app/request/step-decision.ts";
import { checkResume, completeFiles, resumeOptions } from "../app/resume.ts";
import { type FilesOption, filesOption } from "../app/rewind/rewind-files.ts";
import {
  namesOf,
  previewRewind,
  type RewindRequest,
  retriedBy,
  understood,
} from "../app/rewind/rewind-preview.ts";
import { createRun, prepareRun } from "../app/start.ts";
import type { EventOf } from "../core/event.ts";
import type { PipelineDefinition } from "../pipeline/definition.ts";
import type { DotExtensions } from "../plan/attractor/build.ts";
import type { Plan, PlanReading, Recover } from "../plan/plan.ts";
import { defined } from "../util/defined.ts";
import type { Json } from "../util/json.ts";
import type { EventJson } from "../view/json/part-json.ts";
import {
  type AnswerSource,
  drivenRun,
  endedRun,
  eventStream,
  type RunHandle,
  type RunView,
  runView,
} from "./run-handle.ts";

export interface RunOptions {
  /** The pipeline's input. */
  readonly input?: Json;
  /** The directory of the steps; it, or a directory above it, contains `.perdure`. */
  readonly cwd?: string;
  /** Stops the run when the signal is aborted, as `stop()` does. */
  readonly signal?: AbortSignal;
  /** Waits for answers when no other step can run, instead of ending with status 6. */
  readonly stay?: boolean;
  /** Answers every question with the choice that approves. */
  readonly autoApprove?: boolean;
  /** Answers questions in place of a person. */
  readonly answer?: AnswerSource;
  /** False: does not check first whether agents and programs are installed. */
  readonly preflight?: boolean;
  /** For a file in DOT: the directory for the files that the language describes. */
  readonly logs?: string;
  /** For a file in DOT: how to read it. */
  readonly dot?: DotOptions;
}

/** How to read a file in DOT; a resumed run keeps the plan that it started with. */
export interface DotOptions extends Omit<PlanReading, "continuesFrom">, DotExtensions {}

export interface ResumeOptions extends Omit<RunOptions, "input" | "dot" | "logs"> {
  /** Counts earlier steps as done, and runs this step and every step after it. */
  readonly fromStep?: string;
  /** Continues interrupted work, or restarts it. */
  readonly recover?: Recover;
  /** Added to the budget: `+5usd`, `+100000tokens`, `+20turns` or `+30m`. */
  readonly budget?: string;
  /** More turns for agents that have used up their `max_turns`: `+20`. */
  readonly turns?: string;
  /** With `fromStep`: keeps the files, or restores them as they were before the step. */
  readonly files?: FilesOption;
  /** Takes the run over from an owner on another machine that is known to be dead. */
  readonly takeOver?: boolean;
}

export interface OpenOptions {
  /** A directory of the project. */
  readonly cwd?: string;
}

export interface RetryOptions {
  /** Keeps the files, or restores them as they were before the step. */
  readonly files?: FilesOption;
  /** Of a fan-out that completed: only its failed items. */
  readonly failed?: boolean;
  /** More turns for its agent. */
  readonly turns?: number;
}

/** The run has handled the request, or its next owner will. A refused request throws a `Refusal`. */
export type RequestOutcome = "handled" | "pending";

/** A run that is open for reading; another process may drive it. */
export interface OpenedRun {
  readonly id: string;
  /** The current state of the run. */
  view(): Promise<RunView>;
  /** Answers a question of the run: the first answer counts, no matter who gives it. */
  answer(gate: string, choice: string, options?: { readonly text?: string }): Promise<void>;
  /** Asks the process that drives the run to run a step, or items of a fan-out, again. */
  retry(step: string | readonly string[], options?: RetryOptions): Promise<RequestOutcome>;
  /** Asks the process that drives the run to return to the start of a step. */
  rewind(step: string, options?: Pick<RetryOptions, "files">): Promise<RequestOutcome>;
  /** Says whether an interrupted `once` step took effect. */
  settle(
    step: string,
    verdict: "done" | "redo" | "abort",
    options?: { readonly identity?: string },
  ): Promise<RequestOutcome>;
  /** All its events, and the new ones while a process drives it, unless `follow` is false. */
  events(options?: { readonly follow?: boolean }): AsyncIterable<EventJson>;
}

/** Starts a new run; see `run` in perdure.ts. */
export async function startRun(
  pipeline: PipelineDefinition | string,
  options: RunOptions,
): Promise<RunHandle> {
  options.signal?.throwIfAborted();
  return withRefusals(async () => {
    const cwd = resolve(options.cwd ?? ".");
    const { plan, origin } = await planOf(pipeline, cwd, options.dot);
    const file = origin.file || "FILE";
    const { preflight } = options;
    const request = { file, typed: ["run", file], preflight, cwd };
    const { input } = await prepareRun(plan, options.input ?? null, request);
    return closingOnError(await createProject(cwd), async (project) => {
      const logs = options.logs === undefined ? {} : { logs: resolve(cwd, options.logs) };
      const runId = await createRun(project, plan, { ...origin, ...logs, input, args: [], cwd });
      const { signal, stay = false, autoApprove = false, answer } = options;
      return await drivenRun(project, await loadRun(project, runId), 0, {
        signal,
        stay,
        autoApprove,
        answer,
      });
    });
  });
}

type Origin = Pick<EventOf<"run.created">, "file" | "fileSha256">;

async function planOf(
  pipeline: PipelineDefinition | string,
  cwd: string,
  { transforms, rules, ...reading }: DotOptions = {},
): Promise<{ readonly plan: Plan; readonly origin: Origin }> {
  if (typeof pipeline !== "string") {
    const { plan, ...read } = await readDefinition(pipeline, cwd);
    if (plan === undefined) throw invalid(read);
    return { plan, origin: { file: "" } };
  }
  const file = resolve(cwd, pipeline);
  const extensions = defined({ transforms, rules });
  const { plan, ...read } = await readPipeline(file, reading, projectDirectory(cwd), extensions);
  if (plan === undefined) throw invalid(read);
  return { plan, origin: { file, fileSha256: read.sha256 } };
}

/** The first mistake of a pipeline, and how many more there are. */
function invalid(files: DiagnosticTexts): PipelineInvalid {
  const errors = files.diagnostics.filter(({ severity }) => severity === "error");
  const [first] = errors;
  const place = first && `${first.file}:${first.path ? ` ${first.path}` : first.line}`;
  const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
  const help = first?.help === undefined ? undefined : advice(first.help);
  return new PipelineInvalid(`${place}: ${first?.message}${more}`, help, files);
}

/** Continues a run; see `resume` in perdure.ts. */
export async function resumeRun(id: string, options: ResumeOptions): Promise<RunHandle> {
  options.signal?.throwIfAborted();
  return withRefusals(async () => {
    const project = await openProject(resolve(options.cwd ?? "."), "read-write", id);
    return closingOnError(project, () => continueRun(project, id, options));
  });
}

async function continueRun(
  project: Project,
  id: string,
  options: ResumeOptions,
): Promise<RunHandle> {
  const { fromStep: step, recover, signal, answer } = options;
  const known = await loadRun(project, await resolveRunId(project.journal, id));
  const refusal = unavailable(known, options);
  if (refusal !== undefined) throw refusal;
  const files = filesOption(options.files);
  const request: RewindRequest | undefined =
    step === undefined ? undefined : { verb: "from-step", step, files };
  if (known.run.state.status === "completed" && request === undefined) {
    await completeFiles(project, known);
    return await endedRun(project, known);
  }
  const preview = request && (await previewRewind(project, known, request));
  const typed = ["resume", known.shortId, ...(step === undefined ? [] : ["--from-step", step])];
  requireVariables(known, known.shortId, { typed });
  const { preflight, turns, budget } = options;
  await checkResume(known, { request, preview, recover, preflight, turns, budget, typed });
  return await drivenRun(project, known, known.run.seq, {
    ...resumeOptions(project, { request, preview }, options),
    ...(recover === undefined ? {} : { recover }),
    signal,
    answer,
  });
}

/** Opens a run for reading; see `openRun` in perdure.ts. */
export async function openForReading(id: string, options: OpenOptions): Promise<OpenedRun> {
  return withRefusals(async () => {
    const from = resolve(options.cwd ?? ".");
    const reading = <T>(body: (project: Project) => Promise<T>): Promise<T> =>
      withProject([from, "read-only", id], body);
    const runId = await reading(({ journal }) => resolveRunId(journal, id));
    return {
      id: runId,
      answer: async (gate, choice, { text } = {}) => {
        await writing(from, runId, (project, known) =>
          answerGate(project, known, gate, { choice, text, from: "program" }),
        );
      },
      retry: (step, asked = {}) =>
        askAs(from, runId, { verb: "retry", ...retriedBy([step].flat()), ...asked }),
      rewind: (step, { files } = {}) => askAs(from, runId, { verb: "rewind", step, files }),
      settle: (step, verdict, { identity } = {}) =>
        writing(from, runId, async (project, known) => {
          const { outcome } = await settleStep({ project, known }, step, { verdict, identity });
          return outcome === "handled" ? "handled" : "pending";
        }),
      view: () => reading(async (project) => runView(await loadRun(project, runId))),
      events: ({ follow = true } = {}) =>
        eventStream({
          from,
          runId,
          after: 0,
          isOver: async ({ leases }) => !follow || livenessOf(await leases.of(runId)) !== "owned",
        }),
    };
  });
}

/** Asks the process that drives a run, which may be this one. */
async function askAs(from: string, runId: string, wanted: RewindRequest): Promise<RequestOutcome> {
  return writing(from, runId, async (project, known) => {
    if (askableOwner(known) === undefined) {
      const refusal = unavailable(known);
      if (refusal !== undefined) throw refusal;
      const message = `no process drives run ${known.shortId}`;
      throw new Refusal(
        "impossible",
        message,
        command(wanted.verb, known.shortId, ...namesOf(wanted)),
      );
    }
    const { outcome } = await askForRewind(project, known, understood(known, wanted));
    return outcome === "handled" ? "handled" : "pending";
  });
}

/** Opens the project for one change of a run. */
async function writing<T>(
  from: string,
  runId: string,
  body: (project: Project, known: LoadedRun) => Promise<T>,
): Promise<T> {
  return withRefusals(() =>
    withProject([from, "read-write", runId], async (project) =>
      body(project, await loadRun(project, runId)),
    ),
  );
}

/** Closes the project if there is no handle that will close it. */
async function closingOnError(
  project: Project,
  body: (project: Project) => Promise<RunHandle>,
): Promise<RunHandle> {
  try {
    return await body(project);
  } catch (error) {
    await project.journal.close();
    throw error;
  }
}

async function withRefusals<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    throw asRefusal(error) ?? error;
  }
}
