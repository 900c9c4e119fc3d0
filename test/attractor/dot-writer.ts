/** Writes a random graph as DOT, by the specification of that language and by nothing else. */
import type { Clause, Flow, FlowEdge, FlowNode } from "./flow.ts";

export function writeDot(flow: Flow): string {
  const lines = flow.nodes.flatMap((node, position) => [
    ...nodeLines(node, position, flow),
    ...edgeLines(node, flow),
  ]);
  const graph = [attribute("goal", flow.goal), `max_visits=${flow.maxVisits}`];
  return `digraph flow {\n  graph [${graph.join(", ")}]\n${lines.map((line) => `  ${line}\n`).join("")}}\n`;
}

function nodeLines(node: FlowNode, position: number, flow: Flow): readonly string[] {
  const { id, work, goal, retryTarget } = node;
  const extra = [
    ...("retries" in work && work.retries > 0 ? [`max_retries=${work.retries}`] : []),
    ...("allowPartial" in work && work.allowPartial ? ["allow_partial=true"] : []),
    ...(goal ? ["goal_gate=true"] : []),
    ...(retryTarget === undefined ? [] : [`retry_target=${flow.nodes[retryTarget]?.id}`]),
  ];
  const line = (name: string, ...attributes: readonly string[]): string =>
    `${name} [${attributes.join(", ")}];`;
  switch (work.kind) {
    case "tool":
      return [line(id, "shape=parallelogram", attribute("tool_command", work.command), ...extra)];
    case "agent":
      return [line(id, "shape=box", attribute("prompt", work.prompt), ...extra)];
    case "gate":
      return [line(id, "shape=hexagon", attribute("label", work.question))];
    case "pass": {
      const shape = position === 0 ? "Mdiamond" : id === "exit" ? "Msquare" : "diamond";
      return [line(id, `shape=${shape}`)];
    }
    case "fork": {
      const policy = work.first ? "first_success" : "wait_all";
      const head = [`max_parallel=${work.maxParallel}`, `join_policy=${policy}`];
      return [
        line(id, "shape=component", ...head),
        ...work.branches.flatMap((commands, branch) =>
          commands.map((command, at) =>
            line(
              `${id}_${branch}_${at}`,
              "shape=parallelogram",
              attribute("tool_command", command),
            ),
          ),
        ),
        line(`${id}_join`, "shape=tripleoctagon"),
      ];
    }
  }
}

function edgeLines({ id, work, edges }: FlowNode, flow: Flow): readonly string[] {
  const from = work.kind === "fork" ? `${id}_join` : id;
  const inside =
    work.kind === "fork"
      ? work.branches.map((commands, branch) => {
          const names = commands.map((_, at) => `${id}_${branch}_${at}`);
          return `${[id, ...names, `${id}_join`].join(" -> ")};`;
        })
      : [];
  return [...inside, ...edges.map((edge) => edgeLine(from, edge, flow))];
}

function edgeLine(from: string, edge: FlowEdge, { nodes }: Flow): string {
  const { label, clauses, weight, restart } = edge;
  const attributes = [
    ...(label === undefined ? [] : [attribute("label", label)]),
    ...(clauses.length === 0 ? [] : [attribute("condition", clauses.map(clauseText).join(" && "))]),
    ...(weight === 0 ? [] : [`weight=${weight}`]),
    ...(restart ? ["loop_restart=true"] : []),
  ];
  return `${from} -> ${nodes[edge.to]?.id} [${attributes.join(", ")}];`;
}

function clauseText({ key, equal, value }: Clause): string {
  const own = key === "color" || key === "size" ? `context.${key}` : key;
  return `${own}${equal ? "=" : "!="}${value}`;
}

function attribute(name: string, text: string): string {
  const escaped = text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  return `${name}="${escaped}"`;
}
