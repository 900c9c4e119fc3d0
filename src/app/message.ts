/**
 * Leaves a message for the agent of a step (`perdure say`).
 *
 * Owns: recording it, by the owner of the run or, if it has none, by this process.
 * Does not: deliver it; an attempt of the step does (core/conversation/message.ts).
 * Invariants:
 * - The request is durable before it is reported. The next owner reads it, so a kill at any moment
 *   after that loses nothing.
 */

import { messagesFor } from "../core/conversation/message.ts";
import type { Message } from "../core/event.ts";
import { statusWord } from "../core/graph/visit-state.ts";
import {
  currentVisit,
  findRecord,
  type LeftMessage,
  type Run,
  type Scope,
  type StepRecord,
} from "../core/run.ts";
import { parseVisit, stepPath } from "../core/step-path.ts";
import { workspaceOf } from "../engine/launch.ts";
import { recordRequest } from "../engine/record.ts";
import { pendingAmong } from "../journal/inbox.ts";
import { takeLease } from "../journal/journal.ts";
import { indexOf } from "../plan/graph-index.ts";
import type { Plan, Step } from "../plan/plan.ts";
import { systemClock } from "../util/clock.ts";
import { failpoint } from "../util/failpoint.ts";
import { nearest } from "../util/nearest.ts";
import { newKey, reloadUntil } from "./ask-owner.ts";
import { type LoadedRun, loadRun, reloadRun } from "./loaded-run.ts";
import { isOwnerAlive, thisOwner, thisPerson } from "./owner.ts";
import type { Project } from "./project.ts";
import { command, Refusal, RunError } from "./refusal.ts";
import { RunFiles } from "./run-files.ts";

/** A new message from whoever uses this process. */
export function newMessage(text: string): Message {
  return { id: newKey(), text, by: thisPerson(), given: Date.now() };
}

/** The step whose agent gets the message. */
interface Recipient {
  readonly scope: string;
  readonly step: string;
}

/** The run after a message was left; `message` is absent until the run has recorded it. */
interface MessageResult {
  readonly known: LoadedRun;
  readonly message?: LeftMessage;
}

/** Leaves a message and waits until the run has recorded it, or its owner takes too long. */
export async function leaveMessage(
  project: Project,
  known: LoadedRun,
  { scope, step }: Recipient,
  message: Message,
): Promise<MessageResult> {
  await project.journal.inbox.send(known.id, { type: "message", scope, step, message });
  failpoint("say.recorded");
  const now = await reloadUntil(project, known, async (one) => {
    if (one.run.handled.has(message.id)) return one;
    // A process that has a conversation open reads no requests.
    if (one.liveness === "owned") return one.lease?.owner?.opens === undefined ? undefined : one;
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
    const places = { workspaceOf: workspaceOf(known.dir) };
    const site = {
      ...places,
      log: journal.log,
      plan: known.plan,
      run,
      epoch,
      now: systemClock().now(),
    };
    run = await recordRequest(site, { type: "message-left", scope, step, message });
  }
  if (run.seq === before) return { ...known, run };
  const now = await loadRun(project, known.id);
  RunFiles.open(now.dir, now.run, now, now.events).close(now.run);
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
  const { scope, step: id } = parseVisit(name);
  const found = [...stepsNamed(run, scope, id)];
  const [first, second] = found;
  if (first === undefined) throw unknownStep(known, name);
  if (second !== undefined) {
    const paths = found.map((one) => stepPath({ scope: one.scope.id, step: id })).join(", ");
    throw new Refusal("ambiguous-step", `${name} may be one of ${paths}: name one`);
  }
  if (!hasConversations(plan, first.step)) {
    const message = `step ${name} of run ${shortId} has no agent with a conversation`;
    throw new Refusal("unknown-step", message, command("show", shortId));
  }
  const record = findRecord(first.scope, id);
  const place = { scope: first.scope.id, step: id };
  return { ...place, path: stepPath(place), ...(record === undefined ? {} : { record }) };
}

interface Candidate {
  readonly scope: Scope;
  readonly step: Step;
}

/**
 * The step of that id in the named scope; if a name without a scope is not a step of the plan's own
 * graph, all steps of that id.
 */
function* stepsNamed(run: Run, scopeId: string, id: string): Generator<Candidate> {
  const exact = run.scopes.get(scopeId);
  const own = exact && stepIn(exact, id);
  if (exact !== undefined && own !== undefined) return yield { scope: exact, step: own };
  if (scopeId !== "") return;
  for (const scope of run.scopes.values()) {
    const step = stepIn(scope, id);
    if (step !== undefined) yield { scope, step };
  }
}

function stepIn({ graph }: Scope, id: string): Step | undefined {
  const position = indexOf(graph).byId.get(id);
  return position === undefined ? undefined : graph.steps[position];
}

function hasConversations(plan: Plan, { work }: Step): boolean {
  if (work.kind !== "agent") return false;
  const adapter = plan.agents[work.agent]?.adapter;
  return adapter !== undefined && adapter !== "command";
}

function unknownStep({ plan, run, shortId }: LoadedRun, name: string): Refusal {
  const ids = [...run.scopes.values()].flatMap(({ graph }) =>
    graph.steps.filter((step) => hasConversations(plan, step)).map(({ id }) => id),
  );
  const meant = nearest(name, ids);
  const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
  const message = `run ${shortId} has no step ${name}${hint}`;
  return new Refusal("unknown-step", message, command("show", shortId));
}

/** When an agent gets a message. */
export type Delivery =
  /** The owner of the run has not recorded it yet. */
  | "not-recorded"
  /** The step is over; its agent gets the message if the step runs again. */
  | "when-run-again"
  | "when-resumed"
  | "after-turn"
  | "at-start"
  | "next-attempt";

/** When the agent of a step gets the message that `leaveMessage` left. */
export function deliveryOf({ known, message }: MessageResult, { record }: AgentStep): Delivery {
  if (message === undefined) return "not-recorded";
  const visit = currentVisit(record);
  const status = visit === undefined ? "ready" : statusWord(visit.state);
  if (status === "completed" || status === "skipped" || status === "abandoned") {
    return "when-run-again";
  }
  if (known.liveness !== "owned") return "when-resumed";
  if (status === "running") return "after-turn";
  return status === "ready" ? "at-start" : "next-attempt";
}
