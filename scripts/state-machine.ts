/**
 * Writes docs/STATE_MACHINE.md from the transition tables that `evolve` obeys:
 * `node scripts/state-machine.ts`. A test compares the file with what the tables say now.
 */
import { writeFileSync } from "node:fs";
import type { WaitReason } from "../src/core/graph/visit-state.ts";
import { RUN_TRANSITIONS, SIDE_TRANSITIONS, VISIT_TRANSITIONS } from "../src/core/transition.ts";

type Transitions = Readonly<Record<string, Partial<Readonly<Record<string, readonly string[]>>>>>;

const WAITS: Readonly<Record<WaitReason, string>> = {
  start: "the next turn of the loop; gates and waits need no slot",
  slot: "its turn in the queue for process slots",
  retry: "the time of its next attempt",
  owner: "an owner that continues it, after an interruption",
  probe: "its probe, which says whether its effect happened",
  person: "a person's answer",
  time: "the time that its author set",
  close: "the decision how it ends: it is composite, and all its instances have ended",
};

const WAITING = "waiting for ";

/** The whole document. */
export function stateMachineText(): string {
  return `${[
    "# The state machine",
    "",
    "Made from `src/core/transition.ts` by `node scripts/state-machine.ts`; do not edit. `evolve` refuses",
    "an event that the table does not list for the state of its run or visit.",
    "",
    "## A run",
    "",
    ...diagram(RUN_TRANSITIONS, "created"),
    "",
    ...table(RUN_TRANSITIONS, "run"),
    "",
    "## A visit of a step",
    "",
    "A visit waits, runs, or is over. In the diagram, all states of waiting are one. A visit waits for",
    "",
    ...Object.entries(WAITS).map(([reason, what]) => `- *${reason}*: ${what}`),
    "",
    ...diagram(VISIT_TRANSITIONS, `${WAITING}slot`),
    "",
    ...table(VISIT_TRANSITIONS, "step"),
    "",
    "## Visits that an event of the run or of another visit changes",
    "",
    ...sideTable(),
  ].join("\n")}\n`;
}

/** The changes between states; events that change no state are only in the table. */
function diagram(transitions: Transitions, start: string): readonly string[] {
  const types = new Map<string, Set<string>>();
  for (const [from, events] of Object.entries(transitions)) {
    for (const [event, targets = []] of Object.entries(events)) {
      for (const to of targets) {
        const change = `${nodeOf(from)} --> ${nodeOf(to)}`;
        if (nodeOf(from) === nodeOf(to)) continue;
        types.set(change, (types.get(change) ?? new Set()).add(shortName(event)));
      }
    }
  }
  const lines = Array.from(types, ([change, events]) => `  ${change}: ${[...events].join(", ")}`);
  return ["```mermaid", "stateDiagram-v2", `  [*] --> ${nodeOf(start)}`, ...lines, "```"];
}

function nodeOf(state: string): string {
  return state.startsWith(WAITING) ? "waiting" : state;
}

/** `run.opened` is "opened", and `step.started` is "started". */
function shortName(event: string): string {
  return event.replace(/^\w+\./, "");
}

/** One row for each state that an event can meet. */
function table(transitions: Transitions, prefix: "run" | "step"): readonly string[] {
  const rows = Object.entries(transitions).flatMap(([from, events]) => {
    const all = Object.entries(events);
    const stays = all.filter(([, targets = []]) => targets.every((to) => to === from));
    const changes = all.filter((one) => !stays.includes(one));
    const kept = stays.map(([event]) => shortName(event)).join(", ");
    const byTarget = Map.groupBy(changes, ([, targets = []]) => statesText(targets));
    const changed = Array.from(byTarget, ([target, group]) => {
      return `${group.map(([event]) => shortName(event)).join(", ")} → ${target}`;
    });
    return all.length === 0 ? [] : [`| ${from} | ${changed.join("; ")} | ${kept} |`];
  });
  return [
    `| State | \`${prefix}.*\` events that change it | those that do not |`,
    "|---|---|---|",
    ...rows,
  ];
}

function sideTable(): readonly string[] {
  const rows = SIDE_TRANSITIONS.map(({ events, from, to, why }) => {
    const types = events.map((event) => `\`${event}\``).join(", ");
    return `| ${types} | ${statesText(from)} | ${to} | ${why} |`;
  });
  return ["| Event | Visits that are | Become | Because |", "|---|---|---|---|", ...rows];
}

/** The names of states; those of waiting share their first words. */
function statesText(states: readonly string[]): string {
  const reasons = states
    .filter((state) => state.startsWith(WAITING))
    .map((state) => state.slice(WAITING.length));
  const others = states.filter((state) => !state.startsWith(WAITING));
  const whole = reasons.length === Object.keys(WAITS).length;
  const waiting = whole ? "waiting" : WAITING + reasons.join(" or ");
  const all = [...others, ...(reasons.length === 0 ? [] : [waiting])];
  return all.join(", ").replace(/, ([^,]*)$/, " or $1");
}

if (import.meta.main) {
  writeFileSync(new URL("../docs/STATE_MACHINE.md", import.meta.url), stateMachineText());
}
