/**
 * The choices of a gate: those that its author wrote, else the labels of its edges, else to approve
 * or to reject.
 *
 * Owns: keys, which choice makes the step fail, and where a choice leads.
 * Does not: complain; what is wrong with them is for gate-rules.ts.
 */
import { choiceOf, normalizedLabel, sameLabel } from "../util/choice.ts";
import type { GateChoice } from "./pipeline.ts";
import type { StepShape } from "./schema.ts";

/** The long form of a gate. */
export type GateShape = Exclude<NonNullable<StepShape["gate"]>, string>;

export interface WrittenChoice extends GateChoice {
  /** Where it stands, from the step on. */
  readonly at: readonly (string | number)[];
  /** The author gave the key. */
  readonly keyed: boolean;
}

/** Who chooses it stops the pipeline, unless the author says otherwise. */
const REJECT = "reject";
const USUAL = ["approve", REJECT];

/** The gate of a step, if it is one. */
export function gateOf({ gate }: StepShape): GateShape | undefined {
  return typeof gate === "string" ? { ask: gate } : gate;
}

/** True when the answer chooses between edges. */
export function choosesEdges(step: StepShape): boolean {
  return step.gate !== undefined && (step.edges ?? []).some(({ label }) => label !== undefined);
}

/** The choices of a gate, in order. */
export function choicesOf(step: StepShape): readonly WrittenChoice[] {
  const drafts = draftsOf(step);
  const given = new Set(drafts.flatMap(({ key }) => (key === undefined ? [] : [key])));
  const taken = new Set<string>();
  return drafts.map(({ label, key, fails, at }) => {
    const next = step.edges?.find((edge) => sameLabel(edge.label, label))?.to;
    const own = key ?? freeKey(label, new Set([...given, ...taken]));
    taken.add(own);
    return {
      key: own,
      label,
      ...(fails ? { fails: true } : {}),
      ...(next === undefined ? {} : { next }),
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
    said: { readonly key?: string | undefined; readonly fails?: boolean | undefined } = {},
  ): Draft => ({
    label,
    key: (said.key ?? acceleratorOf(label))?.toUpperCase(),
    fails: said.fails ?? (!edges && normalizedLabel(label) === REJECT),
    at,
  });
  const written = gateOf(step)?.choices;
  if (written !== undefined) {
    return written.map((choice, index) => {
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

/** The first letter; where another choice has that, the whole label. */
function freeKey(label: string, taken: ReadonlySet<string>): string {
  const { key } = choiceOf(label);
  return taken.has(key) ? label.trim().toUpperCase() : key;
}
