/** An event as programs read it: a line of `--output json`, and what a program's iterator gives. */
import type { Recorded, RunEvent } from "../core/event.ts";
import { isoText } from "./time-text.ts";

/** An event with its run and its place in it. */
export type ToldEvent = {
  /** The version of the vocabulary. */
  readonly v: number;
  readonly run: string;
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly time: string;
} & RunEvent;

/** The one form in which events leave the program; marks of secrets are for the journal alone. */
export function toldEvent(runId: string, { seq, time, version, event }: Recorded): ToldEvent {
  const told = { v: version, run: runId, seq, time: isoText(time), ...event };
  if ("secrets" in told) delete told.secrets;
  return told;
}
