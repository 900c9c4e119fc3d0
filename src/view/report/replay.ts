/** What `replay` found, in words and as JSON. */
import type { Difference, Replayed } from "../../core/replay.ts";
import type { Json } from "../../util/json.ts";
import type { DocumentJson } from "../json/documents.ts";
import { countText, cutText, isoText, plainText, utcText } from "../text.ts";

interface ReplayInput {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  readonly replayed: Replayed;
}

const VALUE_WIDTH_MAX = 160;

/** The first difference between the recorded events and those that today's core decides. */
export function replayLines(input: ReplayInput): readonly string[] {
  const { events, turns, taken, difference } = input.replayed;
  const run = `Run ${input.shortId} (${plainText(input.pipeline)})`;
  const done = `${countText(turns, "turn")} in ${countText(events, "event")} decided again`;
  const verdict = difference === undefined ? "no difference" : "the last one differs";
  const kept = `${countText(taken, "event")} taken as recorded: ${WHY_TAKEN}.`;
  return [
    `${run}: ${done}; ${verdict}.`,
    ...(difference === undefined ? [] : differenceLines(difference)),
    ...(taken === 0 ? [] : [kept]),
  ];
}

const WHY_TAKEN = "they come from another run, or their facts were not kept";

function differenceLines({ seq, time, at, field, recorded, now }: Difference): readonly string[] {
  const what = field === "event" ? "what happened" : `its ${field}`;
  return [
    `Event ${seq}, ${plainText(at)}, ${utcText(time)} UTC: ${what}`,
    `  recorded  ${valueText(recorded)}`,
    `  now       ${valueText(now)}`,
  ];
}

function valueText(value: Json | undefined): string {
  if (value === undefined) return "nothing";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return cutText(plainText(text), VALUE_WIDTH_MAX);
}

/** The same for programs. */
export function replayJson({ runId, pipeline, replayed }: ReplayInput): DocumentJson<"replay"> {
  const { events, turns, taken, difference } = replayed;
  return {
    run_id: runId,
    pipeline,
    events,
    turns,
    taken,
    difference: difference === undefined ? null : differenceJson(difference),
  };
}

function differenceJson(difference: Difference): DocumentJson<"replay">["difference"] {
  const { seq, time, at, field, recorded, now } = difference;
  const values = { recorded: recorded ?? null, now: now ?? null };
  return { sequence: seq, time: isoText(time), event: at, field, ...values };
}
