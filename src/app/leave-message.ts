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
import type { Message } from "../core/event.ts";
import { messagesFor } from "../core/message.ts";
import type { LeftMessage } from "../core/run.ts";
import { workspaceOf } from "../engine/launch.ts";
import { settle } from "../engine/settle.ts";
import { takeLease } from "../journal/journal.ts";
import { systemClock } from "../util/clock.ts";
import { failpoint } from "../util/failpoint.ts";
import { type KnownRun, loadRun, reloadRun } from "./known-run.ts";
import { isOwnerAlive, thisOwner, thisPerson } from "./owner.ts";
import type { Project } from "./project.ts";
import { RunError } from "./refusal.ts";
import { RunFiles } from "./run-files.ts";

const ID_BYTES = 6;
/** How long an owner has to take a message in while somebody waits for that. */
const TAKEN_MS_MAX = 10_000;

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
  await journal.inbox.send(known.id, { type: "message", scope, step, message });
  failpoint("say.recorded");
  const subscription = journal.log.subscribe(known.id);
  const patience = setTimeout(() => subscription.close(), TAKEN_MS_MAX);
  try {
    let now = known;
    do {
      now = await reloadRun(project, now);
      if (now.liveness !== "owned") {
        await takeMessages(project, now);
        now = await reloadRun(project, now);
      }
      const left = messagesFor(now.run, { scope, step }).find(({ id }) => id === message.id);
      if (left !== undefined) return { known: now, message: left };
    } while (now.lease?.owner?.opens === undefined && (await subscription.changed()));
    return { known: now };
  } finally {
    clearTimeout(patience);
    subscription.close();
  }
}

/** Records, as the owner of the run for a moment, what was left for its agents. */
async function takeMessages(project: Project, known: KnownRun): Promise<void> {
  const { journal } = project;
  const acquired = await takeLease(journal.leases, known.id, {
    owner: thisOwner(),
    isAlive: isOwnerAlive,
  });
  // If somebody else was faster, that process takes them in.
  if (acquired.ok) {
    try {
      await recordMessages(project, await loadRun(project, known.id), acquired.epoch);
    } catch (error) {
      throw new RunError(known.shortId, error);
    }
    await journal.leases.release(known.id, acquired.epoch);
  }
}

/** Takes all messages that were left into a run whose lease is ours; gives the run after that. */
export async function recordMessages(
  project: Project,
  known: KnownRun,
  epoch: number,
): Promise<KnownRun> {
  const { journal } = project;
  let { run } = known;
  const before = run.seq;
  for (const request of await journal.inbox.after(known.id, 0)) {
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
    run = await settle(site, { type: "message-left", scope, step, message });
  }
  if (run.seq === before) return { ...known, run };
  const now = await loadRun(project, known.id);
  RunFiles.open(now.dir, now.run, now, now.events).close(now.run);
  return now;
}
