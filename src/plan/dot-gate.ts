/**
 * A `wait.human` node as a gate: its choices are the edges that leave it.
 *
 * Owns: its question and its default.
 * Does not: ask anybody, or make choices of edges (pipeline/edge-choices.ts).
 */
import type { DotNode } from "../pipeline/dot/model.ts";
import { edgeChoices } from "../pipeline/edge-choices.ts";
import { choiceNamed } from "../util/choice.ts";
import type { DotSite } from "./dot-site.ts";
import { expandVariables } from "./dot-text.ts";
import type { Choice, GateWork } from "./plan.ts";

/** The question of a node. */
export function gateOf(node: DotNode, site: DotSite): GateWork {
  const { ways, pipeline } = site;
  const edges = ways.outgoing(node.id);
  // The label that a node without one has is the name of its target, as the file writes it.
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
    ...(node.timeoutMs === undefined ? {} : { timeoutMs: node.timeoutMs }),
    ...(otherwise === undefined || node.timeoutMs === undefined ? {} : { default: otherwise }),
  };
}

/** The edge that `human.default_choice` names: by its target, its key or its label. */
function defaultOf(
  { id, humanDefaultChoice, attributes, span, timeoutMs }: DotNode,
  choices: readonly Choice[],
  { notes }: DotSite,
): string | undefined {
  if (humanDefaultChoice === undefined) return undefined;
  const found =
    choices.find(({ next }) => next === humanDefaultChoice) ??
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
