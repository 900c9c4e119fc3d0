/** A run as NDJSON, one event a line, for programs. */

import type { Screen, ScreenOptions } from "../../app/screen.ts";
import type { Recorded } from "../../core/event.ts";
import type { Run } from "../../core/run.ts";
import { eventJson } from "../../view/json/run-json.ts";
import { printJson } from "../print.ts";

/** The events as NDJSON, for programs. */
export class JsonScreen implements Screen {
  constructor({ past, runId }: ScreenOptions) {
    // A run that nobody has driven yet: its creation has not been told to anybody.
    const fresh = past.every(({ event }) => event.type === "run.created");
    for (const recorded of fresh ? past : []) printEvent(runId, recorded);
  }

  say(): void {
    // Programs read events, not sentences.
  }

  update(events: readonly Recorded[], run: Run): void {
    for (const recorded of events) printEvent(run.id, recorded);
  }

  refresh(): void {
    // Nobody types where a program reads.
  }

  async close(): Promise<void> {
    // Every event was printed when it came.
  }
}

function printEvent(runId: string, recorded: Recorded): void {
  printJson(eventJson(runId, recorded), "one-line");
}
