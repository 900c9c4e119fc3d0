/**
 * Leaves a message for the agent of a step (`perdure say`).
 *
 * Owns: recording it, by the owner of the run or, when nobody owns it, by this process.
 * Does not: deliver it; an attempt of the step does (core/message.ts).
 * Invariants:
 * - The request is durable before anybody is told of it. Whoever owns the run next takes it in, so a
 *   kill at any moment after that loses nothing.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Message } from "../core/event.ts";
import { messagesFor } from "../core/message.ts";
import type { LeftMessage } from "../core/run.ts";
import { workspaceOf } from "../engine/launch.ts";
import { settle } from "../engine/settle.ts";
import { errorCode } from "../runner/file-text.ts";
import { systemClock } from "../util/clock.ts";
import { failpoint } from "../util/failpoint.ts";
import { type KnownRun, loadRun, reloadRun } from "./known-run.ts";
import { isOwnerAlive, thisOwner, thisPerson, wake } from "./owner.ts";
import { livenessOf, type Project } from "./project.ts";
import { RunError } from "./refusal.ts";
import { RunFiles } from "./run-files.ts";

const ID_BYTES = 6;
/** How long an owner has to take a message in while somebody waits for that. */
const TAKEN_MS_MAX = 10_000;
const LOOK_MS = 25;

/** A new message from whoever uses this process. */
export function newMessage(text: string): Message {
  const id = randomBytes(ID_BYTES).toString("hex");
  return { id, text, by: thisPerson(), given: Date.now() };
}

/** Whom a message is for. */
interface Recipient {
  readonly scope: string;
  readonly step: string;
}

/** What became of a message: the run that knows it, or the owner that has not taken it in yet. */
export interface LeftResult {
  readonly known: KnownRun;
  readonly message?: LeftMessage;
}

/** Leaves a message and waits until it is part of the run, or its owner takes too long. */
export async function leaveMessage(
  project: Project,
  known: KnownRun,
  { scope, step }: Recipient,
  message: Message,
): Promise<LeftResult> {
  const { journal } = project;
  journal.request(known.id, { type: "say", scope, step, message });
  failpoint("say.recorded");
  let now = known;
  for (let waitedMs = 0; waitedMs <= TAKEN_MS_MAX; waitedMs += LOOK_MS) {
    now = reloadRun(project, now);
    const left = messagesFor(now.run, { scope, step }).find(({ id }) => id === message.id);
    if (left !== undefined) return { known: now, message: left };
    if (now.liveness !== "owned") takeMessages(project, now);
    else {
      if (waitedMs === 0) wakeOwner(project, known.id);
      if (now.lease?.owner?.opens !== undefined) break;
      await sleep(LOOK_MS);
    }
  }
  return { known: now };
}

/** Records, as the owner of the run for a moment, what was left for its agents. */
function takeMessages(project: Project, known: KnownRun): void {
  const { journal } = project;
  // As an owner it may be asked to stop; it is done before it could.
  const ignore = (): void => undefined;
  process.on("SIGUSR2", ignore);
  const acquired = journal.acquire(known.id, thisOwner(), isOwnerAlive);
  // If somebody else was faster, that process takes them in.
  if (acquired.ok) {
    try {
      recordMessages(project, loadRun(project, known.id), acquired.epoch);
    } catch (error) {
      throw new RunError(known.shortId, error);
    }
    journal.release(known.id, acquired.epoch);
  }
  process.off("SIGUSR2", ignore);
}

/** Takes all messages that were left into a run whose lease is ours; gives the run after that. */
export function recordMessages(project: Project, known: KnownRun, epoch: number): KnownRun {
  const { journal } = project;
  let { run } = known;
  const before = run.seq;
  for (const request of journal.requestsAfter(known.id, 0)) {
    if (request.type !== "say") continue;
    const { scope, step, message } = request;
    const places = { workspaceOf: workspaceOf(known.dir) };
    const site = { ...places, journal, plan: known.plan, run, epoch, now: systemClock().now() };
    run = settle(site, { type: "message-left", scope, step, message });
  }
  if (run.seq === before) return { ...known, run };
  const now = loadRun(project, known.id);
  RunFiles.open(now.dir, now.run, now, now.events).close(now.run);
  return now;
}

function wakeOwner({ journal }: Project, runId: string): void {
  const lease = journal.leaseOf(runId);
  if (lease?.owner === undefined || livenessOf(lease) !== "owned") return;
  try {
    wake(lease.owner);
  } catch (error) {
    // It has ended since; whoever comes next takes the message in.
    if (errorCode(error) !== "ESRCH") throw error;
  }
}
