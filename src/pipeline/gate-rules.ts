/**
 * The rules on gates and waits: choices that differ and lead somewhere, defaults that can be chosen,
 * moments that exist.
 *
 * Owns: these rules.
 * Does not: read choices (gate-choices.ts) or judge the question's expressions (validate.ts).
 */
import { choiceNamed, sameLabel } from "../util/choice.ts";
import { parseMoment } from "../util/duration.ts";
import { choicesOf, choosesEdges, gateOf } from "./gate-choices.ts";
import type { Report } from "./report.ts";
import type { StepShape } from "./schema.ts";
import { isCut, pathIn, type StepList } from "./step-list.ts";

/** True for a step for which nothing is run. */
export function isPrompt(step: StepShape): boolean {
  return (step.gate ?? step.wait) !== undefined;
}

/** Adds the mistakes in a gate or a wait. */
export function checkPrompt(list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  if (!isPrompt(step) || isCut(list, index, "gate", "wait")) return;
  const rules = new PromptRules(list, index, report);
  rules.wait();
  if (step.gate === undefined || isCut(list, index, "edges")) return;
  rules.otherwise();
  rules.choices();
  rules.edges();
}

class PromptRules {
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
    const message = `\`${wait.until}\` is no moment`;
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
    const message = "`default` counts when nobody answers in time, and there is no `timeout`";
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
        const message = `no choice of the gate is called \`${label}\``;
        this.#add("unknown-choice", message, help, ["edges", index, "label"]);
      } else if (when !== undefined) {
        const message = "a person chooses this edge, so it cannot have a `when` as well";
        const help = "leave `when` out, or the label";
        this.#add("gate-edge", message, help, ["edges", index, "when"], "key");
      }
    });
    for (const { label, next, fails, at } of choices) {
      if (next !== undefined || fails === true) continue;
      const message = `no edge is for the choice \`${label}\``;
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
