/** What `replay` found, in words and as JSON. */
import type { Difference, Redecided } from "../../core/redecide.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { cutText, isoText, plainText, utcText } from "../text.ts";

export interface ReplayInput {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  readonly found: Redecided;
}

/** The version of the JSON's shape. */
export const REPLAY_VERSION = 1;
const NEEDS_MAX = 10;
const VALUE_WIDTH_MAX = 160;

/** True when today's core would have done something else. */
export function replayDiffers({ differences, refused }: Redecided): boolean {
  return differences.length > 0 || refused !== undefined;
}

/** The first decision that differs, or that none does. */
export function replayLines(input: ReplayInput): readonly string[] {
  const { found } = input;
  const run = `Run ${input.shortId} (${plainText(input.pipeline)})`;
  const made = `${found.decided} decisions in ${found.events} events were replayed`;
  const [first] = found.differences;
  return [
    `${run}: ${made}; ${verdict(found)}.`,
    ...(first === undefined ? [] : differenceLines(first)),
    ...refusedLines(found),
    ...needsLines(found),
  ];
}

function verdict({ differences, refused }: Redecided): string {
  const result = differences.length === 0 ? "none differs" : counted(differences.length, "differs");
  return refused === undefined ? result : `${result}, and one event is not accepted`;
}

/** "1 differs", "3 differ". */
function counted(count: number, verb: string): string {
  return count === 1 ? `1 ${verb}` : `${count} ${verb.slice(0, -1)}`;
}

function differenceLines({ seq, time, at, field, recorded, now }: Difference): readonly string[] {
  return [
    `The first: event ${seq}, ${plainText(at)}, ${utcText(time)} UTC: ${FIELDS[field] ?? `its ${field}`}`,
    `  recorded  ${valueText(recorded)}`,
    `  now       ${valueText(now)}`,
  ];
}

const FIELDS: Readonly<Record<string, string>> = {
  event: "the event itself",
  next: "the next action",
};

function refusedLines({ refused }: Redecided): readonly string[] {
  if (refused === undefined) return [];
  const { seq, at, message } = refused;
  return [
    `Event ${seq}, ${plainText(at)}, cannot follow: ${plainText(message)}.`,
    "The events after it were not read.",
  ];
}

function needsLines({ undecided }: Redecided): readonly string[] {
  const counts = new Map<string, number>();
  for (const { needs } of undecided) counts.set(needs, (counts.get(needs) ?? 0) + 1);
  const lines = Array.from(counts, ([needs, count]) => {
    return `Not replayed: ${count}, which ${count === 1 ? "needs" : "need"} ${needs}.`;
  });
  const left = lines.length - NEEDS_MAX;
  return left > 0 ? [...lines.slice(0, NEEDS_MAX), `... and ${left} more`] : lines;
}

function valueText(value: Json | undefined): string {
  if (value === undefined) return "nothing";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return cutText(plainText(text), VALUE_WIDTH_MAX);
}

/** The same for programs, with every difference. */
export function replayJson({ runId, pipeline, found }: ReplayInput): JsonObject {
  const { refused } = found;
  return {
    version: REPLAY_VERSION,
    run_id: runId,
    pipeline,
    events: found.events,
    decided: found.decided,
    differs: replayDiffers(found),
    differences: found.differences.map(({ seq, time, at, field, recorded, now }) => ({
      seq,
      time: isoText(time),
      event: at,
      field,
      recorded: recorded ?? null,
      now: now ?? null,
    })),
    refused: refused === undefined ? null : { ...refused },
    undecided: found.undecided.map(({ seq, needs }) => ({ seq, needs })),
  };
}
