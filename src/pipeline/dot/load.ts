/**
 * Loads the text of a DOT file: its pipeline and all diagnostics. Loops of another engine (a
 * `trapezium` begins one, and the `invtrapezium` with the same `loop_id` decides whether it goes
 * round again) become what the language has: a diamond, a tool whose outcome says so, and an edge
 * back.
 *
 * Owns: the order of the phases; the nodes and the edge of such a loop, and when it ends.
 * Does not: read files, or build a plan.
 */

import { defined } from "../../util/defined.ts";
import { quote } from "../../util/shell.ts";
import type { Diagnostic } from "../diagnostic.ts";
import type { DotGraph } from "./ast.ts";
import { parseCondition } from "./condition.ts";
import { lintDot } from "./lint.ts";
import { type DotEdge, type DotNode, type DotPipeline, resolveDot } from "./model.ts";
import { parseDot } from "./parser.ts";
import { DotReport, type DotSource, dotSource } from "./source.ts";

interface LoadedDot {
  readonly source: DotSource;
  readonly graphs: readonly DotGraph[];
  /** Absent when the syntax has a mistake or the file has no graph; present with lint errors. */
  readonly pipeline?: DotPipeline;
  /** All diagnostics in the order of the file. A file with an error must not run. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads a pipeline from the text of a DOT file; `file` is its name in messages. */
export function loadDot(file: string, text: string): LoadedDot {
  const source = dotSource(file, text);
  const report = new DotReport(source);
  const graphs = parseDot(report);
  // The meaning of a file with syntax errors is unknown, so only these errors are reported.
  const broken = report.diagnostics.some(({ severity }) => severity === "error");
  const written = broken ? undefined : resolveDot(graphs, report);
  const pipeline = written === undefined ? undefined : withLoops(written);
  if (pipeline !== undefined) lintDot(pipeline, report);
  const diagnostics = report.diagnostics.toSorted((a, b) => a.line - b.line || a.column - b.column);
  return { source, graphs, ...defined({ pipeline }), diagnostics };
}

/** The types of the two nodes, by their shapes. */
const LOOP_BEGIN = "loop.begin";
const LOOP_END = "loop.end";

/** The outcome with which the end of a loop leads back. */
const AGAIN = "loop_again";

/** The pipeline with all complete loops as nodes and edges of the language. */
function withLoops(pipeline: DotPipeline): DotPipeline {
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
