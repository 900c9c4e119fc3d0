/**
 * The rule that a step has only keys that the table (keys.ts) allows for its kind.
 *
 * Owns: the diagnostics for keys without effect.
 * Does not: check the keys of a command or an agent; rules/agent.ts knows the agent.
 */
import type { KeyRow, StepKind } from "../key-row.ts";
import type { Report } from "../report.ts";
import { ALL_STEP_KEYS, type StepShape } from "../schema.ts";
import { hasBody, isCut, pathIn, type StepList } from "../step-list.ts";

/** The kind of a step, from the key that defines its work. */
export function kindOf(step: StepShape): StepKind {
  if (step.pass === true) return "pass";
  if (step.fail !== undefined) return "fail";
  if (step.gate !== undefined) return "gate";
  if (step.wait !== undefined) return "wait";
  if (hasBody(step)) return "group";
  const asks = step.prompt ?? step.prompt_file ?? step.agent;
  return asks !== undefined && step.run === undefined ? "agent" : "command";
}

interface Wording {
  readonly rule: string;
  readonly whose: string;
  readonly help: (key: string) => string;
}

const WORDINGS: Readonly<Partial<Record<StepKind, Wording>>> = {
  group: {
    rule: "body-setting",
    whose: "a step that holds steps",
    help: () => "move it to the inner steps",
  },
  gate: {
    rule: "gate-setting",
    whose: "a gate: a gate runs nothing",
    help: (key) =>
      key === "timeout" ? "put it into the gate: `gate: {ask: ..., timeout: 2h}`" : "leave it out",
  },
  wait: {
    rule: "gate-setting",
    whose: "a wait: a wait runs nothing",
    help: () => "leave it out",
  },
  pass: {
    rule: "pass-setting",
    whose: "a `pass` step: it runs nothing",
    help: (key) => `leave out \`${key}\`, or \`pass\``,
  },
  fail: {
    rule: "fail-setting",
    whose: "a `fail` step: it ends the run",
    help: (key) => `leave out \`${key}\`, or \`fail\``,
  },
};

/** Keys that define the work of a step. */
const WORK_KEYS: readonly string[] = ["run", "steps", "pipeline", "loop", "iterations", "wait"];

/** Adds a mistake for every key that has no effect on its kind of step. */
export function checkKeys(list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  const kind = kindOf(step);
  const wording = WORDINGS[kind];
  if (wording === undefined || isCut(list, index, "steps", "pipeline", "for_each")) return;
  for (const [key, row] of Object.entries<KeyRow>(ALL_STEP_KEYS)) {
    if (step[key as keyof StepShape] === undefined || row.on.includes(kind)) continue;
    const path = pathIn(list, index, key);
    if ((kind === "gate" || kind === "wait") && WORK_KEYS.includes(key)) {
      const message = `step \`${step.id}\` has both \`${kind}\` and \`${key}\``;
      report.add({ rule: "step-work", message, help: "make two steps of it", path, on: "key" });
    } else {
      const message = `\`${key}\` has no effect on ${wording.whose}`;
      report.add({ rule: wording.rule, message, help: wording.help(key), path, on: "key" });
    }
  }
}
