/** Where effects leave their facts and the loop picks them up. */
import type { Fact } from "../core/fact.ts";

/** Node's timers cannot wait longer; the loop just comes round once more. */
const WAIT_MAX_MS = 2 ** 31 - 1;

/** A queue with one reader: the loop. */
export class Mailbox {
  #facts: Fact[] = [];
  #wake: (() => void) | undefined;
  #error: Error | undefined;

  post(fact: Fact): void {
    this.#facts.push(fact);
    this.#wake?.();
  }

  /** Makes the loop come round although there is no fact. */
  nudge(): void {
    this.#wake?.();
  }

  /** Makes the loop end with this error: an effect has failed in a way that is no fact. */
  fail(error: Error): void {
    this.#error ??= error;
    this.#wake?.();
  }

  get isEmpty(): boolean {
    return this.#facts.length === 0;
  }

  /** All facts that are there, as soon as there is one; none when the time is up. */
  async take(waitMs: number | undefined): Promise<readonly Fact[]> {
    if (this.#facts.length === 0 && this.#error === undefined) await this.#wait(waitMs);
    if (this.#error !== undefined) throw this.#error;
    const taken = this.#facts;
    this.#facts = [];
    return taken;
  }

  #wait(waitMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer =
        waitMs === undefined
          ? undefined
          : setTimeout(() => this.#wake?.(), Math.min(Math.max(0, waitMs), WAIT_MAX_MS));
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}
