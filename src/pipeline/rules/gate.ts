/**
 * Gates and waits: the choices of a gate (those that its author wrote, else the labels of its
 * edges, else approve and reject), and the rules on them.
 *
 * Owns: keys of choices, which choices fail the step, where choices lead, and these rules.
 * Does not: check the expressions of the question (validate.ts).
 */

import { choiceNamed, choiceOf, normalizedLabel, sameLabel } from "../../util/choice.ts";
import { defined } from "../../util/defined.ts";
import { parseMoment } from "../../util/duration.ts";
import type { Report } from "../diagnostic.ts";
import type { Choice } from "../pipeline.ts";
import type { StepShape } from "../schema.ts";
import { isCut, pathIn, type StepList } from "../step-list.ts";

/** The long form of a gate. */
type GateShape = Exclude<NonNullable<StepShape["gate"]>, string>;

interface WrittenChoice extends Choice {
  /** Its path below the step. */
  readonly at: readonly (string | number)[];
  /** True when the author set the key. */
  readonly keyed: boolean;
}

/** Choices that fail the step, unless the author sets `fails`. */
const REJECT = "reject";
const USUAL = ["approve", REJECT];

/** The gate of a step, if it is one. */
export function gateOf({ gate }: StepShape): GateShape | undefined {
  return typeof gate === "string" ? { ask: gate } : gate;
}

/** True when the answer selects an edge. */
function choosesEdges(step: StepShape): boolean {
  return step.gate !== undefined && (step.edges ?? []).some(({ label }) => label !== undefined);
}

/** The choices of a gate, in order. */
export function choicesOf(step: StepShape): readonly WrittenChoice[] {
  const drafts = draftsOf(step);
  const given = new Set(drafts.flatMap(({ key }) => (key === undefined ? [] : [key])));
  const taken = new Set<string>();
  return drafts.map(({ label, key, fails, at }) => {
    const next = step.edges?.find((edge) => sameLabel(edge.label, label))?.to;
    const ownKey = key ?? freeKey(label, new Set([...given, ...taken]));
    taken.add(ownKey);
    return {
      key: ownKey,
      label,
      ...(fails ? { fails: true } : {}),
      ...defined({ next }),
      at,
      keyed: key !== undefined,
    };
  });
}

interface Draft {
  readonly label: string;
  readonly key: string | undefined;
  readonly fails: boolean;
  readonly at: readonly (string | number)[];
}

function draftsOf(step: StepShape): readonly Draft[] {
  const edges = choosesEdges(step);
  const draft = (
    label: string,
    at: readonly (string | number)[],
    written: { readonly key?: string | undefined; readonly fails?: boolean | undefined } = {},
  ): Draft => ({
    label,
    key: (written.key ?? acceleratorOf(label))?.toUpperCase(),
    fails: written.fails ?? (!edges && normalizedLabel(label) === REJECT),
    at,
  });
  const choices = gateOf(step)?.choices;
  if (choices !== undefined) {
    return choices.map((choice, index) => {
      const at = ["gate", "choices", index];
      return typeof choice === "string" ? draft(choice, at) : draft(choice.label, at, choice);
    });
  }
  if (!edges) return USUAL.map((label) => draft(label, ["gate"]));
  return (step.edges ?? []).flatMap(({ label }, index) =>
    label === undefined ? [] : [draft(label, ["edges", index, "label"])],
  );
}

function acceleratorOf(label: string): string | undefined {
  const { key, text } = choiceOf(label);
  return text === label.trim() ? undefined : key;
}

/** The first letter; if another choice has it, the whole label. */
function freeKey(label: string, taken: ReadonlySet<string>): string {
  const { key } = choiceOf(label);
  return taken.has(key) ? label.trim().toUpperCase() : key;
}

/** True for a step that starts no process. */
function startsNoProcess(step: StepShape): boolean {
  return (step.gate ?? step.wait) !== undefined;
}

/** Adds the mistakes in a gate or a wait. */
export function checkGateOrWait(list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  if (!startsNoProcess(step) || isCut(list, index, "gate", "wait")) return;
  const rules = new GateRules(list, index, report);
  rules.wait();
  if (step.gate === undefined || isCut(list, index, "edges")) return;
  rules.otherwise();
  rules.choices();
  rules.edges();
}

class GateRules {
  readonly #step: StepShape;
  readonly #list: StepList;
  readonly #index: number;
  readonly #report: Report;

  constructor(list: StepList, index: number, report: Report) {
    this.#step = list.steps[index] as StepShape;
    this.#list = list;
    this.#index = index;
    this.#report = report;
  }

  wait(): void {
    const { wait } = this.#step;
    if (typeof wait !== "object" || !("until" in wait) || wait.until.includes("${{")) return;
    if (parseMoment(wait.until) !== undefined) return;
    const message = `\`${wait.until}\` is not a point in time`;
    const help = "write it with its time zone: 2026-12-01T08:00:00Z or 2026-12-01T08:00:00+01:00";
    this.#add("bad-moment", message, help, ["wait", "until"]);
  }

  choices(): void {
    const choices = choicesOf(this.#step);
    for (const [index, { label, key, keyed, at }] of choices.entries()) {
      const before = choices.slice(0, index);
      if (before.some((one) => sameLabel(one.label, label))) {
        const help = "give every choice a label of its own";
        this.#add("duplicate-choice", `there are two choices \`${label}\``, help, at);
      } else if (keyed && before.some((one) => one.key === key)) {
        const message = `the key \`${key}\` stands for two choices`;
        this.#add("duplicate-choice", message, "give every choice a key of its own", at);
      }
    }
  }

  otherwise(): void {
    const { default: word, timeout } = gateOf(this.#step) ?? {};
    if (word === undefined) return;
    const choices = choicesOf(this.#step);
    const at = ["gate", "default"];
    if (choiceNamed(choices, word) === undefined) {
      const labels = choices.map(({ label }) => label);
      const help = this.#report.suggest(word, labels, "its choices");
      this.#add("unknown-choice", `there is no choice \`${word}\``, help, at);
    }
    if (timeout !== undefined) return;
    const message = "`default` needs a `timeout`: it is the choice when nobody answers in time";
    this.#add("gate-default", message, "add `timeout:`, or leave `default` out", at, "key");
  }

  edges(): void {
    if (!choosesEdges(this.#step)) return;
    const choices = choicesOf(this.#step);
    this.#step.edges?.forEach(({ label, when }, index) => {
      if (label === undefined) return;
      if (!choices.some((choice) => sameLabel(choice.label, label))) {
        const labels = choices.map((choice) => choice.label);
        const help = this.#report.suggest(label, labels, "its choices");
        const message = `the gate has no choice \`${label}\``;
        this.#add("unknown-choice", message, help, ["edges", index, "label"]);
      } else if (when !== undefined) {
        const message = "a person chooses this edge, so it cannot have a `when` as well";
        const help = "leave `when` out, or the label";
        this.#add("gate-edge", message, help, ["edges", index, "when"], "key");
      }
    });
    for (const { label, next, fails, at } of choices) {
      if (next !== undefined || fails === true) continue;
      const message = `no edge has the label of the choice \`${label}\``;
      this.#add("gate-edge", message, `add \`{to: STEP, label: ${label}}\` to \`edges\``, at);
    }
  }

  #add(
    rule: string,
    message: string,
    help: string,
    keys: readonly (string | number)[],
    on: "key" | "value" = "value",
  ): void {
    const path = [...pathIn(this.#list, this.#index), ...keys];
    this.#report.add({ rule, message, help, path, on });
  }
}
