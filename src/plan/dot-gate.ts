/**
 * A `wait.human` node as a gate: its choices are the edges that leave it.
 *
 * Owns: keys, labels and the default of its choices.
 * Does not: ask anybody.
 */
import type { DotNode } from "../pipeline/dot/model.ts";
import { choiceNamed, choiceOf } from "../util/choice.ts";
import type { DotSite } from "./dot-site.ts";
import { expandVariables } from "./dot-text.ts";
import type { Choice, GateWork } from "./plan.ts";

/** What can be answered where nothing follows. */
const ALONE: Choice = { key: "C", label: "Continue" };

interface Target {
  readonly choice: Choice;
  readonly to: string;
}

/** The question of a node. */
export function gateOf(node: DotNode, site: DotSite): GateWork {
  const { ways, pipeline } = site;
  const targets: Target[] = [];
  for (const { label, to } of ways.outgoing(node.id)) {
    const { key, text } = choiceOf(label ?? to);
    // The same label twice is one choice: it leads where the first of them does.
    if (targets.some(({ choice }) => choice.label === text)) continue;
    const free = freeKey(key, text, targets);
    targets.push({ choice: { key: free, label: text, next: site.stepId(to) }, to });
  }
  const choices = targets.map(({ choice }) => choice);
  const otherwise = defaultOf(node, targets, site);
  return {
    kind: "gate",
    ask: expandVariables(node.label, pipeline.attributes),
    choices: choices.length === 0 ? [ALONE] : choices,
    text: "optional",
    ...(node.timeoutMs === undefined ? {} : { timeoutMs: node.timeoutMs }),
    ...(otherwise === undefined || node.timeoutMs === undefined ? {} : { default: otherwise }),
  };
}

/** A key that no other choice has: the wanted one, another letter of the label, a number. */
function freeKey(wanted: string, label: string, targets: readonly Target[]): string {
  const taken = new Set(targets.map(({ choice }) => choice.key));
  const letters = [...label.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  const free = [wanted, ...letters].find((key) => key.trim() !== "" && !taken.has(key));
  if (free !== undefined) return free;
  for (let number = 1; ; number++) if (!taken.has(String(number))) return String(number);
}

/** The edge that `human.default_choice` names: by its target, its key or its label. */
function defaultOf(
  { id, humanDefaultChoice, attributes, span, timeoutMs }: DotNode,
  targets: readonly Target[],
  { notes }: DotSite,
): string | undefined {
  if (humanDefaultChoice === undefined) return undefined;
  const choices = targets.map(({ choice }) => choice);
  const found =
    targets.find(({ to }) => to === humanDefaultChoice)?.choice ??
    choiceNamed(choices, humanDefaultChoice);
  const place = attributes.get("human.default_choice")?.value.span ?? span;
  if (found === undefined) {
    const message = `no edge of \`${id}\` leads to \`${humanDefaultChoice}\`; there is no default`;
    notes.warn(place, "gate-default", message, "name the target of one of its edges");
  } else if (timeoutMs === undefined) {
    const message = `\`${id}\` has a default but no timeout, so it waits for an answer`;
    notes.warn(place, "gate-default", message, "add `timeout=1h`");
  }
  return found?.key;
}
