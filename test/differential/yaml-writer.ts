/** Writes a random walk as YAML, by the schema of pipelines and by nothing else. */
import {
  type Clause,
  type Flow,
  type FlowEdge,
  type FlowNode,
  leadsToAsking,
  meetingOrder,
} from "./flow.ts";

/** Every text is written as JSON, which is YAML. */
const json = JSON.stringify;

export function writeYaml(flow: Flow): string {
  const order = meetingOrder(flow);
  return [
    "name: flow",
    "language: attractor",
    "context:",
    `  graph.goal: ${json(flow.goal)}`,
    `  graph.max_visits: "${flow.maxVisits}"`,
    "defaults:",
    "  agent: claude",
    `  env: {goal: ${json(flow.goal)}}`,
    `  max_visits: ${flow.maxVisits}`,
    "steps:",
    ...order.flatMap(({ node, isJoin }) =>
      isJoin ? joinLines(node, flow) : stepLines(node, flow),
    ),
    "",
  ].join("\n");
}

function stepLines(node: FlowNode, flow: Flow): readonly string[] {
  const { id, work, goal, retryTarget } = node;
  const target = retryTarget === undefined ? undefined : flow.nodes[retryTarget]?.id;
  if (work.kind === "fork") return forkLines(id, work);
  return [
    `  - id: ${id}`,
    ...(work.kind === "tool" ? [`    run: ${json(work.command)}`] : []),
    ...(work.kind === "agent" ? [`    prompt: ${json(work.prompt)}`] : []),
    ...(work.kind === "pass" ? ["    pass: true"] : []),
    ...(work.kind === "gate" ? [`    gate: ${json(work.question)}`] : []),
    ...("retries" in work && work.retries > 0 ? [`    retry: ${work.retries + 1}`] : []),
    ...("allowPartial" in work && work.allowPartial ? ["    allow_partial: true"] : []),
    ...(goal ? ["    goal: visited"] : []),
    ...(goal && target !== undefined ? [`    retry_target: ${target}`] : []),
    ...(target === undefined ? [] : [`    on_failure: ${target}`]),
    ...edgeLines(node.edges, flow),
  ];
}

function joinLines({ id, edges }: FlowNode, flow: Flow): readonly string[] {
  return [`  - id: ${id}_join`, "    pick: true", ...edgeLines(edges, flow)];
}

function forkLines(
  id: string,
  { branches, maxParallel, first }: Extract<FlowNode["work"], { kind: "fork" }>,
): readonly string[] {
  return [
    `  - id: ${id}`,
    `    max_parallel: ${maxParallel}`,
    `    join_policy: ${first ? "first_success" : "wait_all"}`,
    "    branches:",
    ...branches.flatMap((commands, branch) => [
      "      - steps:",
      ...commands.flatMap((command, at) => [
        `          - id: ${id}_${branch}_${at}`,
        `            run: ${json(command)}`,
        ...(at === commands.length - 1 ? [`            goto: ${id}_join`] : []),
      ]),
    ]),
    `    goto: ${id}_join`,
  ];
}

function edgeLines(edges: readonly FlowEdge[], flow: Flow): readonly string[] {
  if (edges.length === 0) return ["    edges: []"];
  return ["    edges:", ...edges.map((edge) => `      - ${json(edgeOf(edge, flow))}`)];
}

function edgeOf(edge: FlowEdge, flow: Flow): object {
  const { to, label, clauses, weight, restart, spelledOut } = edge;
  const asked = clauses.length > 0;
  return {
    to: flow.nodes[to]?.id,
    ...(label === undefined ? {} : { label }),
    ...(asked && spelledOut ? { when: clauses.map(expressionOf).join(" && "), on: "any" } : {}),
    ...(asked && !spelledOut ? { condition: clauses.map(wordsOf).join(" && ") } : {}),
    ...(!asked && leadsToAsking(flow, edge) ? { on: "any" } : {}),
    ...(weight === 0 ? {} : { weight }),
    ...(restart ? { restart: true } : {}),
  };
}

function expressionOf({ key, equal, value }: Clause): string {
  const own =
    key === "color" || key === "size" ? `("${key}" in context ? context.${key} : "")` : key;
  return `${own} ${equal ? "==" : "!="} ${json(value)}`;
}

function wordsOf({ key, equal, value }: Clause): string {
  const own = key === "color" || key === "size" ? `context.${key}` : key;
  return `${own}${equal ? "=" : "!="}${value}`;
}
