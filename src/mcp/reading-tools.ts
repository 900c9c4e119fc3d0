/** The tools that change nothing: they read runs with their steps, output, files and questions. */
import { dirname } from "node:path";
import { z } from "zod";
import { type LoadedRun, loadRun, whyInputOf } from "../app/loaded-run.ts";
import { waitForRun } from "../app/look/attach.ts";
import {
  compareRun,
  lastQuestion,
  maskedRun,
  shownRun,
  timelineOfRun,
} from "../app/look/inspect.ts";
import { uncertainEffects } from "../app/look/overview.ts";
import { listRuns, withSecretsHidden } from "../app/look/run-list.ts";
import { logPage } from "../app/output/logs.ts";
import { outputTails } from "../app/output/output.ts";
import { listPipelines } from "../app/pipeline/pipeline-name.ts";
import {
  findStateDir,
  hasRuns,
  type Project,
  resolveRunId,
  withProject,
} from "../app/project/project.ts";
import { openQuestions as openQuestionsOf } from "../app/request/answer.ts";
import { partialWork } from "../app/rewind/interrupted-work.ts";
import { readableResult } from "../app/take.ts";
import { attemptOf } from "../core/run.ts";
import { integer, listOf, nullable, record, text, time } from "../core/shape.ts";
import { attemptText } from "../core/step-path.ts";
import { defined } from "../util/defined.ts";
import { exposureLines } from "../view/attempt-history.ts";
import { eventLine } from "../view/event-line.ts";
import { diffJson, questionsJson, refJson, timelineJson } from "../view/json/action-json.ts";
import { pipelines } from "../view/json/dashboard-documents.ts";
import * as part from "../view/json/document-parts.ts";
import { type DocumentOf, document } from "../view/json/document-parts.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import { showJson, standingJson, whyJson } from "../view/json/run-json.ts";
import { interruptedJson } from "../view/preview/interrupted-work.ts";
import { runReport } from "../view/report/report.ts";
import { reportJson } from "../view/report/report-json.ts";
import { runListJson } from "../view/run-table.ts";
import { isoText } from "../view/text.ts";
import { type AnyTool, run, step, type ToolCall, tool, withRun } from "./tool.ts";

const RUNS_DEFAULT = 20;
const RUNS_MAX = 200;
const LINES_DEFAULT = 100;
const LINES_MAX = 1000;
const WAIT_SECONDS_DEFAULT = 50;
const WAIT_SECONDS_MAX = 600;

const listRunsTool = tool({
  name: "list_runs",
  title: "List runs",
  about: "Lists the runs of this project, newest first, with their states and progress.",
  input: z.object({
    status: z
      .enum(["queued", "running", "waiting", "interrupted", "completed", "failed"])
      .optional()
      .describe("Only runs in this state; waiting: for an answer of a person"),
    pipeline: z.string().optional().describe("Only runs of the pipeline with this name"),
    limit: z.int().min(1).max(RUNS_MAX).optional().describe(`At most so many: ${RUNS_DEFAULT}`),
  }),
  document: DOCUMENTS.runs,
  effects: "reads",
  call: async ({ status, pipeline, limit = RUNS_DEFAULT }, { directory }) => {
    const filter = defined({ status, pipeline, limit: String(limit) });
    const rows = await listRuns(directory, filter);
    return runListJson(await withSecretsHidden(directory, rows));
  },
});

const showRun = tool({
  name: "show_run",
  title: "Show a run",
  about:
    "Everything about one run: its state, each step with its attempts, the context, the cost, " +
    "the messages to its agents, and the next commands.",
  input: z.object({ run }),
  document: DOCUMENTS.show,
  effects: "reads",
  call: async ({ run: id }, call) => withRun(call, "read-only", id, showOf),
});

/** The document of a run. */
export async function showOf(
  project: Project,
  known: LoadedRun,
): Promise<DocumentOf<typeof DOCUMENTS.show>> {
  const { events, ...shown } = shownRun(known);
  const input = { ...whyInputOf({ ...shown, events }, Date.now()), events };
  return showJson(input, await readableResult(project, known));
}

const why = tool({
  name: "why",
  title: "Why is the run in this state",
  about:
    "Explains in words why a run is in its state: what happened, what is done, what was " +
    "interrupted, the output of failed checks, and what to do next. Start here when a run " +
    "failed or stopped.",
  input: z.object({ run }),
  document: DOCUMENTS.why,
  effects: "reads",
  call: async ({ run: id }, call) =>
    withRun(call, "read-only", id, async (project, loaded) => {
      const known = shownRun(loaded);
      const interrupted = await partialWork(project, known);
      const works = interrupted.map(({ work }) => interruptedJson(work));
      const result = await readableResult(project, known);
      return whyJson(whyInputOf(known, Date.now()), works, exposureLines(known.events), result);
    }),
});

const logsPage = document("A part of what the attempts of a run printed.", {
  ...part.run,
  /** The step that was asked for; null for all steps. */
  step: nullable(text),
  /** The number of the first of these lines; the first line of all has the number 0. */
  first: integer,
  lines: listOf(record({ ...part.attempt, by: nullable(text), line: text })),
  /** The number of the first line of the next part; null when nothing more was printed so far. */
  next: nullable(integer),
});

const readLogs = tool({
  name: "read_logs",
  title: "Read the output of steps",
  about:
    "Returns lines that a run, or one of its steps, has printed; for agents their messages " +
    "and tool calls. By default the last lines; `next` of the result says where the next part " +
    "starts.",
  input: z.object({
    run,
    step: step.optional(),
    from: z
      .int()
      .optional()
      .describe("The number of the first line, from 0; a negative number counts from the end"),
    lines: z
      .int()
      .min(1)
      .max(LINES_MAX)
      .optional()
      .describe(`How many lines at most: ${LINES_DEFAULT}`),
  }),
  document: logsPage,
  effects: "reads",
  call: async ({ run: id, step: name, lines = LINES_DEFAULT, from = -lines }, call) =>
    withRun(call, "read-only", id, async (project, known) => {
      const page = await logPage(project, known, { step: name, from, lines });
      return {
        run_id: known.id,
        step: name ?? null,
        first: page.first,
        lines: page.lines.map(({ at, mark, text }) => ({
          ...refJson(at),
          by: mark ?? null,
          line: text,
        })),
        next: page.next ?? null,
      };
    }),
});

const point = "a step (`test`), a visit (`test@2`), an attempt (`test@2.1`) or a snapshot";

const diff = tool({
  name: "diff",
  title: "Compare files and context",
  about:
    "Says which files and context values changed: during one step, visit or attempt, or " +
    "between two checkpoints. With patch: also the text of the changes.",
  input: z.object({
    run,
    from: z.string().describe(`Without \`to\`: what changed during this: ${point}`),
    to: z.string().optional().describe(`The later checkpoint: ${point}; or \`now\``),
    patch: z.boolean().optional().describe("Return the changes as a patch, too"),
  }),
  document: DOCUMENTS.diff,
  effects: "reads",
  call: async ({ run: id, from, to, patch = false }, call) =>
    withRun(call, "read-only", id, async (project, known) =>
      diffJson(known.id, await compareRun(project, known, [from, to], { patch })),
    ),
});

const timeline = tool({
  name: "timeline",
  title: "List checkpoints",
  about:
    "Lists the checkpoints of a run in order, with what changed from one to the next: the " +
    "points that diff, rewind_run and fork_run take.",
  input: z.object({ run }),
  document: DOCUMENTS.timeline,
  effects: "reads",
  call: async ({ run: id }, call) =>
    withRun(call, "read-only", id, async (project, known) =>
      timelineJson(known.id, await timelineOfRun(project, known)),
    ),
});

const report = tool({
  name: "report",
  title: "Report on a run",
  about:
    "The post-mortem of a run: every visit and attempt, problems and how they were handled, " +
    "decisions, time and cost. Long; `why` is the short form.",
  input: z.object({
    run,
    with_output: z.boolean().optional().describe("Add the end of the output of each attempt"),
  }),
  document: DOCUMENTS.report,
  effects: "reads",
  call: async ({ run: id, with_output: withOutput = false }, call) =>
    withRun(call, "read-only", id, async (_, known) =>
      reportJson(await reportOf(known, withOutput)),
    ),
});

/** The report on a run. Secrets are masked before it is formatted, as a format may escape them. */
export async function reportOf(
  loaded: LoadedRun,
  withOutput: boolean,
): Promise<ReturnType<typeof runReport>> {
  const known = maskedRun(loaded);
  const { plan, events } = known;
  const outputs = withOutput ? await outputTails(known) : new Map<string, string>();
  return runReport({ ...whyInputOf(known, Date.now()), plan, events, outputs });
}

const listPipelinesTool = tool({
  name: "list_pipelines",
  title: "List pipelines",
  about:
    "Lists the pipelines that start_run can start here: name, description, and the JSON " +
    "Schema of the input.",
  input: z.object({}),
  document: pipelines,
  effects: "reads",
  call: async (_, { directory }) => {
    const dir = findStateDir(directory);
    const listed = (await hasRuns(directory))
      ? await withProject([directory, "read-only"], (project) => listPipelines(directory, project))
      : await listPipelines(directory, undefined);
    return {
      project: dir === undefined ? directory : dirname(dir.root),
      pipelines: listed.map(({ description, problem, ...pipeline }) => ({
        ...pipeline,
        description: description ?? null,
        problem: problem ?? null,
      })),
    };
  },
});

const waitForRunTool = tool({
  name: "wait_for_run",
  title: "Wait for a run",
  about:
    "Waits until a run has ended, asks a person, or is not driven any more, and says how it " +
    "stands; at most for the given number of seconds, after which the status is still " +
    "`running` and you can call it again. Reports its state, and then each event, as progress.",
  input: z.object({
    run,
    seconds: z
      .number()
      .min(0)
      .max(WAIT_SECONDS_MAX)
      .optional()
      .describe(`How long to wait at most: ${WAIT_SECONDS_DEFAULT}`),
    past_questions: z
      .boolean()
      .optional()
      .describe("Also wait while a question is open, as long as other steps are running"),
  }),
  document: DOCUMENTS.standing,
  effects: "reads",
  call: async (input, call) =>
    withRun(call, "read-only", input.run, async (project, known) => {
      const { seconds = WAIT_SECONDS_DEFAULT, past_questions: pastQuestions = false } = input;
      const { happened } = standingJson(whyInputOf(shownRun(known), Date.now()));
      await call.report(known.run.seq, happened);
      const now = await waitForRun(project, known, {
        timeoutMs: seconds * 1000,
        pastQuestions,
        signal: call.signal,
        onNews: (one, news) => reportNews(call, one, news),
      });
      return standingJson(whyInputOf(shownRun(now), Date.now()));
    }),
});

async function reportNews(
  call: ToolCall,
  { run: now }: LoadedRun,
  news: LoadedRun["events"],
): Promise<void> {
  for (const recorded of news) {
    const line = eventLine(now, recorded);
    if (line !== undefined) await call.report(recorded.seq, line);
  }
}

/** At most so many runs that may wait for a person are loaded. */
const ASKING_RUNS_MAX = 200;

const openQuestions = document("What people are asked, with what they need to see.", {
  questions: listOf(
    record({
      ...part.run,
      pipeline: text,
      ...part.questionFields,
      material: listOf(record({ name: text, text, left_out: integer })),
    }),
  ),
  /** Steps whose effect may or may not have happened; a person settles them. */
  uncertain: listOf(
    record({ ...part.run, pipeline: text, ...part.attempt, since: time, message: text }),
  ),
});

type Listed = DocumentOf<typeof openQuestions>;

const listQuestions = tool({
  name: "list_questions",
  title: "List open questions",
  about:
    "Lists what the runs of this project ask people: each question with its choices and the " +
    "material that a person needs to see (files, changes, outputs), and effects about which a " +
    "person has to say whether they happened (settle).",
  input: z.object({ run: run.optional() }),
  document: openQuestions,
  effects: "reads",
  call: async ({ run: id }, { directory }) => {
    if (id === undefined && !(await hasRuns(directory))) return { questions: [], uncertain: [] };
    const found = await withProject([directory, "read-only", id], (project) =>
      questionsOf(project, id),
    );
    return {
      questions: found.flatMap(({ questions }) => questions),
      uncertain: found.flatMap(({ uncertain }) => uncertain),
    };
  },
});

/** Loads the runs one by one, so that only one is in memory. */
async function questionsOf(project: Project, id: string | undefined): Promise<readonly Listed[]> {
  const { log } = project.journal;
  const asking = { owned: [], asking: true, limit: ASKING_RUNS_MAX };
  const runIds =
    id === undefined
      ? (await log.search(asking)).runs.map(({ runId }) => runId)
      : [await resolveRunId(project.journal, id)];
  const found: Listed[] = [];
  for (const runId of runIds) {
    found.push(questionsIn(shownRun(await loadRun(project, runId))));
  }
  return found;
}

function questionsIn(known: LoadedRun): Listed {
  const about = { run_id: known.id, pipeline: known.plan.name };
  return {
    questions: openQuestionsOf(known).flatMap((open) => {
      const asked = lastQuestion(known, attemptText(attemptOf(open.visit))).material ?? [];
      const material = asked.map(({ name, text, leftOut: left_out = 0 }) => {
        return { name, text, left_out };
      });
      const { questions } = questionsJson(known.id, [open]);
      return questions.map((question) => ({ ...about, ...question, material }));
    }),
    uncertain: [...uncertainEffects(known)].map(({ at, since, message }) => {
      return { ...about, ...refJson(at), since: isoText(since), message };
    }),
  };
}

/** The tools that change nothing. */
export const READING_TOOLS: readonly AnyTool[] = [
  ...[listRunsTool, showRun, why, readLogs, diff, timeline, report],
  ...[listPipelinesTool, waitForRunTool, listQuestions],
];
