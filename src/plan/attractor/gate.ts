/**
 * Lowers a `wait.human` node to a gate.
 *
 * Owns: its question, and its choices, which are the edges that leave it.
 * Does not: ask (room `core`).
 */
import { type ConditionClause, comparedWith } from "../../pipeline/dot/condition.ts";
import type { DotEdge, DotNode, DotPipeline } from "../../pipeline/dot/model.ts";
import type { DotReport } from "../../pipeline/dot/source.ts";
import { choiceNamed, choiceOf } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import type { Choice, WorkOf } from "../plan.ts";
import { expandVariables } from "./prompt.ts";
import type { EdgeIndex } from "./regions.ts";

/** What lowering a gate needs of its file. */
interface GateLowering {
  readonly pipeline: DotPipeline;
  readonly edgeIndex: EdgeIndex;
  readonly report: DotReport;
  readonly stepId: (node: string) => string;
}

/** The question of a `wait.human` node. */
export function gateOf(node: DotNode, lowering: GateLowering): WorkOf<"gate"> {
  const { edgeIndex, pipeline } = lowering;
  const edges = edgeIndex.outgoing(node.id);
  if (edges.length === 0) {
    const message = `no edge leaves the gate \`${node.id}\`, so a person can only end the run there`;
    lowering.report.warn(node.span, "gate-choices", message, "add an edge for each choice");
  }
  // An edge without a label is labelled with the name of its target in the file.
  const choices = edgeChoices(node, edges);
  const named = choices.map(({ next, ...choice }) =>
    next === undefined ? choice : { ...choice, next: lowering.stepId(next) },
  );
  const otherwise = defaultOf(node, choices, lowering);
  return {
    kind: "gate",
    ask: expandVariables(questionOf(node), pipeline.attributes),
    choices: named,
    text: isFreeform(node) ? "required" : "optional",
    ...defined({ timeoutMs: node.timeoutMs }),
    ...(otherwise === undefined || node.timeoutMs === undefined ? {} : { default: otherwise }),
  };
}

/** The label, and the prompt that explains it. */
function questionOf({ label, prompt, attributes }: DotNode): string {
  if (prompt === undefined) return label;
  return attributes.has("label") ? `${label}\n\n${prompt}` : prompt;
}

function isFreeform({ gateMode }: DotNode): boolean {
  return gateMode === "freeform";
}

/** The edge that `human.default_choice` names: by its target, its key or its label. */
function defaultOf(
  { id, humanDefaultChoice, attributes, span, timeoutMs }: DotNode,
  choices: readonly Choice[],
  { report }: GateLowering,
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

/** One choice for each label of the edges; of equal labels the first edge counts. */
function edgeChoices(node: DotNode, edges: readonly DotEdge[]): readonly Choice[] {
  const choices: Choice[] = [];
  for (const edge of edges) {
    const { key, text: label } = choiceOf(edge.label ?? answerTo(node, edge) ?? edge.to);
    if (choices.some((choice) => choice.label === label)) continue;
    choices.push({
      key: freeKey(key, label, choices),
      label,
      ...(isForFailure(edge) ? { fails: true } : {}),
      ...(edge.freeform || isFreeform(node) ? { free: true } : {}),
      next: edge.to,
    });
  }
  return choices.length === 0 ? [STOP] : choices;
}

/** The only choice of a gate without edges. */
const STOP: Choice = { key: "S", label: "Stop", fails: true };

/** A question with the answers yes and no names them itself. */
function answerTo({ gateMode }: DotNode, edge: DotEdge): string | undefined {
  if (gateMode !== "yes_no" || edge.condition === undefined) return undefined;
  return isForFailure(edge) ? "No" : "Yes";
}

/** True for an edge that only a failure follows: its choice makes the gate fail. */
function isForFailure({ condition }: DotEdge): boolean {
  const anyOf = condition?.ok === true ? condition.condition.anyOf : [];
  return anyOf.length > 0 && anyOf.every((clauses) => clauses.some(asksForFailure));
}

function asksForFailure(clause: ConditionClause): boolean {
  const { key, operator, negated } = clause;
  if (negated || (key !== "outcome" && key !== "context.outcome")) return false;
  const word = comparedWith(clause);
  return (operator === "=" && word === "fail") || (operator === "!=" && word === "success");
}

/** An unused key: the wanted one, another letter of the label, or a number. */
function freeKey(wanted: string, label: string, choices: readonly Choice[]): string {
  const taken = new Set(choices.map(({ key }) => key));
  const letters = [...label.toUpperCase()].filter((letter) => /[\p{L}\p{N}]/u.test(letter));
  const free = [wanted, ...letters].find((key) => key.trim() !== "" && !taken.has(key));
  if (free !== undefined) return free;
  for (let number = 1; ; number++) if (!taken.has(String(number))) return String(number);
}
