/** Random Attractor pipelines as data; dot-writer.ts writes them as text. */
import * as fc from "fast-check";

export interface Flow {
  readonly goal: string;
  readonly maxVisits: number;
  readonly nodes: readonly FlowNode[];
}

export interface Clause {
  readonly key: "outcome" | "preferred_label" | "color" | "size";
  readonly equal: boolean;
  readonly value: string;
}

export interface FlowEdge {
  /** Position of the node that it leads to; always a node of the main graph. */
  readonly to: number;
  readonly label?: string;
  /** All of them; none: no condition. */
  readonly clauses: readonly Clause[];
  readonly weight: number;
  readonly restart: boolean;
}

interface Tries {
  readonly retries: number;
  readonly allowPartial: boolean;
}

export type FlowWork =
  | ({ readonly kind: "tool"; readonly command: string } & Tries)
  | ({ readonly kind: "agent"; readonly prompt: string } & Tries)
  | { readonly kind: "pass" }
  | { readonly kind: "gate"; readonly question: string }
  /** Branches of commands, one after the other, and where they meet. */
  | {
      readonly kind: "fork";
      readonly branches: readonly (readonly string[])[];
      readonly maxParallel: number;
      readonly first: boolean;
    };

export interface FlowNode {
  readonly id: string;
  readonly work: FlowWork;
  readonly edges: readonly FlowEdge[];
  readonly goal: boolean;
  readonly retryTarget?: number;
}

const LABELS = ["Yes", "No", "[A] Again", "B) Back", "later"];
const COLORS = ["red", "blue", ""];

const clause: fc.Arbitrary<Clause> = fc.oneof(
  fc.record({
    key: fc.constant("outcome" as const),
    equal: fc.boolean(),
    value: fc.constantFrom("success", "fail", "retry", "partial_success", "port"),
  }),
  fc.record({
    key: fc.constant("preferred_label" as const),
    equal: fc.boolean(),
    value: fc.constantFrom("Yes", "No"),
  }),
  fc.record({
    key: fc.constantFrom("color" as const, "size" as const),
    equal: fc.boolean(),
    value: fc.constantFrom(...COLORS),
  }),
);

const tries = { retries: fc.constantFrom(0, 0, 1, 2), allowPartial: fc.boolean() };

const work: fc.Arbitrary<FlowWork> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("tool" as const), command: text(), ...tries }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("agent" as const), prompt: text(), ...tries }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "pass" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("gate" as const), question: text() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("fork" as const),
      branches: fc.array(fc.array(text(), { minLength: 1, maxLength: 2 }), {
        minLength: 1,
        maxLength: 3,
      }),
      maxParallel: fc.constantFrom(1, 2, 4),
      first: fc.boolean(),
    }),
  },
);

/** Texts with what is special in one language or the other. */
function text(): fc.Arbitrary<string> {
  return fc.constantFrom(
    "true",
    'echo "a b" # c',
    "printf '%s\\n' x: y",
    "one\ntwo\n  three",
    "50% & more",
  );
}

interface Draft {
  readonly work: FlowWork;
  readonly goal: boolean;
  readonly retry: number | null;
  readonly jumps: readonly BareEdge[];
  readonly targets: readonly number[];
  readonly onward: BareEdge;
}

type BareEdge = Omit<FlowEdge, "to" | "label"> & { readonly label: string | undefined };

const bareEdge = fc.record({
  label: fc.option(fc.constantFrom(...LABELS), { nil: undefined }),
  clauses: fc.oneof(
    fc.constant<readonly Clause[]>([]),
    fc.array(clause, { minLength: 1, maxLength: 2 }),
  ),
  weight: fc.constantFrom(0, 0, 0, 1, 5),
  restart: fc.constantFrom(false, false, false, false, true),
});

const draft: fc.Arbitrary<Draft> = fc.record({
  work,
  goal: fc.constantFrom(false, false, true),
  retry: fc.option(fc.nat(20)),
  jumps: fc.array(bareEdge, { maxLength: 2 }),
  targets: fc.array(fc.nat(20), { minLength: 2, maxLength: 2 }),
  onward: bareEdge,
});

/** Walks of up to eight nodes between start and exit, all of which can be reached. */
export const flows: fc.Arbitrary<Flow> = fc
  .record({
    goal: fc.constantFrom("", "ship it", 'say "hi"'),
    maxVisits: fc.constantFrom(1, 2, 3, 4),
    drafts: fc.array(draft, { minLength: 1, maxLength: 8 }),
  })
  .map(({ goal, maxVisits, drafts }) => ({ goal, maxVisits, nodes: nodesOf(drafts) }));

function nodesOf(drafts: readonly Draft[]): readonly FlowNode[] {
  const exit = drafts.length + 1;
  const plain = { clauses: [], weight: 0, restart: false };
  const inner = drafts.map((one, index): FlowNode => {
    const position = index + 1;
    const fork = one.work.kind === "fork";
    const jumps = one.jumps.map((edge, at) => ({
      ...edge,
      to: 1 + ((one.targets[at] ?? 0) % exit),
    }));
    const onward = { ...one.onward, restart: false, to: position + 1 };
    const tool = one.work.kind === "tool" || one.work.kind === "agent";
    return {
      id: `${"nmk"[index % 3]}${position}`,
      work: one.work,
      // What follows branches is said by where they meet.
      edges: [...(fork ? [] : jumps), onward].map(present),
      goal: one.goal && tool,
      ...(one.retry === null || !tool ? {} : { retryTarget: 1 + (one.retry % drafts.length) }),
    };
  });
  const pass = { work: { kind: "pass" } as const, goal: false };
  return [
    { id: "start", ...pass, edges: [{ ...plain, to: 1 }] },
    ...inner,
    { id: "exit", ...pass, edges: [] },
  ];
}

function present({ label, ...edge }: BareEdge & { readonly to: number }): FlowEdge {
  return label === undefined ? edge : { ...edge, label };
}
