/**
 * Writes docs/STATE_MACHINE.md from the transition tables that `evolve` obeys:
 * `node scripts/state-machine.ts`. A test compares the file with what the tables say now.
 */
import { writeFileSync } from "node:fs";
import { RUN_TRANSITIONS, SIDE_TRANSITIONS, VISIT_TRANSITIONS } from "../src/core/transition.ts";

type Transitions = Readonly<Record<string, Partial<Readonly<Record<string, readonly string[]>>>>>;

interface Edge {
  readonly from: string;
  readonly event: string;
  readonly to: string;
}

/** The whole document. */
export function stateMachineText(): string {
  return `${[
    "# The state machine",
    "",
    "Made from `src/core/transition.ts` by `node scripts/state-machine.ts`; do not edit.",
    "`evolve` refuses an event that is not listed for a state.",
    "",
    "## A run",
    "",
    ...diagram(edgesOf(RUN_TRANSITIONS), "created"),
    "",
    ...table(RUN_TRANSITIONS),
    "",
    "## A visit of a step",
    "",
    "A visit waits for something, runs, or is over.",
    "",
    ...diagram(edgesOf(VISIT_TRANSITIONS), "waiting for slot"),
    "",
    ...table(VISIT_TRANSITIONS),
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

const WAITING = "waiting for ";

/** The diagram; events that do not change a state are only in the table. */
function diagram(edges: readonly Edge[], start: string): readonly string[] {
  const words = new Map<string, string[]>();
  for (const { from, event, to } of edges) {
    if (from === to) continue;
    const key = `${nodeOf(from)} --> ${nodeOf(to)}`;
    words.set(key, [...(words.get(key) ?? []), event.replace(/^(run|step)\./, "")]);
  }
  const names = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const waiting = [...names].filter((name) => name.startsWith(WAITING)).map(nodeOf);
  const group = waiting.length === 0 ? [] : ["  state waiting {", ...waiting.map(indent), "  }"];
  const lines = Array.from(words, ([key, events]) => `  ${key}: ${events.join(", ")}`);
  return ["```mermaid", "stateDiagram-v2", ...group, `  [*] --> ${nodeOf(start)}`, ...lines, "```"];
}

function indent(line: string): string {
  return `    ${line}`;
}

/** The name of a state in the diagram; the waiting states are inside the box `waiting`. */
function nodeOf(name: string): string {
  return name.startsWith(WAITING) ? `for_${name.slice(WAITING.length)}` : name;
}

/** One row for each state. */
function table(transitions: Transitions): readonly string[] {
  const rows = Object.entries(transitions).map(([from, events]) => {
    const cells = Object.entries(events).map(([event, targets = []]) => {
      const stays = targets.length === 1 && targets[0] === from;
      return stays ? `\`${event}\`` : `\`${event}\` → ${targets.join(" or ")}`;
    });
    return `| ${from} | ${cells.join("<br>")} |`;
  });
  return ["| State | Events, and the state after each that changes it |", "|---|---|", ...rows];
}

function sideTable(): readonly string[] {
  const rows = SIDE_TRANSITIONS.map(
    ({ events, from, to, why }) =>
      `| ${events.map((event) => `\`${event}\``).join(", ")} | ${fromText(from)} | ${to} | ${why} |`,
  );
  return [
    "| Event of the run | Visits that are | Become | Because |",
    "|---|---|---|---|",
    ...rows,
  ];
}

function fromText(from: readonly string[]): string {
  const waiting = from.filter((name) => name.startsWith(WAITING));
  const others = from.filter((name) => !name.startsWith(WAITING));
  const reasons = waiting.map((name) => name.slice(WAITING.length)).join(", ");
  return [...(waiting.length === 0 ? [] : [`${WAITING}${reasons}`]), ...others].join("; ");
}

if (import.meta.main) {
  writeFileSync(new URL("../docs/STATE_MACHINE.md", import.meta.url), stateMachineText());
}
