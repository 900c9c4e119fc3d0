/**
 * `perdure open RUN STEP`: opens the agent's own interactive program on the conversation of a step.
 *
 * Owns: the lease of the run while that program runs, so that nobody resumes it meanwhile.
 * Does not: continue the run; `perdure resume` does, in the same conversation.
 */
import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { type AgentStep, agentStepAt } from "../../app/agent-step.ts";
import { ownedError } from "../../app/execute.ts";
import { type KnownRun, loadRun, reloadOwned } from "../../app/known-run.ts";
import { newMessage, recordMessages } from "../../app/leave-message.ts";
import { refuseOpened } from "../../app/opened-step.ts";
import { isOwnerAlive, thisOwner } from "../../app/owner.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { stepPath } from "../../core/place.ts";
import { attemptOf, currentVisit, placeOf, type Visit } from "../../core/run.ts";
import { type OpenedAgent, openAgent } from "../../engine/agent-call.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { errorCode } from "../../runner/file-text.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { findMarked, OPEN_VARIABLE, openMarker, sweep } from "../../runner/process/sweep.ts";
import { perdure } from "../../view/command-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

/** What the agent is told of it when the run continues. */
const OPENED =
  "I opened this conversation in your own interactive program in between. What I said there counts.";

/** Opens the conversation, waits for the person to leave it, and says how the run continues. */
export async function openCommand(id: string, name: string): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const step = agentStepAt(known, name);
  refuseOwned(known, step);
  refuseOpened(known);
  const stopListening = listen();
  const { journal } = project;
  const acquired = journal.acquire(known.id, { ...thisOwner(), opens: step.path }, isOwnerAlive);
  if (!acquired.ok) throw ownedError(known.shortId, acquired.owner);
  const { epoch } = acquired;
  try {
    const owned = reloadOwned(project, known, { epoch });
    await openOwned(project, owned, agentStepAt(owned, name), epoch);
  } catch (error) {
    // After any other error the lease of a dead process is evidence enough.
    if (error instanceof Refusal) journal.release(known.id, epoch);
    throw error;
  }
  journal.release(known.id, epoch);
  stopListening();
  return EXIT.done;
}

/** Ctrl-C and the end of the terminal are for the program; this process outlives both. */
function listen(): () => void {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2", "SIGQUIT"] as const;
  const ignore = (): void => undefined;
  for (const signal of signals) process.on(signal, ignore);
  return () => {
    for (const signal of signals) process.off(signal, ignore);
  };
}

async function openOwned(
  project: Project,
  known: KnownRun,
  step: AgentStep,
  epoch: number,
): Promise<void> {
  const { visit, session } = conversationOf(known, step);
  const opened = openAgent({ ...known, env: { ...process.env } }, visit, session);
  if (typeof opened === "string") {
    const { shortId } = known;
    const message = `step ${step.path} of run ${shortId} cannot be opened: ${opened}`;
    throw new Refusal("no-conversation", message, command("say", shortId, step.path, "MESSAGE"));
  }
  if (!existsSync(opened.cwd)) {
    const message = `the workspace of step ${step.path} is gone: ${opened.cwd}`;
    throw new Refusal("no-workspace", message, command("resume", known.shortId));
  }
  const before = sizeOf(opened.transcript);
  await runProgram(known, opened);
  const left = findMarked(openMarker(known.id)).length;
  if (left > 0) await sweep(openMarker(known.id));
  if (visit.state.status !== "completed" && sizeOf(opened.transcript) !== before) {
    const { scope, step: id } = step;
    const request = { type: "say", scope, step: id, message: newMessage(OPENED) } as const;
    project.journal.request(known.id, request);
    recordMessages(project, loadRun(project, known.id), epoch);
  }
  for (const line of endLines(known, visit, left)) print(line);
}

/**
 * Refuses while a runner, or a step that outlived it, is at work: it may use the conversation at any
 * moment.
 */
function refuseOwned({ run, dir, lease, liveness, shortId }: KnownRun, step: AgentStep): void {
  const owner = liveness === "owned" ? lease?.owner : undefined;
  if (owner?.opens !== undefined) throw ownedError(shortId, owner);
  const living = [...run.running].filter(
    (visit) => owner !== undefined || mayLive(attemptDirOf(dir, attemptOf(visit))),
  );
  if (owner === undefined && living.length === 0) return;
  const paths = living.map((visit) => stepPath(placeOf(visit)));
  const first = paths.includes(step.path) ? step.path : paths[0];
  const what = first === undefined ? "its runner is at work" : `step ${first} is at work`;
  const message = `run ${shortId} cannot be opened while ${what}`;
  throw new Refusal("run-owned", message, command("stop", shortId, "--after-turn"));
}

/** The last conversation of a step, with the visit that it belongs to. */
function conversationOf(
  known: KnownRun,
  { record, path }: AgentStep,
): {
  readonly visit: Visit;
  readonly session: string;
} {
  const visit = currentVisit(record);
  const session = visit && (visit.talk?.session ?? lastSession(known, visit));
  if (visit !== undefined && session !== undefined) return { visit, session };
  const { shortId } = known;
  const message = `step ${path} of run ${shortId} has no conversation yet`;
  throw new Refusal("no-conversation", message, command("say", shortId, path, "MESSAGE"));
}

/** The conversation of the last attempt of a visit, whatever became of it. */
function lastSession({ events }: KnownRun, visit: Visit): string | undefined {
  const place = placeOf(visit);
  for (const { event } of events.toReversed()) {
    if (event.type !== "step.session" && event.type !== "step.started") continue;
    if (stepPath(event) !== stepPath(place) || event.visit !== place.visit) continue;
    const session = event.type === "step.session" ? event.session : event.conversation?.session;
    if (session !== undefined) return session;
  }
  return undefined;
}

/** Runs the program on this terminal until the person leaves it. */
async function runProgram(known: KnownRun, { argv, cwd, env }: OpenedAgent): Promise<void> {
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

function endLines({ run, shortId }: KnownRun, visit: Visit, left: number): readonly string[] {
  const ended = left === 0 ? [] : [`Ended ${left} processes that the program had left running.`];
  if (run.state.status === "completed") return [...ended, `Look: ${perdure("show", shortId)}`];
  const own = run.workspace !== undefined && run.workspace.kind !== "here";
  // Files that changed in a workspace of the run would else be taken for somebody else's.
  const cut = run.waiting.owner.size + run.running.size > 0;
  const files = own && !cut ? ["--files", "keep"] : [];
  const name = stepPath(placeOf(visit));
  const resume = perdure("resume", shortId, ...files);
  return [...ended, `The conversation of step ${name} continues with: ${resume}`];
}
