/** Texts that many keys of a pipeline file hold: commands, questions, durations. */
import * as z from "zod";
import { DURATION_MAX_MS, parseDuration } from "../util/duration.ts";

const DURATION_DAYS_MAX = DURATION_MAX_MS / 86_400_000;

/** A text that says something. */
export const command = z.string().regex(/\S/, "empty-text");

/** How long something takes. */
export const duration = z
  .string()
  .refine((text) => (parseDuration(text) ?? 0) > 0, "bad-duration")
  .meta({
    pattern: "^\\s*(\\d+(\\.\\d+)?(ms|s|m|h|d))+\\s*$",
    description: `A duration such as 250ms, 90s or 1h30m; at most ${DURATION_DAYS_MAX} days.`,
  });
