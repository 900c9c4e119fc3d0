/**
 * The edges that leave a gate of a walk as its choices.
 *
 * Owns: keys and labels of such choices.
 * Does not: know DOT or YAML.
 */
import { choiceOf } from "../util/choice.ts";
import type { GateChoice } from "./pipeline.ts";

/** What can be answered where nothing follows. */
const ALONE: GateChoice = { key: "C", label: "Continue" };

/** The choices that edges stand for; the same label twice is one choice, and leads where the first does. */
export function edgeChoices(
  edges: readonly { readonly label?: string | undefined; readonly to: string }[],
): readonly GateChoice[] {
  const choices: GateChoice[] = [];
  for (const { label: written, to } of edges) {
    const { key, text: label } = choiceOf(written ?? to);
    if (choices.some((choice) => choice.label === label)) continue;
    choices.push({ key: freeKey(key, label, choices), label, next: to });
  }
  return choices.length === 0 ? [ALONE] : choices;
}

/** A key that no other choice has: the wanted one, another letter of the label, a number. */
function freeKey(wanted: string, label: string, choices: readonly GateChoice[]): string {
  const taken = new Set(choices.map(({ key }) => key));
  const letters = [...label.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  const free = [wanted, ...letters].find((key) => key.trim() !== "" && !taken.has(key));
  if (free !== undefined) return free;
  for (let number = 1; ; number++) if (!taken.has(String(number))) return String(number);
}
