/**
 * Loops of another engine: a `trapezium` begins one, and the `invtrapezium` with the same `loop_id`
 * decides whether it goes round again. They become what the language has: a diamond, a tool whose
 * outcome says so, and an edge back.
 *
 * Owns: these nodes and this edge, and when such a loop ends.
 * Does not: run anything.
 */
import { quote } from "../../util/shell.ts";
import { parseCondition } from "./condition.ts";
import type { DotEdge, DotNode, DotPipeline } from "./model.ts";

/** The types of the two nodes, by their shapes. */
const LOOP_BEGIN = "loop.begin";
const LOOP_END = "loop.end";

/** The outcome with which the end of a loop leads back. */
const AGAIN = "loop_again";

/** The pipeline with all complete loops as nodes and edges of the language. */
export function withLoops(pipeline: DotPipeline): DotPipeline {
  const nodes = [...pipeline.nodes.values()];
  const begins = nodes.filter(({ customType }) => customType === LOOP_BEGIN);
  if (begins.length === 0) return pipeline;
  const changed = new Map(pipeline.nodes);
  const edges = [...pipeline.edges];
  for (const end of nodes.filter(({ customType }) => customType === LOOP_END)) {
    const begin = begins.find((one) => loopId(one) === loopId(end));
    const toolCommand = commandOf(end);
    if (begin === undefined || toolCommand === undefined) continue;
    const { customType: _, ...first } = begin;
    const { customType: __, ...last } = end;
    changed.set(begin.id, { ...first, handler: "conditional" });
    changed.set(end.id, { ...last, handler: "tool", loopKey: keyOf(end), toolCommand });
    edges.push(edgeBack(end, begin));
  }
  return { ...pipeline, nodes: changed, edges };
}

function edgeBack(end: DotNode, begin: DotNode): DotEdge {
  return {
    from: end.id,
    to: begin.id,
    span: end.span,
    condition: parseCondition(`outcome=${AGAIN}`),
    weight: 0,
    loopRestart: false,
    freeform: false,
    attributes: new Map(),
  };
}

function textOf(node: DotNode, name: string): string {
  return node.attributes.get(name)?.value.text.trim() ?? "";
}

function loopId(node: DotNode): string {
  return textOf(node, "loop_id") || node.id;
}

/** The key of the context that counts the iterations. */
function keyOf(end: DotNode): string {
  return `loop.${loopId(end)}.iteration`;
}

/** The command that ends a loop or leads back; undefined when nothing can end it. */
function commandOf(end: DotNode): string | undefined {
  const file = textOf(end, "loop_until_file");
  const [, holder = "", pattern = ""] =
    /^([^:]+):(.+)$/s.exec(textOf(end, "loop_until_file_contains")) ?? [];
  const ends = [
    ...(end.loopCount === undefined ? [] : [`[ "$n" -ge ${end.loopCount} ]`]),
    ...(file === "" ? [] : [`[ -e ${quote(file)} ]`]),
    ...(holder === "" ? [] : [`grep -qsF -e ${quote(pattern.trim())} ${quote(holder.trim())}`]),
  ];
  if (ends.length === 0) return undefined;
  const { loopMax } = end;
  const tooMany = `echo "the loop has not ended after $n iterations" >&2; exit 1`;
  return [
    "n=$((PERDURE_LOOP_ITERATION + 1))",
    `if ${ends.join(" || ")}; then`,
    `  echo ${quote(`${keyOf(end)}=0`)} >> "$PERDURE_CONTEXT"; exit 0`,
    "fi",
    ...(loopMax === undefined ? [] : [`if [ "$n" -ge ${loopMax} ]; then ${tooMany}; fi`]),
    `echo ${quote(`${keyOf(end)}=`)}"$n" >> "$PERDURE_CONTEXT"`,
    `echo '{"outcome": "${AGAIN}"}' > "$PERDURE_STATUS_FILE"`,
  ].join("\n");
}
