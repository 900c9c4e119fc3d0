/**
 * The events of a run as an iterator.
 *
 * Owns: a position in the journal and nothing else. Events are read from there when they are asked for,
 * so a slow reader needs no queue and misses nothing, and one that stops reading costs nothing.
 * Does not: know who drives the run; `isOver` says when there can be no more events.
 */

import { openProject } from "../app/project.ts";
import type { Journal } from "../journal/journal.ts";
import type { Subscription } from "../journal/subscription.ts";
import { type EventJson, eventJson } from "../view/json/run-json.ts";

export interface StreamOptions {
  /** A directory of the project. */
  readonly from: string;
  readonly runId: string;
  /** Events after this one. */
  readonly after: number;
  /** Called before each read: true when nothing can come after what is there then. */
  readonly isOver: (journal: Journal) => Promise<boolean>;
}

/** Gives events, those that there are and those that come, until the run is over. */
export async function* eventStream(options: StreamOptions): AsyncGenerator<EventJson, void> {
  const { journal } = await openProject(options.from, "read-only");
  let seq = options.after;
  let subscription: Subscription | undefined;
  try {
    for (;;) {
      const over = await options.isOver(journal);
      const news = await journal.log.eventsAfter(options.runId, seq);
      if (news.length > 0) {
        // Nothing watches the journal while the reader is busy with these.
        subscription?.close();
        subscription = undefined;
        for (const recorded of news) {
          seq = recorded.seq;
          yield eventJson(options.runId, recorded);
        }
      } else if (over) {
        return;
      } else if (subscription === undefined) {
        subscription = journal.log.subscribe(options.runId);
      } else {
        await subscription.changed();
      }
    }
  } finally {
    await journal.close();
  }
}
