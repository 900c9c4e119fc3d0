/**
 * The events of a run as an iterator.
 *
 * Owns: a place in the journal and nothing else. Events are read from there when they are asked for,
 * so a slow reader needs no queue and misses nothing, and one that stops reading costs nothing.
 * Does not: know who drives the run; `pause` says when there may be more.
 */
import { openProject } from "../app/project.ts";
import { type ToldEvent, toldEvent } from "../view/event-json.ts";

export interface StreamOptions {
  /** A directory of the project. */
  readonly from: string;
  readonly runId: string;
  /** Events after this one. */
  readonly after: number;
  /** Called before each look: true when nothing can come after what is there then. */
  readonly isOver: () => boolean;
  /** Resolves when it is worth looking again. */
  readonly pause: () => Promise<void>;
}

/** Gives events, those that there are and those that come, until the run is over. */
export async function* eventStream(options: StreamOptions): AsyncGenerator<ToldEvent, void> {
  const { journal } = openProject(options.from, "read-only");
  let seq = options.after;
  try {
    for (;;) {
      const over = options.isOver();
      const news = journal.eventsAfter(options.runId, seq);
      for (const recorded of news) {
        seq = recorded.seq;
        yield toldEvent(options.runId, recorded);
      }
      if (news.length > 0) continue;
      if (over) return;
      await options.pause();
    }
  } finally {
    journal.close();
  }
}

/** Wakes everybody who waits for news. */
export class Bell {
  #waiting: (() => void)[] = [];

  ring(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  heard(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
