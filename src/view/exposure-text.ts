/** Warnings about secrets that a step stored in the context, an answer or an output. */
import type { Exposure, Recorded } from "../core/event.ts";
import { stepPath } from "../core/place.ts";
import { shortList } from "./display-text.ts";

const NAMES_MAX = 3;

/** "it stored a secret: API_TOKEN in context.token"; undefined when there is none. */
export function exposureText(exposes: readonly Exposure[] = []): string | undefined {
  if (exposes.length === 0) return undefined;
  const secrets = exposes.length === 1 ? "a secret" : "secrets";
  const names = exposes.map(({ secret, in: where }) => `${secret} in ${where}`);
  return `it stored ${secrets}: ${shortList(names, NAMES_MAX)}`;
}

/** A warning for each such step of a run. */
export function exposureLines(events: readonly Recorded[]): readonly string[] {
  const lines = events.flatMap(({ event }) => {
    const text = event.type === "step.completed" ? exposureText(event.exposes) : undefined;
    if (event.type !== "step.completed" || text === undefined) return [];
    return [`warning: ${stepPath(event)}: ${text}; exports contain it unmasked`];
  });
  return [...new Set(lines)];
}
