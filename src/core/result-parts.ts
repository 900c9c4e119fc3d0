/** The parts of events about results that a step takes from an earlier run; plain JSON (core/V1). */
import { exposure, held, spent } from "./event-parts.ts";
import { listOf, optional, record, type TypeOf, text, time, word } from "./shape.ts";

export const earlier = record({
  run: text,
  /** The attempt that did the work: `build@1.1`. */
  attempt: text,
  /** When it completed. */
  time,
  /** What it used. */
  spent: optional(spent),
});
/** The attempt of an earlier run whose result a step takes. */
export type EarlierAttempt = TypeOf<typeof earlier>;

export const foundResult = record({
  from: earlier,
  /** The result, with the paths that its outputs have in this run. */
  held,
  /** The secrets in it. */
  exposes: optional(listOf(exposure)),
  /** The snapshots before and after its work: the difference is what it changed. */
  base: text,
  after: text,
});
/** The result of an earlier run that a step can take. */
export type FoundResult = TypeOf<typeof foundResult>;

export const rejectedResult = record({
  run: text,
  attempt: text,
  /** It is damaged or too large, or its changes do not fit the files. */
  why: word<"damaged" | "size" | "files" | "changed">(),
  message: text,
});
/** An earlier result with the same key that is not used. */
export type RejectedResult = TypeOf<typeof rejectedResult>;

/**
 * Why a step with `cache` runs: no earlier result has its key, its own run or the person wants it
 * to run (`off`), files that no snapshot holds may matter (`left-out`), another step works in the
 * same files (`shared`), the files changed while a result was taken (`changed`), the results that
 * there are cannot be used (`rejected`), or the runs of a fleet share no results (`fleet`).
 */
export type RecallMiss =
  | "none"
  | "off"
  | "left-out"
  | "shared"
  | "changed"
  | "damaged"
  | "rejected"
  | "fleet";
