/**
 * The requests that reach the owner of a run, through the inbox, and as signals or calls of this
 * process.
 *
 * Owns: reading the inbox for as long as a run is driven, and handing each request to the driver, also
 *   a stop that came before there was one.
 * Does not: decide what follows from a request, or turn it into a fact (request-facts.ts). Lasting
 *   requests that came before are facts of the first turn.
 */
import type { StopMode } from "../../core/event.ts";
import type { Inbox, LastingRequest, Request } from "../../journal/inbox.ts";
import type { Subscription } from "../../journal/subscription.ts";

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

  /** Gives the driver all requests, including those that came before it, until `leave`. */
  async attend(driver: DrivenRun): Promise<void> {
    this.#driver = driver;
    if (this.first !== undefined) driver.stop(this.#mode ?? "now", this.first);
    const subscription = this.#inbox.subscribe(this.#runId);
    this.#subscription = subscription;
    await this.#look(driver);
    this.#reading = this.#read(subscription, driver);
  }

  /** Ends the work for the driver; when this resolves, nothing reads the inbox. */
  async leave(): Promise<void> {
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
        await this.#look(driver);
      }
    } catch (error) {
      driver.fail(error);
    }
  }

  async #look(driver: DrivenRun): Promise<void> {
    for (const request of await this.#inbox.after(this.#runId, this.#lastRequest)) {
      this.#lastRequest = request.id;
      this.#hand(driver, request);
    }
  }

  #hand(driver: DrivenRun, request: Request): void {
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
