/**
 * Leaves a message for the agent of a step (`perdure say`). The request is durable before it is
 * reported, and the next owner reads it, so a kill after that loses nothing.
 *
 * Owns: recording it, by the owner of the run or, if it has none, by this process.
 * Does not: deliver it; an attempt of the step does (core/conversation/message.ts).
 */

import { messagesFor } from "../../core/conversation/message.ts";
import type { Message } from "../../core/event.ts";
import { statusWord } from "../../core/graph/visit-state.ts";
import { currentVisit, findStep, type LeftMessage, type StepRecord } from "../../core/run.ts";
import { parseStepPath, parseVisit, stepPath } from "../../core/step-path.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { recordRequest } from "../../engine/record.ts";
import { pendingAmong } from "../../journal/inbox.ts";
import { takeLease } from "../../journal/leases.ts";
import { indexOf } from "../../plan/graph-index.ts";
import type { Plan, Step } from "../../plan/plan.ts";
import { systemClock } from "../../util/clock.ts";
import { failpoint } from "../../util/failpoint.ts";
import { isOwnerAlive, thisOwner, thisPerson } from "../drive/owner.ts";
import { refuseMoved } from "../drive/ownership.ts";
import { completeRunFiles } from "../drive/run-files.ts";
import { type LoadedRun, loadRun, reloadRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { advice, command, Refusal, RunError } from "../refusal.ts";
import { newKey, reloadUntil } from "./ask-owner.ts";

/** A message goes into the journal and into a prompt; a longer text belongs in a file. */
const MESSAGE_CHARACTERS_MAX = 16_000;

/** A new message from the user of this process. */
export function newMessage(given: string): Message {
  const text = given.trim();
  if (text === "") throw new Refusal("bad-option", "the message is empty");
  if (text.length > MESSAGE_CHARACTERS_MAX) {
    throw new Refusal(
      "bad-option",
      `the message has ${text.length} characters; ${MESSAGE_CHARACTERS_MAX} are allowed`,
      advice("write it to a file, and send the agent the name of the file"),
    );
  }
  return { id: newKey(), text, by: thisPerson(), given: Date.now() };
}

/** A message that was left: the step whose agent gets it, and when. */
interface SentMessage {
  readonly known: LoadedRun;
  readonly step: string;
  readonly delivery: Delivery;
}

/** Leaves a message for the agent of the step of that name. */
export async function sendMessage(
  project: Project,
  known: LoadedRun,
  name: string,
  text: string,
): Promise<SentMessage> {
  refuseMoved(known);
  const message = newMessage(text);
  const left = await leaveMessage(project, known, agentStepAt(known, name), message);
  const step = agentStepAt(left.known, name);
  return { known: left.known, step: step.path, delivery: deliveryOf(left, step) };
}

/** The run after a message was left; `message` is absent until the run has recorded it. */
interface MessageResult {
  readonly known: LoadedRun;
  readonly message?: LeftMessage;
}

/** Leaves a message and waits until the run has recorded it, or its owner takes too long. */
async function leaveMessage(
  project: Project,
  known: LoadedRun,
  { scope, step }: Pick<AgentStep, "scope" | "step">,
  message: Message,
): Promise<MessageResult> {
  await project.journal.inbox.send(known.id, { type: "message", scope, step, message });
  failpoint("say.recorded");
  const now = await reloadUntil(project, known, async (one) => {
    if (one.run.handled.has(message.id)) return one;
    // A process that has a conversation open reads no requests.
    if (one.liveness === "owned") return one.lease?.owner?.opens === undefined ? undefined : one;
    // A run of a fleet keeps it for the worker that continues the run.
    if (project.workers !== undefined) return one;
    await takeMessages(project, one);
    const after = await reloadRun(project, one);
    return after.run.handled.has(message.id) ? after : undefined;
  });
  const left = messagesFor(now.run, { scope, step }).find(({ id }) => id === message.id);
  return left === undefined ? { known: now } : { known: now, message: left };
}

/** Owns the run for a moment to record the messages in its inbox. */
async function takeMessages(project: Project, known: LoadedRun): Promise<void> {
  const { journal } = project;
  const acquired = await takeLease(journal.leases, known.id, {
    owner: thisOwner(),
    isAlive: isOwnerAlive,
  });
  // If another process was faster, it records them.
  if (acquired.ok) {
    try {
      await recordMessages(project, await loadRun(project, known.id), acquired.epoch);
    } catch (error) {
      throw new RunError(known.shortId, error);
    }
    await journal.leases.release(known.id, acquired.epoch);
  }
}

/**
 * Records all messages in the inbox of a run that this process owns; returns the run after that.
 */
export async function recordMessages(
  project: Project,
  known: LoadedRun,
  epoch: number,
): Promise<LoadedRun> {
  const { journal } = project;
  let { run } = known;
  const before = run.seq;
  for (const request of pendingAmong(await journal.inbox.after(known.id, 0), run)) {
    if (request.type !== "message") continue;
    const { scope, step, message } = request;
    const { plan, dir } = known;
    const owned = { log: journal.log, epoch, workspaceOf: workspaceOf(dir) };
    const site = { ...owned, plan, run, now: systemClock().now() };
    run = await recordRequest(site, { type: "message-left", scope, step, message });
  }
  if (run.seq === before) return { ...known, run };
  const now = await loadRun(project, known.id);
  completeRunFiles(now);
  return now;
}

/** A step with an agent that has conversations. */
export interface AgentStep {
  readonly scope: string;
  readonly step: string;
  /** `review`, or `each@1.1[3]/review`. */
  readonly path: string;
  /** Its record in the run; absent before its first visit. */
  readonly record?: StepRecord;
}

/** The step of that name. Throws a refusal that suggests names. */
export function agentStepAt(known: LoadedRun, name: string): AgentStep {
  const { plan, run, shortId } = known;
  if (known.cleanedAt !== undefined) {
    const message = `run ${shortId} cannot continue: its files were removed`;
    throw new Refusal("files-removed", message, command("why", shortId));
  }
  const place = parseStepPath(stepPath(parseVisit(stepNamed(known, name))));
  const graph = run.scopes.get(place.scope)?.graph;
  const position = graph && indexOf(graph).byId.get(place.step);
  const step = position === undefined ? undefined : graph?.steps[position];
  if (step === undefined || !hasConversations(plan, step)) {
    const message = `step ${name} of run ${shortId} has no agent with a conversation`;
    throw new Refusal("unknown-step", message, command("show", shortId));
  }
  const path = stepPath(place);
  const record = findStep(run, path);
  return { ...place, path, ...(record === undefined ? {} : { record }) };
}

function hasConversations(plan: Plan, { work }: Step): boolean {
  if (work.kind !== "agent") return false;
  const adapter = plan.agents[work.agent]?.adapter;
  return adapter !== undefined && adapter !== "command";
}

/** When an agent gets a message. */
export type Delivery =
  /** The owner of the run has not recorded it yet. */
  | "not-recorded"
  /** The step has ended; its agent gets the message if the step runs again. */
  | "when-run-again"
  | "when-resumed"
  | "after-turn"
  | "at-start"
  | "next-attempt";

/** When the agent of a step gets the message that `leaveMessage` left. */
function deliveryOf({ known, message }: MessageResult, { record }: AgentStep): Delivery {
  if (message === undefined) return known.liveness === "owned" ? "not-recorded" : "when-resumed";
  const visit = currentVisit(record);
  const status = visit === undefined ? "ready" : statusWord(visit.state);
  if (status === "completed" || status === "skipped" || status === "abandoned") {
    return "when-run-again";
  }
  if (known.liveness !== "owned") return "when-resumed";
  if (status === "running") return "after-turn";
  return status === "ready" ? "at-start" : "next-attempt";
}
