/**
 * `perdure open RUN STEP`: opens the agent's own interactive program on the conversation of a step.
 *
 * Owns: the lease of the run while that program runs, so that no process resumes the run meanwhile.
 * Does not: continue the run; `perdure resume` does, in the same conversation.
 */

import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { attemptOf, currentVisit, type Visit, visitRef } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { type OpenedAgent, openAgent } from "../engine/agent/agent-call.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { errorCode } from "../runner/file-text.ts";
import { mayLive } from "../runner/process/adopt.ts";
import { findMarked, OPEN_VARIABLE, openMarker, sweep } from "../runner/process/sweep.ts";
import { thisOwner } from "./drive/owner.ts";
import { asOwner, ownedError, refuseOfFleet, refuseOpened } from "./drive/ownership.ts";
import { type LoadedRun, loadRun, reloadOwned } from "./loaded-run.ts";
import type { Project } from "./project/project.ts";
import { command, Refusal } from "./refusal.ts";
import { type AgentStep, agentStepAt, newMessage, recordMessages } from "./request/message.ts";

/** The message for the agent when the run continues after an open conversation. */
const OPENED =
  "I opened this conversation in your own interactive program in between. What I said there counts.";

/** The result of an open conversation, after the person has left the program. */
interface OpenResult {
  /** How many processes the program left running; Perdure ended them. */
  readonly processesEnded: number;
  /** The run has completed, so the conversation does not continue. */
  readonly completed: boolean;
  readonly step: string;
  /** The arguments of the `perdure` command that continues the run. */
  readonly resume: readonly string[];
}

/** Opens the conversation of a step, and waits for the person to leave it. */
export async function openConversation(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  name: string,
): Promise<OpenResult> {
  refuseOfFleet(project, known, "perdure open");
  const step = agentStepAt(known, name);
  refuseOwned(known, step);
  refuseOpened(known);
  const stopIgnoring = ignoreSignals();
  const owner = { ...thisOwner(), opens: step.path };
  const result = await asOwner(project, known, owner, async (epoch) => {
    const owned = await reloadOwned(project, known, { epoch });
    return openOwned(project, owned, agentStepAt(owned, name), epoch);
  });
  stopIgnoring();
  return result;
}

/** Ignores the signals of the terminal, which are for the program; returns how to stop ignoring them. */
function ignoreSignals(): () => void {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  const ignore = (): void => undefined;
  for (const signal of signals) process.on(signal, ignore);
  return () => {
    for (const signal of signals) process.off(signal, ignore);
  };
}

async function openOwned(
  project: Project,
  known: LoadedRun,
  step: AgentStep,
  epoch: number,
): Promise<OpenResult> {
  const { visit, session } = conversationOf(known, step);
  const opened = openAgent({ ...known, env: { ...process.env } }, visit, session);
  if (typeof opened === "string") {
    const { shortId } = known;
    const message = `step ${step.path} of run ${shortId} cannot be opened: ${opened}`;
    throw new Refusal("no-conversation", message, command("say", shortId, step.path, "MESSAGE"));
  }
  if (!existsSync(opened.cwd)) {
    const message = `the workspace of step ${step.path} no longer exists: ${opened.cwd}`;
    throw new Refusal("no-workspace", message, command("resume", known.shortId));
  }
  const before = sizeOf(opened.transcript);
  await runProgram(known, opened);
  const processesEnded = findMarked(openMarker(known.id)).length;
  if (processesEnded > 0) await sweep(openMarker(known.id));
  if (visit.state.status !== "completed" && sizeOf(opened.transcript) !== before) {
    const { scope, step: id } = step;
    const request = { type: "message", scope, step: id, message: newMessage(OPENED) } as const;
    await project.journal.inbox.send(known.id, request);
    await recordMessages(project, await loadRun(project, known.id), epoch);
  }
  return resultOf(known, visit, processesEnded);
}

/**
 * Refuses while the run has a living owner or step, which may use the conversation at any moment.
 */
function refuseOwned({ run, dir, lease, liveness, shortId }: LoadedRun, step: AgentStep): void {
  const owner = liveness === "owned" ? lease?.owner : undefined;
  if (owner?.opens !== undefined) throw ownedError(shortId, owner);
  const living = [...run.running].filter(
    (visit) => owner !== undefined || mayLive(attemptDirOf(dir, attemptOf(visit))),
  );
  if (owner === undefined && living.length === 0) return;
  const paths = living.map((visit) => stepPath(visitRef(visit)));
  const first = paths.includes(step.path) ? step.path : paths[0];
  const what = first === undefined ? "its owner is running" : `step ${first} is running`;
  const message = `run ${shortId} cannot be opened while ${what}`;
  throw new Refusal("run-owned", message, command("stop", shortId, "--after-turn"));
}

/** The last conversation of a step, and its visit. */
function conversationOf(
  known: LoadedRun,
  { record, path }: AgentStep,
): {
  readonly visit: Visit;
  readonly session: string;
} {
  const visit = currentVisit(record);
  const session = visit && (visit.conversation?.session ?? lastSession(known, visit));
  if (visit !== undefined && session !== undefined) return { visit, session };
  const { shortId } = known;
  const message = `step ${path} of run ${shortId} has no conversation yet`;
  throw new Refusal("no-conversation", message, command("say", shortId, path, "MESSAGE"));
}

/** The conversation of the last attempt of a visit, however the attempt ended. */
function lastSession({ events }: LoadedRun, visit: Visit): string | undefined {
  const place = visitRef(visit);
  for (const { event } of events.toReversed()) {
    if (event.type !== "step.session" && event.type !== "step.started") continue;
    if (stepPath(event) !== stepPath(place) || event.visit !== place.visit) continue;
    const session = event.type === "step.session" ? event.session : event.conversation?.session;
    if (session !== undefined) return session;
  }
  return undefined;
}

/** Runs the program on this terminal until the person leaves it. */
async function runProgram(known: LoadedRun, { argv, cwd, env }: OpenedAgent): Promise<void> {
  const [program = "", ...args] = argv;
  const marked = { ...env, [OPEN_VARIABLE]: known.id };
  const child = spawn(program, args, { cwd, env: marked, stdio: "inherit" });
  await new Promise<void>((done, fail) => {
    child.on("exit", () => done());
    child.on("error", (error) => {
      const missing = errorCode(error) === "ENOENT";
      const message = `${program} cannot be started: ${missing ? "it is not found" : error.message}`;
      fail(new Refusal("no-program", message, command("doctor")));
    });
  });
}

function sizeOf(transcript: string): number | undefined {
  return statSync(transcript, { throwIfNoEntry: false })?.size;
}

function resultOf({ run, shortId }: LoadedRun, visit: Visit, processesEnded: number): OpenResult {
  const own = run.workspace !== undefined && run.workspace.kind !== "here";
  // Without `--files keep`, a resume would treat the person's changes in the run's own workspace as
  // foreign.
  const isInterrupted = run.waiting.owner.size + run.running.size > 0;
  return {
    processesEnded,
    completed: run.state.status === "completed",
    step: stepPath(visitRef(visit)),
    resume: ["resume", shortId, ...(own && !isInterrupted ? ["--files", "keep"] : [])],
  };
}
