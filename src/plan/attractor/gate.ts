/**
 * A `wait.human` node as a gate: its choices are the edges that leave it.
 *
 * Owns: the question, the choices and the default.
 * Does not: ask the question (room `engine`).
 */

import type { DotNode } from "../../pipeline/dot/model.ts";
import type { GateChoice } from "../../pipeline/pipeline.ts";
import { choiceNamed, choiceOf } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import type { Choice, GateWork } from "../plan.ts";
import { expandVariables } from "./prompt.ts";
import type { DotSite } from "./site.ts";

/** The question of a node. */
export function gateOf(node: DotNode, site: DotSite): GateWork {
  const { edgeIndex, pipeline } = site;
  const edges = edgeIndex.outgoing(node.id);
  // An edge without a label is labelled with the name of its target in the file.
  const choices = edgeChoices(edges.map(({ label, to }) => ({ label: label ?? to, to })));
  const named = choices.map(({ next, ...choice }) =>
    next === undefined ? choice : { ...choice, next: site.stepId(next) },
  );
  const otherwise = defaultOf(node, choices, site);
  return {
    kind: "gate",
    ask: expandVariables(node.label, pipeline.attributes),
    choices: named,
    text: "optional",
    ...defined({ timeoutMs: node.timeoutMs }),
    ...(otherwise === undefined || node.timeoutMs === undefined ? {} : { default: otherwise }),
  };
}

/** The edge that `human.default_choice` names: by its target, its key or its label. */
function defaultOf(
  { id, humanDefaultChoice, attributes, span, timeoutMs }: DotNode,
  choices: readonly Choice[],
  { report }: DotSite,
): string | undefined {
  if (humanDefaultChoice === undefined) return undefined;
  const found =
    choices.find(({ next }) => next === humanDefaultChoice) ??
    choiceNamed(choices, humanDefaultChoice);
  const place = attributes.get("human.default_choice")?.value.span ?? span;
  if (found === undefined) {
    const message = `no edge of \`${id}\` leads to \`${humanDefaultChoice}\`; there is no default`;
    report.warn(place, "gate-default", message, "name the target of one of its edges");
  } else if (timeoutMs === undefined) {
    const message = `\`${id}\` has a default but no timeout, so it waits for an answer`;
    report.warn(place, "gate-default", message, "add `timeout=1h`");
  }
  return found?.key;
}

/** The only choice of a gate without edges. */
const ALONE: GateChoice = { key: "C", label: "Continue" };

/** One choice for each label of the edges; of equal labels the first edge counts. */
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

/** An unused key: the wanted one, another letter of the label, or a number. */
function freeKey(wanted: string, label: string, choices: readonly GateChoice[]): string {
  const taken = new Set(choices.map(({ key }) => key));
  const letters = [...label.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  const free = [wanted, ...letters].find((key) => key.trim() !== "" && !taken.has(key));
  if (free !== undefined) return free;
  for (let number = 1; ; number++) if (!taken.has(String(number))) return String(number);
}
