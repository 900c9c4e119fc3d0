/** What an agent was told of its run, for people and for files. */
import type { Briefing } from "../core/event.ts";
import type { JsonObject } from "../util/json.ts";

/** `it was told of the run: compact: the step says compact`. */
export function tellingText({ mode, thread, why }: Briefing): string {
  const where = thread === undefined ? "" : ` (thread ${thread.name})`;
  return `it was told of the run: ${mode}${where}: ${why}`;
}

/** The same as plain values, without the text itself, which stands in the attempt's prompt. */
export function tellingJson({ mode, by, why, thread }: Briefing): JsonObject {
  return { mode, by, why, thread: thread === undefined ? null : { ...thread } };
}
