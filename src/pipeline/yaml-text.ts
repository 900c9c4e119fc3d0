/**
 * The content of a pipeline file as YAML, as a person would write it.
 *
 * Owns: the layout: texts of several lines as blocks, short edges on one line, air between steps.
 * Does not: choose what is written (plan/yaml-shape.ts).
 */
import { Document, isMap, isScalar, isSeq, type Node, Scalar, visit } from "yaml";
import type { PipelineShape } from "./schema.ts";

/** The longest map that is written on one line. */
const FLOW_COLUMNS_MAX = 90;
/** Lists whose entries are written on one line each. */
const FLOW_LISTS = new Set(["edges", "choices"]);
const FLOW_VALUES = new Set([
  "needs",
  "loop",
  "relay",
  "keep",
  "restart",
  "once",
  "capture",
  "retry",
  "include",
]);

/** The text of a file. */
export function yamlText(shape: PipelineShape): string {
  const document = new Document(shape);
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === "string" && node.value.includes("\n")) {
        node.type = Scalar.BLOCK_LITERAL;
      }
    },
    Pair(_key, { key, value }) {
      const name = isScalar(key) ? String(key.value) : "";
      if (FLOW_VALUES.has(name)) flow(value as Node);
      if (FLOW_LISTS.has(name) && isSeq(value))
        for (const entry of value.items) flow(entry as Node);
      const listed = (name === "steps" || name === "branches") && isSeq(value);
      if (!listed) return;
      value.items.forEach((entry, index) => {
        if (index > 0 && isMap(entry) && name === "steps") entry.spaceBefore = true;
      });
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false, indentSeq: true });
}

/** Writes a map or a list on one line, if it is short and has no texts of several lines. */
function flow(node: Node): void {
  if (!isMap(node) && !isSeq(node)) return;
  const text = JSON.stringify(node.toJSON());
  if (text.length <= FLOW_COLUMNS_MAX && !text.includes("\\n")) node.flow = true;
}
