import { loadDot } from "../../../src/pipeline/dot/load.ts";
import type { DotNode, DotPipeline } from "../../../src/pipeline/dot/model.ts";

/** A tree without the places of things, for comparing. */
export function withoutPlaces(tree: unknown): unknown {
  return JSON.parse(
    JSON.stringify(tree, (key, value: unknown) =>
      key === "span" || key === "head" ? undefined : value,
    ),
  );
}

/** "line:column severity[rule] message" of each diagnostic. */
export function brief(text: string): string[] {
  return loadDot("p.dot", text).diagnostics.map(
    ({ line, column, severity, rule, message }) =>
      `${line}:${column} ${severity}[${rule}] ${message}`,
  );
}

/** The pipeline of a text that has no mistake of the syntax. */
export function pipelineOf(text: string): DotPipeline {
  const { pipeline } = loadDot("p.dot", text);
  if (pipeline === undefined) throw new Error(brief(text).join("\n"));
  return pipeline;
}

/** One node of a text. */
export function nodeOf(text: string, id: string): DotNode {
  const node = pipelineOf(text).nodes.get(id);
  if (node === undefined) throw new Error(`there is no node ${id}`);
  return node;
}
