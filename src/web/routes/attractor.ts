/**
 * The addresses of the attractor language: the same runs in its words.
 *
 * Owns: the ids of its events. Each id contains the sequence number of the event of the journal, so a
 *   client that lost the connection misses no event and gets none twice.
 */
import type { LoadedRun } from "../../app/loaded-run.ts";
import type { FollowedRun } from "../../app/look/followed-run.ts";
import { submittedFile } from "../../app/pipeline/pipeline-name.ts";
import { openQuestions } from "../../app/request/answer.ts";
import { answerQuestion, startRun } from "../../app/request/steer.ts";
import { stopRun } from "../../app/request/stop.ts";
import { runDrawing } from "../../view/graph/drawing.ts";
import { svgText } from "../../view/graph/svg.ts";
import { questionsJson } from "../../view/json/action-json.ts";
import type {
  pipelineCheckpoint,
  pipelineEvent,
  pipelineQuestions,
} from "../../view/json/attractor-documents.ts";
import { AttractorLog, AttractorProgress } from "../../view/json/attractor-log.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { timeJson } from "../../view/json/part-json.ts";
import { runStatusOf } from "../../view/step-status.ts";
import { isoText } from "../../view/text.ts";
import { askedRun, changesOf, changing, directoryOf } from "../dashboard.ts";
import { type StreamEvent, wholeNumber } from "../endpoint.ts";
import type { Routes } from "../endpoints.ts";

type PipelineEvent = DocumentOf<typeof pipelineEvent>;
type PipelineCheckpoint = DocumentOf<typeof pipelineCheckpoint>;

/** The events after which nothing happens until somebody continues the run. */
const ENDS: ReadonlySet<string> = new Set(["run.completed", "run.failed", "run.stopped"]);
/** How many events of the language one event of the journal can become. */
const EVENTS_PER_EVENT_MAX = 10_000;

/** The events of a run in the words of the language, until the run is over. */
async function* eventsOf(
  { plan, id: runId }: LoadedRun,
  changes: AsyncIterable<FollowedRun>,
  lastId: number,
): AsyncGenerator<StreamEvent<PipelineEvent>> {
  const progress = new AttractorProgress(plan);
  let seen = 0;
  let isOver = false;
  for await (const { known } of changes) {
    const news = known.events.slice(seen);
    seen += news.length;
    for (const recorded of news) {
      isOver = ENDS.has(recorded.event.type) || (isOver && recorded.event.type !== "run.opened");
      for (const [index, line] of progress.of(recorded, runId).entries()) {
        const id = recorded.seq * EVENTS_PER_EVENT_MAX + index;
        const value = line as unknown as PipelineEvent;
        if (id > lastId) yield { id, name: value.event, value };
      }
    }
    if (isOver) return;
  }
}

function checkpointOf({ plan, run, events }: LoadedRun, directory: string): PipelineCheckpoint {
  const log = new AttractorLog(plan);
  for (const recorded of events) log.add(recorded);
  const { perdure: _, ...json } = log.checkpoint(run, directory).json;
  return { ...(json as unknown as PipelineCheckpoint), context: Object.fromEntries(run.context) };
}

type QuestionType = DocumentOf<typeof pipelineQuestions>["questions"][number]["type"];

/** The type of a question in the words of the language; it follows from the possible answers. */
function questionType(
  text: "none" | "optional" | "required",
  choices: readonly { readonly label: string }[],
): QuestionType {
  if (text === "required" || choices.length === 0) return "FREEFORM";
  if (choices.length === 1) return "CONFIRMATION";
  const labels = choices.map(({ label }) => label.toLowerCase()).sort();
  return labels.join() === "no,yes" ? "YES_NO" : "MULTIPLE_CHOICE";
}

export const attractorRoutes = {
  submit: async (dashboard, { body: { dot_source: source, input, project } }) => {
    const directory = await directoryOf(dashboard, project);
    const pipeline = submittedFile(source);
    const { run_id: id, alive } = await startRun(directory, { pipeline, input });
    return { id, status: alive ? "running" : "completed" };
  },
  pipelineStatus: async (dashboard, { path }) => {
    const { known, project } = await askedRun(dashboard, path.run);
    const { run, plan, liveness } = known;
    const { current_node, completed_nodes } = checkpointOf(known, project.dir.root);
    const { state } = run;
    const outcome = { completed: "success", failed: "fail" } as const;
    return {
      id: known.id,
      name: plan.name,
      status: runStatusOf(run, liveness),
      outcome: state.status in outcome ? outcome[state.status as keyof typeof outcome] : null,
      current_node,
      completed_nodes,
      nodes_total: plan.graph.steps.length,
      started_at: timeJson(run.created?.time),
      updated_at: isoText(run.updatedAt),
      error: state.status === "failed" ? state.message : null,
    };
  },
  pipelineEvents: async (dashboard, { path, lastId, signal }) => {
    const asked = await askedRun(dashboard, path.run);
    const after = wholeNumber("Last-Event-ID", lastId) ?? 0;
    return eventsOf(asked.known, changesOf(dashboard, asked, signal), after);
  },
  cancel: async (dashboard, { path }) =>
    changing(dashboard, path.run, async (project, known) => {
      const { kind } = await stopRun(project, known.id, "now");
      return { id: known.id, outcome: kind };
    }),
  pipelineGraph: async (dashboard, { path }) => {
    const { plan, run, events, liveness } = (await askedRun(dashboard, path.run)).known;
    return {
      type: "image/svg+xml",
      body: svgText(runDrawing(plan, run, events, liveness)),
      headers: {
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
      },
    };
  },
  pipelineQuestions: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    const open = openQuestions(known).filter(({ answer }) => answer === undefined);
    const questions = questionsJson(known.id, open).questions.map((one) => ({
      id: `${one.step}@${one.visit}.${one.attempt}`,
      text: one.question,
      type: questionType(one.text, one.choices),
      options: one.choices.map(({ key, label }) => ({ key, label })),
      default: one.default,
      stage: one.step,
      deadline: one.deadline,
    }));
    return { id: known.id, questions };
  },
  pipelineAnswer: async (dashboard, { path, body: { value, text } }) =>
    changing(dashboard, path.run, async (project, known) => {
      const wanted = { choice: value ?? "", text };
      const { answer } = await answerQuestion(project, known, path.question, wanted);
      const { choice = null, text: said = null } = answer;
      return { id: known.id, question: path.question, value: choice, text: said };
    }),
  pipelineCheckpoint: async (dashboard, { path }) => {
    const { known, project } = await askedRun(dashboard, path.run);
    return checkpointOf(known, project.dir.root);
  },
  pipelineContext: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    return { id: known.id, context: Object.fromEntries(known.run.context) };
  },
} satisfies Partial<Routes>;
