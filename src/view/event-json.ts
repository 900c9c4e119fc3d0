/** An event as programs read it: a line of `--output json`, a value of the library's iterator. */
import type { Recorded, RunEvent } from "../core/event.ts";
import { isoText } from "./time-text.ts";

/** An event with its run and its number. */
export type EventJson = {
  /** The version of the events' format. */
  readonly v: number;
  readonly run_id: string;
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly time: string;
} & RunEvent;

/** The only form in which events leave the program; it leaves out the marks of secrets. */
export function eventJson(runId: string, { seq, time, version, event }: Recorded): EventJson {
  const json = { v: version, run_id: runId, seq, time: isoText(time), ...event };
  if ("secrets" in json) delete json.secrets;
  return json;
}
