/**
 * docs/STATE_MACHINE.md, made from the transition tables that `evolve` obeys. A test compares the
 * file with this text, so the picture cannot lie. Write it with `node scripts/state-machine.ts`.
 */
import { RUN_TRANSITIONS, SIDE_TRANSITIONS, VISIT_TRANSITIONS } from "../core/transition.ts";

type Transitions = Readonly<Record<string, Partial<Readonly<Record<string, readonly string[]>>>>>;

interface Edge {
  readonly from: string;
  readonly event: string;
  readonly to: string;
}

/** The whole document. */
export function stateMachineText(): string {
  const visits = edgesOf(VISIT_TRANSITIONS);
  const runs = edgesOf(RUN_TRANSITIONS);
  return `${[
    "# The state machine",
    "",
    "Made from `src/core/transition.ts` by `node scripts/state-machine.ts`; do not edit.",
    "An event that is not listed for a state is refused.",
    "",
    "## A run",
    "",
    ...diagram(runs, "created"),
    "",
    ...table(runs),
    "",
    "## A visit of a step",
    "",
    ...diagram(visits, "ready"),
    "",
    ...table(visits),
    "",
    "## Visits that change when the run does",
    "",
    "These have no event of their own: the run's event moves them.",
    "",
    ...sideTable(),
  ].join("\n")}\n`;
}

function edgesOf(transitions: Transitions): readonly Edge[] {
  return Object.entries(transitions).flatMap(([from, events]) =>
    Object.entries(events).flatMap(([event, targets]) =>
      (targets ?? []).map((to) => ({ from, event, to })),
    ),
  );
}

function diagram(edges: readonly Edge[], start: string): readonly string[] {
  return [
    "```mermaid",
    "stateDiagram-v2",
    `  [*] --> ${start}`,
    ...edges.map(({ from, event, to }) => `  ${from} --> ${to}: ${event}`),
    "```",
  ];
}

function table(edges: readonly Edge[]): readonly string[] {
  const cells = new Map<string, string[]>();
  for (const { from, event, to } of edges) {
    const key = `| ${from} | \`${event}\` |`;
    cells.set(key, [...(cells.get(key) ?? []), to]);
  }
  const rows = Array.from(cells, ([key, targets]) => `${key} ${targets.join(" or ")} |`);
  return ["| State | Event | Becomes |", "|---|---|---|", ...rows];
}

function sideTable(): readonly string[] {
  const rows = SIDE_TRANSITIONS.map(
    ({ event, from, to, why }) => `| \`${event}\` | ${from.join(", ")} | ${to} | ${why} |`,
  );
  return [
    "| Event of the run | Visits that are | Become | Because |",
    "|---|---|---|---|",
    ...rows,
  ];
}
