/**
 * What others want of a run while this process drives it: that it stops, takes up an answer, or tells
 * an agent something.
 *
 * Owns: handing wishes to the driver, also those that came before there was one.
 * Does not: find out about them. A program of ours is told by signals (signals.ts); somebody else's
 * program looks by itself (`look`), because its signals are its own.
 */
import type { StopMode } from "../core/event.ts";
import type { Journal, SayRequest } from "../journal/journal.ts";

/** What a driven run offers to those who want something of it. */
export interface DrivenRun {
  /** Asks the run to stop; a second, stronger wish ends the processes at once. */
  stop(mode: StopMode, by: string): void;
  /** Ends every process now, without its grace period. */
  killNow(): void;
  /** Takes in a message for an agent; one that the run knows changes nothing. */
  message(request: SayRequest): void;
  /** Takes up answers that others have given. */
  lookForAnswers(): void;
}

/** The wishes that reach the owner of one run. */
export class Wishes {
  /** Who asked this process to end its part first. */
  first: string | undefined;
  readonly #journal: Journal;
  readonly #runId: string;
  #driver: DrivenRun | undefined;
  #mode: StopMode | undefined;
  #lastRequest: number;

  /** Before the lease names us: who finds our name in it may ask at once. */
  constructor(journal: Journal, runId: string) {
    this.#journal = journal;
    this.#runId = runId;
    this.#lastRequest = journal.requestsAfter(runId, 0).at(-1)?.id ?? 0;
  }

  /** Tells a driver what was asked for before it was there, and what will be. */
  attend(driver: DrivenRun): void {
    this.#driver = driver;
    if (this.first !== undefined) driver.stop(this.#mode ?? "now", this.first);
    // Unlike a request to stop, a message does not lapse with the owner that it was meant for.
    for (const request of this.#journal.requestsAfter(this.#runId, 0)) {
      if (request.type === "say" && request.id <= this.#lastRequest) driver.message(request);
    }
    this.look();
  }

  /** The driver has ended. */
  leave(): void {
    this.#driver = undefined;
  }

  /** Stops the run in order; asked for a second time, its processes are ended at once. */
  end(by: string, mode: StopMode = "now"): void {
    this.first ??= by;
    this.#stop(mode, by);
  }

  #stop(mode: StopMode, by: string): void {
    if (this.#mode !== "now") {
      this.#mode = mode;
      this.#driver?.stop(mode, by);
    } else if (mode === "now") {
      this.#driver?.killNow();
    }
  }

  /** Takes up what stands in the journal. Without a driver nobody could; `attend` asks again. */
  look(): void {
    if (this.#driver === undefined) return;
    for (const request of this.#journal.requestsAfter(this.#runId, this.#lastRequest)) {
      this.#lastRequest = request.id;
      if (request.type === "say") this.#driver.message(request);
      else this.#stop(request.mode, request.by);
    }
    this.#driver.lookForAnswers();
  }
}
