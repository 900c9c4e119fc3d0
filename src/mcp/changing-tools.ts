/**
 * The tools that change something: they start, continue and stop runs, answer questions and run steps
 * again. A process in the background drives the runs, never the server.
 */
import { z } from "zod";
import { withProject } from "../app/project/project.ts";
import { sendMessage } from "../app/request/message.ts";
import {
  addToBudget,
  answerQuestion,
  forkAt,
  previewRetry,
  resumeRun,
  retryStep,
  rewindTo,
  settleEffect,
  skipAndContinue,
  startRun,
} from "../app/request/steer.ts";
import { stopRun } from "../app/request/stop.ts";
import { attemptOf } from "../core/run.ts";
import { refJson, rewindJson } from "../view/json/action-json.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import {
  type AnyTool,
  agreed,
  beside,
  dryRun,
  files,
  jsonInput,
  pipelineInput,
  resume,
  run,
  step,
  tool,
  turns,
  withRun,
} from "./tool.ts";

const start = tool({
  name: "start_run",
  title: "Start a run",
  about:
    "Starts a new run of a pipeline in the background and returns its id at once. The run " +
    "continues when you, or this server, end. Follow it with wait_for_run.",
  input: z.object({
    pipeline: z.string().describe("The name of a pipeline from list_pipelines, or a path"),
    input: pipelineInput,
    beside,
  }),
  document: DOCUMENTS.detached,
  effects: "works",
  call: async ({ input, ...wanted }, { directory }) =>
    startRun(directory, { ...wanted, input: jsonInput(input) }),
});

const resumeTool = tool({
  name: "resume_run",
  title: "Resume a run",
  about:
    "Continues a run that was stopped, interrupted or failed, in the background. Completed " +
    "steps do not run again; failed ones get another attempt. A run that waits for an answer " +
    "needs answer_question instead.",
  input: z.object({
    run,
    recover: z
      .enum(["continue", "restart"])
      .optional()
      .describe("Interrupted work of agents continues, or starts again from the step's snapshot"),
    files,
    turns,
    beside,
  }),
  document: DOCUMENTS.detached,
  effects: "works",
  call: async ({ run: id, ...wanted }, call) =>
    withRun(call, "read-only", id, (project, known) => resumeRun(project, known, wanted)),
});

const stop = tool({
  name: "stop_run",
  title: "Stop a run",
  about: "Stops a run. Nothing that it has done is lost, and resume_run continues it.",
  input: z.object({
    run,
    mode: z
      .enum(["now", "after-turn", "after-step"])
      .optional()
      .describe("now (default), after the current turns of its agents, or after its running steps"),
  }),
  document: DOCUMENTS.stop,
  effects: "adds-once",
  call: async ({ run: id, mode = "now" }, { directory }) =>
    withProject([directory, "read-write", id], async (project) => {
      const stopped = await stopRun(project, id, mode);
      const steps = stopped.kind === "ended" ? stopped.steps : [];
      return { run_id: stopped.runId, mode, outcome: stopped.kind, steps };
    }),
});

const retry = tool({
  name: "retry_step",
  title: "Run a step again",
  about:
    "Gives a failed step another attempt, or runs a completed step and every step after it " +
    "again. A run that no process drives continues in the background.",
  input: z.object({
    run,
    step,
    items: z
      .array(z.int().min(0))
      .optional()
      .describe("Of a fan-out: only the items with these numbers"),
    failed: z.boolean().optional().describe("Of a fan-out that completed: only its failed items"),
    files,
    turns,
    agreed,
    dry_run: dryRun,
  }),
  document: DOCUMENTS.rewind,
  effects: "works",
  call: async ({ run: id, step: name, items, dry_run: isDry = false, ...rest }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const steps = items?.map((item) => `${name}[${item}]`) ?? [name];
      const wanted = { ...rest, steps };
      const preview = await previewRetry(project, known, wanted);
      const { again, kept, assumed } = preview.steps;
      const planned = { runs_again: again, kept, assumed, dry_run: isDry };
      if (isDry) return rewindJson(known.id, name, planned);
      const { outcome } = await retryStep(project, known, wanted);
      return rewindJson(known.id, name, { ...planned, request: outcome });
    }),
});

const answer = tool({
  name: "answer_question",
  title: "Answer a question",
  about:
    "Answers an open question of a run with the decision of the person that you work for. The " +
    "first answer counts. Show the person the question and its material (list_questions) " +
    "first; do not decide for them unless they asked you to.",
  input: z.object({
    run,
    step: step.describe("The step that asks, as list_questions has it"),
    choice: z.string().describe("The key or the label of a choice"),
    text: z.string().optional().describe("A note in the words of the person"),
    resume,
  }),
  document: DOCUMENTS.answer,
  effects: "adds",
  call: async ({ run: id, step: gate, ...given }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const answered = await answerQuestion(project, known, gate, given);
      const { visit, answer: said, continues, problem } = answered;
      call.warn(problem);
      const { choice = null, text = null, by } = said;
      return { run_id: known.id, ...refJson(attemptOf(visit)), choice, text, by, continues };
    }),
});

const settle = tool({
  name: "settle",
  title: "Settle an uncertain effect",
  about:
    "Says what happened with an effect that must happen once and was interrupted: done (it " +
    "happened), redo (it did not; run it again) or abort (give the step up). Look at the " +
    "world first, or ask the person.",
  input: z.object({
    run,
    step,
    verdict: z.enum(["done", "redo", "abort"]),
    identity: z.string().optional().describe("With done: what identifies it, such as a URL"),
    resume,
  }),
  document: DOCUMENTS.settle,
  effects: "works",
  call: async ({ run: id, ...wanted }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const { as, by, outcome, problem } = await settleEffect(project, known, wanted);
      call.warn(problem);
      return { run_id: known.id, step: wanted.step, verdict: as, by, request: outcome };
    }),
});

const skip = tool({
  name: "skip_step",
  title: "Skip a step",
  about:
    "Skips a step that failed, waits or has not started; the run continues without it. Skip " +
    "only what the person agreed to leave out.",
  input: z.object({ run, step, resume }),
  document: DOCUMENTS.skip,
  effects: "works",
  call: async ({ run: id, ...wanted }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const skipped = await skipAndContinue(project, known, wanted);
      call.warn(skipped.problem);
      const { by, outcome } = skipped;
      return { run_id: known.id, step: skipped.step, by, request: outcome };
    }),
});

const message = tool({
  name: "send_message",
  title: "Send a message to an agent",
  about:
    "Leaves a message for the agent of a step. It gets the message after its current turn, or " +
    "with its next attempt; `delivery` says when.",
  input: z.object({ run, step, text: z.string().describe("The message") }),
  document: DOCUMENTS.say,
  effects: "adds",
  call: async ({ run: id, step: name, text }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const { step: path, delivery } = await sendMessage(project, known, name, text);
      return { run_id: known.id, step: path, delivery };
    }),
});

const budget = tool({
  name: "add_budget",
  title: "Add to the budget",
  about:
    "Adds to the budget of a run with the agreement of the person who pays. A run that no " +
    "process drives continues in the background.",
  input: z.object({
    run,
    amount: z
      .string()
      .describe("`+5usd`, `+100000tokens`, `+20turns` or `+30m`; or several: `+5usd,+30m`"),
  }),
  document: DOCUMENTS.requested,
  effects: "adds",
  call: async ({ run: id, amount }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const { outcome } = await addToBudget(project, known, amount);
      return { run_id: known.id, request: outcome };
    }),
});

const rewind = tool({
  name: "rewind_run",
  title: "Rewind a run",
  about:
    "Takes a run back to the start of a step or of a visit, so that it and everything after " +
    "it run again; or restores the files of a snapshot. A run that no process drives stays " +
    "stopped: continue it with resume_run. Look with dry_run first.",
  input: z.object({
    run,
    to: z.string().describe("A step (`test`), a visit (`test@2`) or a snapshot from timeline"),
    files,
    agreed,
    dry_run: dryRun,
  }),
  document: DOCUMENTS.rewind,
  effects: "works",
  call: async ({ run: id, dry_run: isDry, ...wanted }, call) =>
    withRun(call, "read-write", id, async (project, known) => {
      const { document } = await rewindTo(project, known, { ...wanted, dryRun: isDry });
      return document;
    }),
});

const fork = tool({
  name: "fork_run",
  title: "Fork a run",
  about:
    "Creates a new run that shares the past of another one up to a step, with another input " +
    "if given. The other run stays as it is. Look with dry_run first.",
  input: z.object({
    run,
    at: z
      .string()
      .optional()
      .describe("The step or visit before which it begins; without it: after the last completed"),
    input: pipelineInput,
    files,
    start: z.boolean().optional().describe("Start the new run in the background"),
    dry_run: dryRun,
  }),
  document: DOCUMENTS.fork,
  effects: "works",
  call: async ({ run: id, dry_run: isDry, input, ...wanted }, call) =>
    withRun(call, "read-write", id, (project, known) =>
      forkAt(project, known, { ...wanted, input: jsonInput(input), dryRun: isDry }),
    ),
});

/** The tools that change something. */
export const CHANGING_TOOLS: readonly AnyTool[] = [
  ...[start, resumeTool, stop, retry, answer, settle, skip],
  ...[message, budget, rewind, fork],
];
