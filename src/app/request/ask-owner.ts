/**
 * Asks the living owner of a run for something: sends a request, and waits until the run has handled
 * it. A run that workers of a fleet drive can also be queued again.
 *
 * Owns: which runs take requests, how long the asker waits, the result that it gets, and which options
 * need the machine of the run.
 * Does not: handle a request; the owner does, or the next one (core/request.ts).
 */
import { randomBytes } from "node:crypto";
import type { Owner, RefusedRequest } from "../../core/event.ts";
import { lastAttemptText } from "../../core/graph/retry.ts";
import { parseVisit, stepPath } from "../../core/step-path.ts";
import { keyOf, type LastingRequest } from "../../journal/inbox.ts";
import type { Budget } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { thisPerson } from "../drive/owner.ts";
import { refuseOfFleet, unavailable } from "../drive/ownership.ts";
import { type LoadedRun, reloadRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import { isElsewhere, type Project } from "../project/project.ts";
import { command, type Next, Refusal, type RefusalCode, when } from "../refusal.ts";
import { namesOf, type RewindRequest } from "../rewind/rewind-preview.ts";

const KEY_BYTES = 6;
/** How long a command waits for the owner to handle its request. */
const HANDLED_MS_MAX = 10_000;
/** The same for an owner that was just started, which loads the run first. */
const STARTED_MS_MAX = 60_000;

/** The key of a new request, unique among all journals. */
export function newKey(): string {
  return randomBytes(KEY_BYTES).toString("hex");
}

/** The owner of a run, if it is alive and reads requests. */
export function askableOwner({ liveness, lease }: LoadedRun): Owner | undefined {
  const owner = liveness === "owned" ? lease?.owner : undefined;
  return owner?.opens !== undefined || isElsewhere(lease) ? undefined : owner;
}

/** True when requests reach a run: its owner is alive and reads them, or workers drive it. */
export function takesRequests({ workers }: Project, known: LoadedRun): boolean {
  const isDrivenByWorkers = workers !== undefined && known.lease?.owner?.place === undefined;
  return isDrivenByWorkers || askableOwner(known) !== undefined;
}

/** The result of a request that the run did not refuse. */
export interface AskResult {
  /** If the owner ended before it handled the request, or did not read it in time, it stays pending. */
  readonly outcome: "handled" | "owner-ended" | "not-read";
  readonly known: LoadedRun;
  /** The steps of the pipeline that run again because of it, if it rewound the run. */
  readonly reopened?: readonly string[];
}

/** Starts an owner for a run that has none. */
type StartOwner = (now: LoadedRun) => Promise<unknown>;

/**
 * Sends a request and waits until the run has handled it. Throws the run's refusal. If the run has no
 * owner, `start` gives it one, which finds the request.
 */
export async function askOwner(
  project: Project,
  known: LoadedRun,
  request: LastingRequest,
  { typed, start }: { readonly typed: readonly string[]; readonly start?: StartOwner | undefined },
): Promise<AskResult> {
  const key = keyOf(request) ?? "";
  const { workers } = project;
  const isDriven = ({ liveness }: LoadedRun): boolean =>
    workers !== undefined || liveness === "owned";
  const handled = async (one: LoadedRun): Promise<LoadedRun | undefined> =>
    one.run.handled.has(key) || !isDriven(one) ? one : undefined;
  await project.journal.inbox.send(known.id, request);
  failpoint("request.sent");
  await workers?.want(known.id);
  let now = await reloadUntil(project, known, handled);
  if (start !== undefined && !now.run.handled.has(key) && !isDriven(now)) {
    await start(now);
    now = await reloadUntil(project, now, handled, STARTED_MS_MAX);
  }
  if (!now.run.handled.has(key)) {
    return { outcome: isDriven(now) ? "not-read" : "owner-ended", known: now };
  }
  const { refused, reopened } = handlingOf(now, key);
  if (refused === undefined) return { outcome: "handled", known: now, ...defined({ reopened }) };
  const { code, message, next = nextFor(code, now.shortId, typed) } = refused;
  throw new Refusal(code as RefusalCode, message, next);
}

/**
 * Reloads a run each time that its log changes, until `found` returns a run or the time is up. Do
 * not use `known` afterwards: reloading reuses its parts.
 */
export async function reloadUntil(
  project: Project,
  known: LoadedRun,
  found: (now: LoadedRun) => Promise<LoadedRun | undefined>,
  timeoutMs = HANDLED_MS_MAX,
): Promise<LoadedRun> {
  const subscription = project.journal.log.subscribe(known.id);
  const timer = setTimeout(() => subscription.close(), timeoutMs);
  let now = known;
  try {
    do {
      now = await reloadRun(project, now);
      const one = await found(now);
      if (one !== undefined) return one;
    } while (await subscription.changed());
    // An owner that was killed wakes nobody, so read once more.
    return await reloadRun(project, now);
  } finally {
    clearTimeout(timer);
    subscription.close();
  }
}

/** How a run handled a request: why it refused it, or which steps run again. */
function handlingOf(
  { events }: LoadedRun,
  key: string,
): { readonly refused?: RefusedRequest | undefined; readonly reopened?: readonly string[] } {
  const index = events.findLastIndex(
    ({ event }) => event.type === "request.handled" && event.request === key,
  );
  const [handled, caused] = events.slice(index, index + 2).map(({ event }) => event);
  const refused = handled?.type === "request.handled" ? handled.refused : undefined;
  return caused?.type === "run.rewound" ? { refused, reopened: caused.reopened } : { refused };
}

/** The next command after the core refused a request. */
function nextFor(code: string, shortId: string, typed: readonly string[]): readonly Next[] {
  if (code !== "step-running") return [command("show", shortId)];
  return [command("stop", shortId), when("when it has stopped", ...typed)];
}

/** Asks the owner to retry a step, or to rewind to one. */
export async function askForRewind(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest,
  start?: StartOwner,
): Promise<AskResult> {
  const { verb, files, failed, items, turns, repeat } = wanted;
  const step = stepNamed(known, wanted.step);
  const about = { key: newKey(), by: thisPerson(), step, ...defined({ files, repeat }) };
  const typed = [
    verb,
    known.shortId,
    ...namesOf({ ...wanted, step }),
    ...(files === undefined ? [] : ["--files", files]),
  ];
  const ask = { typed, start };
  if (verb === "rewind") return askOwner(project, known, { type: "rewind", ...about }, ask);
  const attempt = lastAttemptText(known.run, {
    step: stepPath(parseVisit(step)),
    ...defined({ items }),
  });
  const more = { ...(failed === true ? { failed } : {}), ...defined({ items, turns, attempt }) };
  return askOwner(project, known, { type: "retry", ...about, ...more }, ask);
}

/** Asks the owner to add to the budget. */
export async function askForBudget(
  project: Project,
  known: LoadedRun,
  added: Budget,
  start?: StartOwner,
): Promise<AskResult> {
  const request = { type: "add-budget", key: newKey(), by: thisPerson(), added } as const;
  return askOwner(project, known, request, { typed: ["resume", known.shortId], start });
}

/** Queues a run so that a worker continues it. Refuses a run that has completed or has an owner. */
export async function resumeByWorkers({ workers }: Project, known: LoadedRun): Promise<void> {
  const { id, run, shortId } = known;
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  if (run.state.status === "completed") {
    throw new Refusal("impossible", `run ${shortId} has completed`, command("show", shortId));
  }
  await workers?.resume(id, run.seq);
}

/** Refuses options that only the process that drives the run can follow. */
export function refuseOptions(
  project: Project,
  known: LoadedRun,
  options: Readonly<Record<string, unknown>>,
): void {
  const given = Object.entries(options).find(([, value]) => value !== undefined && value !== false);
  if (given === undefined) return;
  const option = given[0].replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  refuseOfFleet(project, known, `--${option}`);
}
