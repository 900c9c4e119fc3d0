/**
 * The requests that reach the owner of a run, through the inbox, and as signals or calls of this
 * process; and the facts that lasting requests become, for the living owner or the next one.
 *
 * Owns: reading the inbox while a run is driven, and passing each request to the driver, also a stop
 *   that came before there was a driver. What a request needs from the disk (the files to restore, the
 *   outputs of a step): the owner finds it when it reads the request, because the asker may have seen an
 *   older state.
 * Does not: decide what follows from a request (core/request.ts). Lasting requests that came before this
 *   owner are facts of its first turn.
 */
import { uncertainVisit } from "../../core/attempt/uncertain.ts";
import type { StopMode } from "../../core/event.ts";
import type { Fact, FactOf, RequestedFact, Result } from "../../core/fact.ts";
import { attemptOf } from "../../core/run.ts";
import { collectResult } from "../../engine/evidence/evidence.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { Inbox, Request } from "../../journal/inbox.ts";
import { keyOf, type LastingRequest } from "../../journal/inbox.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { defined } from "../../util/defined.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { Project } from "../project/project.ts";
import { advice, asRefusal, Refusal, when } from "../refusal.ts";
import type { RewindRequest } from "../rewind/rewind-preview.ts";
import { runEnvironment } from "./run-environment.ts";

/** The requests that a driven run accepts. */
export interface DrivenRun {
  /** Asks the run to stop; a second, stronger request ends the processes at once. */
  stop(mode: StopMode, by: string): void;
  /** Ends every process now, without its grace period. */
  killNow(): void;
  /** Turns a lasting request into a fact; one that the run has handled changes nothing. */
  take(request: LastingRequest): Promise<void>;
  /** Looks for answers that others have given. */
  lookForAnswers(): void;
  /** Keeps the lease. Throws when another owner has the run. */
  renewLease(): Promise<unknown>;
  /** The inbox cannot be read, or the lease is lost: the run ends with this error. */
  fail(error: unknown): void;
}

/** The requests to the owner of one run. */
export class OwnerRequests {
  /** The author of the first stop request to this process. */
  first: string | undefined;
  readonly #inbox: Inbox;
  readonly #runId: string;
  #lastRequest: number;
  #mode: StopMode | undefined;
  #driver: DrivenRun | undefined;
  #subscription: Subscription | undefined;
  #reading: Promise<void> = Promise.resolve();
  /** The owner reads lasting requests one after the other; a stop does not wait for them. */
  #taking: Promise<void> = Promise.resolve();

  private constructor(inbox: Inbox, runId: string, lastRequest: number) {
    this.#inbox = inbox;
    this.#runId = runId;
    this.#lastRequest = lastRequest;
  }

  /**
   * Call it before the lease names this process: a command may send a request as soon as it does.
   */
  static async open(inbox: Inbox, runId: string): Promise<OwnerRequests> {
    const requests = await inbox.after(runId, 0);
    return new OwnerRequests(inbox, runId, requests.at(-1)?.id ?? 0);
  }

  /** Gives the driver all requests, including those that came before it, until `disconnect`. */
  async connect(driver: DrivenRun): Promise<void> {
    this.#driver = driver;
    if (this.first !== undefined) driver.stop(this.#mode ?? "now", this.first);
    const subscription = this.#inbox.subscribe(this.#runId);
    this.#subscription = subscription;
    await this.#readNew(driver);
    this.#reading = this.#read(subscription, driver);
  }

  /** Passes nothing more to the driver; when this resolves, nothing reads the inbox. */
  async disconnect(): Promise<void> {
    this.#driver = undefined;
    this.#subscription?.close();
    await this.#reading;
    await this.#taking;
  }

  /** Stops the run; a second call ends its processes at once. */
  end(by: string, mode: StopMode = "now"): void {
    this.first ??= by;
    this.#stop(mode, by);
  }

  /** Gives the run up: ends its processes at once, and its loop with this error. */
  abandon(error: Error): void {
    this.#driver?.killNow();
    this.#driver?.fail(error);
  }

  #stop(mode: StopMode, by: string): void {
    if (this.#mode !== "now") {
      this.#mode = mode;
      this.#driver?.stop(mode, by);
    } else if (mode === "now") {
      this.#driver?.killNow();
    }
  }

  async #read(subscription: Subscription, driver: DrivenRun): Promise<void> {
    try {
      while (await subscription.changed()) {
        await driver.renewLease();
        await this.#readNew(driver);
      }
    } catch (error) {
      driver.fail(error);
    }
  }

  async #readNew(driver: DrivenRun): Promise<void> {
    for (const request of await this.#inbox.after(this.#runId, this.#lastRequest)) {
      this.#lastRequest = request.id;
      this.#pass(driver, request);
    }
  }

  #pass(driver: DrivenRun, request: Request): void {
    if (request.type === "stop") this.#stop(request.mode, request.by);
    else if (request.type === "answer") driver.lookForAnswers();
    else this.#taking = this.#taking.then(() => driver.take(request)).catch(driver.fail);
  }
}

/** Turns signals into requests; returns a function that stops listening. */
export function listen(requests: OwnerRequests): () => void {
  const handlers: readonly (readonly [NodeJS.Signals, () => void])[] = [
    ["SIGINT", () => requests.end("SIGINT")],
    ["SIGTERM", () => requests.end("SIGTERM")],
    ["SIGHUP", () => undefined],
  ];
  for (const [signal, handler] of handlers) process.on(signal, handler);
  return () => {
    for (const [signal, handler] of handlers) process.off(signal, handler);
  };
}

/** The fact of a request; `load` returns the present run, for requests that depend on it. */
export async function factOf(
  project: Project,
  load: () => Promise<LoadedRun>,
  request: LastingRequest,
): Promise<Fact> {
  if (request.type === "message") {
    const { scope, step, message } = request;
    return { type: "message-left", scope, step, message };
  }
  const { type: asks, by = "" } = request;
  const step = "step" in request ? request.step : undefined;
  const attempt = "attempt" in request ? request.attempt : undefined;
  const about = defined({ step, attempt });
  const fact = await askedFact(project, load, request);
  return { type: "requested", request: keyOf(request) ?? "", by, asks, ...about, fact };
}

async function askedFact(
  project: Project,
  load: () => Promise<LoadedRun>,
  request: Exclude<LastingRequest, { type: "message" }>,
): Promise<RequestedFact> {
  if (request.type === "add-budget") return { type: "funds-added", added: request.added };
  if (request.type === "skip") {
    const { step, by } = request;
    return { type: "skip-requested", step, by };
  }
  const known = await load();
  try {
    if (request.type === "settle") return await settledFact(known, request);
    const { previewRewind, rewindFact } = await import("../rewind/rewind-preview.ts");
    return await rewindFact(known, await previewRewind(project, known, rewindRequest(request)));
  } catch (error) {
    const refusal = asRefusal(error, known.shortId);
    if (refusal === undefined) throw error;
    const { code, message, next } = refusal;
    return { type: "refused", refused: { code, message, next } };
  }
}

/** A request to retry or rewind, in the form that the commands use. */
function rewindRequest(
  request: Extract<LastingRequest, { type: "retry" | "rewind" }>,
): RewindRequest {
  const { step, repeat } = request;
  const files = request.type === "rewind" && request.verb === "invalidate" ? "keep" : request.files;
  const about = { step, ...defined({ files, repeat }), ofOwner: true } as const;
  if (request.type === "rewind") return { verb: "rewind", ...about };
  const { failed, items, turns } = request;
  return { verb: "retry", ...about, ...defined({ failed, items, turns }) };
}

/** The fact of a verdict, with the result of the step for the steps after it. */
export async function settledFact(
  known: LoadedRun,
  { step, as, by, identity }: Pick<FactOf<"settled">, "step" | "as" | "by" | "identity">,
): Promise<FactOf<"settled">> {
  const result = as === "done" ? await resultOf(known, step) : undefined;
  return { type: "settled", step, as, by, ...defined({ identity, result }) };
}

/** The result of the interrupted step. Throws when outputs are missing: no verdict replaces them. */
async function resultOf({ plan, run, dir, shortId }: LoadedRun, step: string): Promise<Result> {
  const visit = uncertainVisit(run, step);
  const attemptDir = attemptDirOf(dir, attemptOf(visit));
  const found = await collectResult(
    { plan, run, dir, env: runEnvironment(run) },
    visit,
    attemptDir,
  );
  if (!("problem" in found)) return found;
  const { message } = found.problem;
  throw new Refusal("output-missing", `step ${step} cannot be settled as done: ${message}`, [
    advice("write the file"),
    when("or", "settle", shortId, step, "redo"),
  ]);
}
