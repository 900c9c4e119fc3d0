/** Where executors leave their facts and the loop picks them up. */
import type { Fact } from "../core/fact.ts";
import type { Inlet } from "./loop.ts";

/** Node's timers cannot wait longer; the loop just comes round once more. */
const WAIT_MAX_MS = 2 ** 31 - 1;

/** A queue with one reader: the loop. What waits in it is bounded by what the loop has under way. */
export class Mailbox implements Inlet {
  #facts: Fact[] = [];
  #wake: (() => void) | undefined;
  #error: Error | undefined;

  post(fact: Fact): void {
    this.#facts.push(fact);
    this.#wake?.();
  }

  /** Makes the loop come round although there is no fact. */
  wake(): void {
    this.#wake?.();
  }

  fail(error: unknown): void {
    this.#error ??= error instanceof Error ? error : new Error(String(error));
    this.#wake?.();
  }

  get isEmpty(): boolean {
    return this.#facts.length === 0;
  }

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
