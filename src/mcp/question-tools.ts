/**
 * The tools for what people are asked: the open questions of all runs with their material, and the
 * effects that a person has to settle.
 */
import { z } from "zod";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { lastQuestion, shownRun } from "../app/look/inspect.ts";
import { uncertainEffects } from "../app/look/machine-questions.ts";
import { hasRuns, type Project, resolveRunId } from "../app/project/project.ts";
import { openQuestions as openQuestionsOf } from "../app/request/answer.ts";
import { attemptOf } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { questionsJson, refJson } from "../view/json/action-json.ts";
import type { DocumentOf } from "../view/json/document-parts.ts";
import { openQuestions } from "../view/json/tool-documents.ts";
import { isoText } from "../view/text.ts";
import { run } from "./input.ts";
import { type AnyTool, type ToolCall, tool, withProject } from "./tool.ts";

/** How many runs that may wait for a person are looked at. */
const RUNS_MAX = 200;

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
  call: async ({ run: id }, call) => {
    const found = await questionedRuns(call, id);
    return {
      questions: found.flatMap(({ questions }) => questions),
      uncertain: found.flatMap(({ uncertain }) => uncertain),
    };
  },
});

async function questionedRuns(call: ToolCall, id: string | undefined): Promise<readonly Listed[]> {
  if (id === undefined && !(await hasRuns(call.directory))) return [];
  const questions = async (project: Project): Promise<readonly Listed[]> => {
    const found: Listed[] = [];
    for (const runId of await runsToAsk(project, id)) {
      found.push(questionsIn(shownRun(await loadRun(project, runId))));
    }
    return found;
  };
  return withProject(call, "read-only", questions, id);
}

async function runsToAsk({ journal }: Project, id: string | undefined): Promise<readonly string[]> {
  if (id !== undefined) return [await resolveRunId(journal, id)];
  const { runs } = await journal.log.search({ owned: [], asking: true, limit: RUNS_MAX });
  return runs.map(({ runId }) => runId);
}

function questionsIn(known: LoadedRun): Listed {
  const about = { run_id: known.id, pipeline: known.plan.name };
  const { questions } = questionsJson(known.id, openQuestionsOf(known));
  const byAttempt = openQuestionsOf(known).map(({ visit }) => attemptText(attemptOf(visit)));
  return {
    questions: questions.map((question, index) => ({
      ...about,
      ...question,
      material: materialOf(known, byAttempt[index] ?? question.step),
    })),
    uncertain: [...uncertainEffects(known)].map(({ at, since, message }) => {
      return { ...about, ...refJson(at), since: isoText(since), message };
    }),
  };
}

function materialOf(known: LoadedRun, attempt: string): Listed["questions"][number]["material"] {
  const { material = [] } = lastQuestion(known, attempt);
  return material.map(({ name, text, leftOut: left_out = 0 }) => ({ name, text, left_out }));
}

/** The tools for what people are asked. */
export const QUESTION_TOOLS: readonly AnyTool[] = [listQuestions];
