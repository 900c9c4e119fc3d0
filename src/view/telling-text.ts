/** The briefing that an agent got about its run. */
import type { Telling } from "../core/event.ts";
import type { JsonObject } from "../util/json.ts";

/** `it got a briefing (compact): the step says compact`. */
export function tellingText({ mode, thread, why }: Telling): string {
  const where = thread === undefined ? "" : `, thread ${thread.name}`;
  return `it got a briefing (${mode}${where}): ${why}`;
}

/** The same as JSON, without the text, which is part of the attempt's prompt. */
export function tellingJson({ mode, by, why, thread }: Telling): JsonObject {
  return { mode, by, why, thread: thread === undefined ? null : { ...thread } };
}
