/**
 * Watching for changes without polling: a subscription wakes its watcher, which then reads the news.
 *
 * Owns: that no change is missed. A change that comes while the watcher reads wakes it again.
 * Does not: say what changed, or how often.
 */

/** A watch on one run. Close it, or the process does not end. */
export interface Subscription {
  /**
   * Resolves to true as soon as something may have changed since the last call, and to false when
   * the subscription is closed. One caller at a time.
   */
  changed(): Promise<boolean>;
  close(): void;
}

/** A subscription that calls of `notify` wake. */
export class ChangeSignal implements Subscription {
  readonly #onClose: () => void;
  #isChanged = false;
  #isClosed = false;
  #wake: (() => void) | undefined;

  constructor(onClose: () => void = () => undefined) {
    this.#onClose = onClose;
  }

  notify(): void {
    this.#isChanged = true;
    this.#wake?.();
  }

  async changed(): Promise<boolean> {
    if (!this.#isChanged && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#isChanged = false;
    return !this.#isClosed;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
    this.#wake?.();
  }
}
