/**
 * What the screens that print lines share.
 *
 * Owns: the order of lines, some of which wait for output that is read asynchronously; and the first
 * error of a screen.
 */
import type { ScreenOptions } from "../../app/drive/screen.ts";
import type { Recorded } from "../../core/event.ts";
import { attemptOf, type Run, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";

/** Carries out one action after the other. */
export class LineQueue {
  readonly #onError: ScreenOptions["onError"];
  #last: Promise<void> = Promise.resolve();
  #failed: { readonly error: unknown } | undefined;

  constructor({ onError }: ScreenOptions) {
    this.#onError = onError;
  }

  add(action: () => void | Promise<void>): void {
    this.#last = this.#last.then(action).catch((error: unknown) => this.fail(error));
  }

  /** Reports an error; only the first one counts. */
  fail(error: unknown): void {
    if (this.#failed !== undefined) return;
    this.#failed = { error };
    this.#onError?.(error);
  }

  /** Waits for all actions; throws their first error if it could not be reported. */
  async end(): Promise<void> {
    for (let last: unknown; last !== this.#last; ) {
      last = this.#last;
      await last;
    }
    if (this.#failed !== undefined && this.#onError === undefined) throw this.#failed.error;
  }
}

/** The running visits that another process started: these events do not start them. */
export function startedBefore(events: readonly Recorded[], run: Run): readonly Visit[] {
  const started = new Set(
    events.flatMap(({ event }) => (event.type === "step.started" ? [attemptText(event)] : [])),
  );
  return [...run.running].filter((visit) => !started.has(attemptText(attemptOf(visit))));
}
