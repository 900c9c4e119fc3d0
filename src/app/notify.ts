/**
 * Delivers notices about a run to shell commands and webhooks (`notify`).
 *
 * A process of its own delivers them, the notifier: the owner of the run starts it and never waits for it,
 * and it outlives the owner. Which notices are due follows from the events (view/notification.ts) and from
 * `notices.json` in the run's folder, which says what was delivered. So if a notifier is killed, the next
 * one delivers the rest: at least once. Without that file, all notices are delivered again.
 *
 * Owns: the delivery, its limits, its note, and the claim that lets one notifier work on a run.
 * Does not: change the run.
 * Invariants:
 * - notify/N2 A notice is noted as sent only after its receiver has accepted it.
 * - notify/N3 No event is missed: after a notifier has released its claim, it looks once more.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Recorded } from "../core/event.ts";
import { textOf } from "../runner/file-text.ts";
import { type Identity, ownIdentity, processLiveness } from "../runner/process/identity.ts";
import { isObject, parseJson } from "../util/json.ts";
import {
  hasNotices,
  type KnownNotice,
  type Notice,
  type NoticeDelivery,
  noticesOf,
} from "../view/notification.ts";
import { firstLine, isoText } from "../view/text.ts";
import { why } from "../view/why.ts";
import { type LoadedRun, reloadRun, whyInputOf } from "./loaded-run.ts";
import { masked, maskedJson } from "./output/secret-mask.ts";
import type { Project } from "./project/project.ts";
import { packageDirectory } from "./this-process.ts";

/** How long one receiver may take. */
const RECEIVER_MS_MAX = 60_000;
/** The pauses between the attempts of one notice; after the last, a person has to ask again. */
const PAUSES_MS = [2_000, 10_000, 60_000, 300_000, 1_800_000, 7_200_000, 21_600_000];
/** A notifier ends when the next attempt is later than this; the next one continues. */
const WAIT_MS_MAX = 300_000;
/** How much of the text of an error is noted. */
const ERROR_CHARACTERS_MAX = 300;

/** Starts a notifier for what is due already; the result starts one for each later notice. */
export function watchNotices(known: LoadedRun): (events: readonly Recorded[]) => void {
  if (dueNotices(known, false).length > 0) startNotifier(known);
  return (events) => {
    if (hasNotices(events)) startNotifier(known);
  };
}

/**
 * Starts a notifier if something is due and none works on it. Returns the time of the next attempt;
 * undefined when nothing is left to deliver.
 */
export function continueNotices(known: LoadedRun): number | undefined {
  const wait = nextWait(known);
  if (wait === undefined) return undefined;
  if (wait === 0 && !isClaimed(join(known.dir.root, CLAIM_FILE))) startNotifier(known);
  return Date.now() + wait;
}

/** Starts a notifier for a run, which nobody waits for. */
function startNotifier({ id, dir }: Pick<LoadedRun, "id" | "dir">): void {
  const program = join(packageDirectory(), "bin", "perdure.js");
  // From `.perdure/runs/<id>` to the project.
  const project = dirname(dirname(dirname(dir.root)));
  const child = spawn(process.execPath, [program, "-C", project, "notify", id, "--background"], {
    detached: true,
    stdio: "ignore",
  });
  // The run does not depend on it; what is due is still due for the next notifier.
  child.on("error", () => undefined);
  child.unref();
}

/** What the notifier did, and what it leaves. */
interface DeliveryReport {
  readonly sent: number;
  /** Notices whose next attempt is due later, or that have none left. */
  readonly unsent: number;
}

/**
 * Delivers what is due, and waits for attempts that are due soon. If a person asks, notices that have no
 * attempt left get another one, and nothing waits.
 */
export async function deliverNotices(
  project: Project,
  known: LoadedRun,
  { byPerson = false } = {},
): Promise<DeliveryReport> {
  let sent = 0;
  let now = known;
  let asked = byPerson;
  for (;;) {
    if (!claim(now)) return { sent, unsent: undelivered(now).length };
    try {
      for (;;) {
        const due = dueNotices(now, asked);
        asked = false;
        if (due.length > 0) sent += await deliverAll(now, due);
        // Another machine delivers what is left, and not everything again.
        if (due.length > 0) await project.workers?.keepFile(now.id, NOTE_FILE);
        now = await reloadRun(project, now);
        const wait = nextWait(now);
        if (wait === undefined || wait > WAIT_MS_MAX || (byPerson && wait > 0)) break;
        await setTimeout(wait);
        now = await reloadRun(project, now);
      }
    } finally {
      rmSync(join(now.dir.root, CLAIM_FILE), { force: true });
    }
    now = await reloadRun(project, now);
    if (nextWait(now) !== 0) return { sent, unsent: undelivered(now).length };
  }
}

/** The notices of a run with their deliveries, in order. */
export function noticesIn({ id, plan, events, dir }: LoadedRun): readonly KnownNotice[] {
  if (plan.notify === undefined) return [];
  const deliveries = readDeliveries(dir.root, id);
  return noticesOf(events, plan.notify).map((notice) => ({
    notice,
    delivery: deliveries[notice.id],
  }));
}

function undelivered(known: LoadedRun): readonly KnownNotice[] {
  return noticesIn(known).filter(({ delivery }) => delivery?.sentAt === undefined);
}

/** The notices whose next attempt is due; if a person asks, all that were not delivered. */
function dueNotices(known: LoadedRun, byPerson: boolean): readonly Notice[] {
  const now = Date.now();
  return undelivered(known)
    .filter(({ delivery }) => byPerson || dueTime(delivery) <= now)
    .map(({ notice }) => notice);
}

/** When the next attempt is due: at once for a new notice, never when none is left. */
function dueTime(delivery: NoticeDelivery | undefined): number {
  if (delivery === undefined) return 0;
  return delivery.nextAt ?? Number.POSITIVE_INFINITY;
}

/** The time until the next attempt; undefined when nothing is left to deliver. */
function nextWait(known: LoadedRun): number | undefined {
  const times = undelivered(known).map(({ delivery }) => dueTime(delivery));
  const next = Math.min(...times);
  return Number.isFinite(next) ? Math.max(0, next - Date.now()) : undefined;
}

/** Delivers notices side by side, so that a slow receiver delays no other; returns how many were sent. */
async function deliverAll(known: LoadedRun, due: readonly Notice[]): Promise<number> {
  let sent = 0;
  await Promise.all(
    due.map(async (notice) => {
      const error = await deliver(known, notice);
      if (error === undefined) sent++;
      note(known, notice, error);
    }),
  );
  return sent;
}

function note({ id, dir }: LoadedRun, notice: Notice, error: string | undefined): void {
  const before = readDeliveries(dir.root, id);
  const attempts = (before[notice.id]?.attempts ?? 0) + 1;
  const pause = PAUSES_MS[attempts - 1];
  const failed = {
    attempts,
    error: masked(firstLine(error ?? "")).slice(0, ERROR_CHARACTERS_MAX),
    ...(pause === undefined ? {} : { nextAt: Date.now() + pause }),
  };
  const delivery = error === undefined ? { attempts, sentAt: Date.now() } : failed;
  writeDeliveries(dir.root, id, { ...before, [notice.id]: delivery });
}

/** Delivers one notice; returns why it failed. */
async function deliver(known: LoadedRun, notice: Notice): Promise<string | undefined> {
  const facts = factsOf(known, notice);
  const { run, webhook } = notice.receiver;
  try {
    if (run !== undefined) return await runCommand(known, run, facts);
    await post(webhook ?? "", facts);
    return undefined;
  } catch (error) {
    return error instanceof Error ? errorText(error) : String(error);
  }
}

/** The text of an error with its cause: `fetch failed` alone says little. */
function errorText({ message, cause }: Error): string {
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

/** What a receiver gets. */
type NoticeFacts = Readonly<Record<string, string | null>>;

function factsOf(known: LoadedRun, { kind, step, message, time }: Notice): NoticeFacts {
  const { happened, commands } = why(whyInputOf(known, Date.now()));
  return maskedJson({
    run_id: known.id,
    pipeline: known.plan.name,
    directory: known.run.created?.project ?? known.run.created?.cwd ?? "",
    on: kind,
    time: isoText(time),
    step: step ?? null,
    message,
    text: happened,
    next: commands[0] ?? null,
  });
}

async function runCommand(
  { run }: LoadedRun,
  command: string,
  facts: NoticeFacts,
): Promise<string | undefined> {
  const named = Object.entries(facts).map(([name, value]) => [
    `PERDURE_NOTIFY_${name.toUpperCase()}`,
    value ?? "",
  ]);
  const cwd = run.created?.cwd ?? ".";
  const child = spawn("/bin/sh", ["-c", command], {
    cwd: existsSync(cwd) ? cwd : "/",
    env: { ...process.env, ...Object.fromEntries(named) },
    stdio: ["pipe", "ignore", "pipe"],
    timeout: RECEIVER_MS_MAX,
    killSignal: "SIGKILL",
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => {
    errors = (errors + chunk.toString("utf8")).slice(-ERROR_CHARACTERS_MAX);
  });
  child.stdin.on("error", () => undefined);
  child.stdin.end(JSON.stringify(facts));
  const { code, signal } = await new Promise<{ code: number | null; signal: string | null }>(
    (resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => resolve({ code, signal }));
    },
  );
  if (code === 0) return undefined;
  const how = signal === null ? `it exited with ${code}` : `it was ended by ${signal}`;
  return errors.trim() === "" ? how : `${how}: ${errors.trim()}`;
}

async function post(webhook: string, facts: NoticeFacts): Promise<void> {
  const name = /^\$(\w+)$/.exec(webhook)?.[1];
  const url = name === undefined ? webhook : process.env[name];
  if (url === undefined || url === "") throw new Error(`the variable ${name} is not set`);
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(facts),
    signal: AbortSignal.timeout(RECEIVER_MS_MAX),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the answer was ${response.status} ${response.statusText}`);
}

/** Claims the run for this notifier; false while another one lives. */
function claim({ dir }: LoadedRun): boolean {
  const path = join(dir.root, CLAIM_FILE);
  const text = JSON.stringify(ownIdentity());
  // The copy of a run of a fleet may have no files yet.
  mkdirSync(dir.root, { recursive: true, mode: 0o700 });
  for (;;) {
    try {
      writeFileSync(path, text, { flag: "wx", mode: 0o600 });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (isClaimed(path)) return false;
      // Its notifier is dead. Two of them may find that at once: a notice twice is better than none.
      rmSync(path, { force: true });
    }
  }
}

function isClaimed(path: string): boolean {
  try {
    return processLiveness(JSON.parse(readFileSync(path, "utf8")) as Identity) !== "dead";
  } catch (error) {
    // Released meanwhile, or incomplete after a kill.
    if (error instanceof SyntaxError) return false;
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** The file in the folder of a run that names its notifier. */
export const CLAIM_FILE = "notifier.json";
/** The file in the folder of a run that says which notices were delivered. */
export const NOTE_FILE = "notices.json";

/** The deliveries of a run, by the ids of the notices. */
type NoticeDeliveries = Readonly<Record<string, NoticeDelivery>>;

/** The deliveries of a run, as far as they can be read. A copy of a run has the files of the other one. */
function readDeliveries(folder: string, run: string): NoticeDeliveries {
  const noted = parseJson(textOf(join(folder, NOTE_FILE)) ?? "");
  if (!noted.ok || !isObject(noted.json) || noted.json.run !== run) return {};
  return (noted.json.deliveries ?? {}) as NoticeDeliveries;
}

/** Replaces the deliveries of a run. */
function writeDeliveries(folder: string, run: string, deliveries: NoticeDeliveries): void {
  const path = join(folder, NOTE_FILE);
  writeFileSync(`${path}.new`, JSON.stringify({ run, deliveries }), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
