/**
 * Simulated time: acts that are due at times, in order. Between two acts, everything that promises have
 * under way runs to its end, so that the same acts always give the same story.
 */
import { setImmediate } from "node:timers/promises";

interface Due {
  readonly time: number;
  readonly order: number;
  act: (() => void) | undefined;
}

/** Prevents an act that has not happened. */
export type Cancel = () => void;

export class Schedule {
  now = 1_000_000;
  /** How many acts have happened. */
  acts = 0;
  readonly #heap: Due[] = [];
  #order = 0;
  #ids = 0;

  /** A number that nothing else in this simulation has. */
  newId(): number {
    return ++this.#ids;
  }

  after(ms: number, act: () => void): Cancel {
    const due: Due = { time: this.now + Math.max(0, ms), order: ++this.#order, act };
    this.#push(due);
    return () => {
      due.act = undefined;
    };
  }

  /** Lets acts happen for as long as `goesOn` says so; `before` is called before each. */
  async run(goesOn: () => boolean, before: () => void): Promise<void> {
    while (goesOn()) {
      const due = this.#pop();
      if (due === undefined) return;
      if (due.act === undefined) continue;
      this.now = due.time;
      this.acts++;
      before();
      due.act();
      await setImmediate();
    }
  }

  #push(due: Due): void {
    const heap = this.#heap;
    heap.push(due);
    for (let at = heap.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!isBefore(heap[at], heap[parent])) return;
      swap(heap, at, parent);
      at = parent;
    }
  }

  #pop(): Due | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    heap[0] = last;
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      const least = isBefore(heap[left + 1], heap[left]) ? left + 1 : left;
      if (!isBefore(heap[least], heap[at])) return first;
      swap(heap, at, least);
      at = least;
    }
  }
}

function isBefore(one: Due | undefined, other: Due | undefined): boolean {
  if (one === undefined) return false;
  if (other === undefined) return true;
  return one.time < other.time || (one.time === other.time && one.order < other.order);
}

function swap(heap: Due[], one: number, other: number): void {
  const [first, second] = [heap[one], heap[other]];
  if (first !== undefined && second !== undefined) [heap[one], heap[other]] = [second, first];
}
