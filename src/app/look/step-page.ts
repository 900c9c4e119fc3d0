/**
 * Everything about one step, for its page: its settings, all its visits and attempts with their
 * evidence, what it passed on, what it asks, and why it ran.
 */
import { relative } from "node:path";
import type { RunEvent } from "../../core/event.ts";
import { currentVisit, findStep, findVisit, isComposite, stepOf } from "../../core/run.ts";
import { attemptText, parseVisit, stepPath } from "../../core/step-path.ts";
import { fingerprintsOf } from "../../plan/fingerprint.ts";
import { indexOf } from "../../plan/graph-index.ts";
import type { Step } from "../../plan/plan.ts";
import { type Explained, explainLines, explainStep } from "../../view/explain.ts";
import { questionsJson } from "../../view/json/action-json.ts";
import type { stepPage } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { type AttemptFiles, settingsJson, stepAttemptsJson } from "../../view/json/step-json.ts";
import { messagesJson } from "../../view/message-text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { agentOf, hasConversation, promptOf } from "../output/conversation.ts";
import { type AttemptStart, writtenOutput } from "../output/output-part.ts";
import { stepNamed } from "../project/step-name.ts";
import { openQuestions } from "../request/answer.ts";
import { packageVersion } from "../this-process.ts";
import { artifactsIn } from "./run-content.ts";

/** How many attempts have their prompt and their files looked up: the newest. */
const ATTEMPTS_LOOKED_AT = 200;

/** The page of a step, without its row. */
type StepPage = Omit<DocumentOf<typeof stepPage>, "row">;

/** The path of the step that a name means, whatever visit or attempt it names. */
export function stepMeant(known: LoadedRun, name: string): string {
  return stepPath(parseVisit(stepNamed(known, name)));
}

/** Everything about a step, by its path. */
export async function stepPageOf(known: LoadedRun, path: string): Promise<StepPage> {
  const { run, events, id } = known;
  const own = events.filter(({ event }) => isOf(event, path));
  const explained = explainedOf(known, path);
  const files = await attemptFiles(known, own.map(({ event }) => event).filter(isStart));
  const input = { run, events, explained, engineVersion: packageVersion() };
  const visit = currentVisit(findStep(run, path));
  const asked = openQuestions(known).filter((one) => one.visit === visit);
  const [question] = questionsJson(id, asked).questions;
  const step = planned(known, path);
  return {
    run_id: id,
    settings: step === undefined ? {} : settingsJson(step),
    attempts: stepAttemptsJson(input, (at) => files.get(attemptText(at)) ?? NO_FILES),
    artifacts: artifactsIn(own).map(({ path: file, sha256, bytes, media, name }) => ({
      ...{ path: shownFile(known, file), sha256, bytes, media, name },
    })),
    question: question ?? null,
    messages: messagesJson(run).filter((message) => message.step === path),
    explained: explainLines(explained),
  };
}

/** The path of a file from the workspace of the run; a file outside of it keeps its whole path. */
function shownFile({ run }: LoadedRun, file: string): string {
  const base = run.workspace?.path ?? run.created?.cwd ?? "";
  const path = relative(base, file);
  return path.startsWith("..") ? file : path;
}

function isOf(event: RunEvent, path: string): boolean {
  return "scope" in event && "step" in event && stepPath(event) === path;
}

function isStart(event: RunEvent): event is AttemptStart {
  return event.type === "step.started";
}

function explainedOf({ events, plan }: LoadedRun, path: string): Explained {
  const hash = fingerprintsOf(plan).get(path)?.hash;
  const nothing = { step: path, attempts: [], kept: [], now: "It has not run yet." };
  return explainStep(events, path, hash) ?? nothing;
}

/** The step in the plan; undefined for one that an update removed. */
function planned({ run, plan }: LoadedRun, path: string): Step | undefined {
  const record = findStep(run, path);
  if (record !== undefined) return stepOf(record);
  const position = indexOf(plan.graph).byId.get(path);
  return position === undefined ? undefined : plan.graph.steps[position];
}

const NO_FILES: AttemptFiles = { agent: null, prompt: null, output: [], conversation: false };

async function attemptFiles(
  known: LoadedRun,
  starts: readonly AttemptStart[],
): Promise<ReadonlyMap<string, AttemptFiles>> {
  const found = new Map<string, AttemptFiles>();
  for (const at of starts.slice(-ATTEMPTS_LOOKED_AT)) {
    const visit = findVisit(known.run, at);
    const step = visit && stepOf(visit);
    if (step === undefined || isComposite(step)) continue;
    const command = step.work.kind === "shell" ? step.work.run : undefined;
    const output = await writtenOutput(known, at);
    found.set(attemptText(at), {
      agent: agentOf(known, at) ?? null,
      prompt: promptOf(known, at) ?? command ?? null,
      output: output.map(({ name, mark, bytes }) => ({
        file: name,
        label: mark ?? (name.startsWith("stderr") ? "errors" : "output"),
        bytes,
      })),
      conversation: hasConversation(known, at),
    });
  }
  return found;
}
