/**
 * Random plans that use the whole graph model: joins, splits, loops, fan-out, nested scopes; and such
 * as authors write as a list, whose agents share conversations.
 */
import {
  type Check,
  type Edge,
  type Goal,
  type Graph,
  markBackEdges,
  PLAN_FORMAT,
  type Plan,
  type Step,
  type Work,
  type WorkOf,
  type WorkspaceSettings,
} from "../../src/plan/plan.ts";
import { canonicalJson } from "../../src/util/json.ts";
import { type Random, seededRandom, seedOf } from "../../src/util/random.ts";

const STEPS_MAX = 7;
const DEPTH_MAX = 2;
/** An agent that lets its caller choose the id of a conversation; the other one chooses itself. */
export const CHOOSES = "chooses";
const OWN = "own";

export function randomPlan(random: Random): Plan {
  const plan = random.chance(0.1) ? widePlan(random) : anyPlan(random);
  // A workspace of its own needs snapshots; validation sees to that.
  const allowed = plan.workspace?.snapshots === true;
  const ended = withFinally(allowed ? plan : { ...plan, graph: withoutOwn(plan.graph) });
  return allowed ? withCache(ended) : ended;
}

/** Some plans take results of earlier runs; dice of their own, so that the others stay what they were. */
function withCache(plan: Plan): Plan {
  const random = seededRandom(seedOf(`cache ${canonicalJson(plan)}`));
  if (!random.chance(0.3)) return plan;
  const graphOf = ({ steps, edges }: Graph): Graph => ({
    steps: steps.map((step) => {
      const { work, once } = step;
      if ("graph" in work) return { ...step, work: { ...work, graph: graphOf(work.graph) } };
      if (work.kind === "branches") {
        const branches = work.branches.map((one) => ({ ...one, graph: graphOf(one.graph) }));
        return { ...step, work: { ...work, branches } };
      }
      const works = work.kind === "shell" || (work.kind === "agent" && work.session === undefined);
      // A judge would have to be part of what an earlier run left.
      const plain = works && !once && step.check === undefined;
      return plain && random.chance(0.6) ? { ...step, cache: {} } : step;
    }),
    edges,
  });
  return { ...plan, graph: graphOf(plan.graph) };
}

/** Some plans have steps for their end; dice of their own, so that the others stay what they were. */
function withFinally(plan: Plan): Plan {
  const random = seededRandom(seedOf(`finally ${canonicalJson(plan)}`));
  if (!random.chance(0.3)) return plan;
  const steps = Array.from({ length: 1 + random.below(3) }, (_, index): Step => {
    const {
      own: _own,
      goal: _goal,
      check: _check,
      ...step
    } = randomStep(random, `f${index}`, DEPTH_MAX);
    const asks = { kind: "agent", agent: CHOOSES, prompt: "the end", settings: {} } as const;
    const work: Work = random.chance(0.7) ? { kind: "shell", run: "end" } : asks;
    return { ...step, work, join: "all", split: "all", once: false, visitsMax: 1 };
  });
  return { ...plan, finally: { steps, edges: [] } };
}

/** A command that is tried again in a worktree while others begin there, each after a while. */
function widePlan(random: Random): Plan {
  const command = (id: string): Step => {
    const { when: _when, ...step } = randomStep(random, id, DEPTH_MAX);
    const retry = { ...step.retry, attempts: 4 };
    return { ...step, join: "all", split: "all", work: { kind: "shell", run: "wide" }, retry };
  };
  const pairs = 1 + random.below(3);
  const steps = [command("s0")];
  const edges: Omit<Edge, "back">[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    const from = steps.length;
    const wait = { kind: "wait", forMs: random.below(1_500) } as const;
    steps.push({ ...command(`s${from}`), work: wait, once: false }, command(`s${from + 1}`));
    edges.push({ from, to: from + 1, on: "completed", weight: 0 });
  }
  return {
    ...anyPlan(random),
    maxParallel: 2 + random.below(3),
    workspace: { kind: "worktree", include: [], snapshots: true, snapshotEveryMs: 100_000 },
    graph: { steps, edges: markBackEdges(steps.length, edges) },
  };
}

function withoutOwn(graph: Graph): Graph {
  const steps = graph.steps.map((whole): Step => {
    const { own: _own, ...step } = whole;
    const { work } = step;
    if ("graph" in work) return { ...step, work: { ...work, graph: withoutOwn(work.graph) } };
    if (work.kind !== "branches") return step;
    const branches = work.branches.map((one) => ({ ...one, graph: withoutOwn(one.graph) }));
    return { ...step, work: { ...work, branches } };
  });
  return { ...graph, steps };
}

function anyPlan(random: Random): Plan {
  return withJudges(
    withFidelity({
      format: PLAN_FORMAT,
      name: "simulated",
      maxParallel: 1 + random.below(4),
      env: {},
      agents: {},
      ...(random.chance(0.1) ? { budget: { turns: 1 + random.below(3) } } : {}),
      ...(random.chance(0.7) ? { workspace: randomWorkspace(random) } : {}),
      ...(random.chance(0.4) ? { keys: "attractor", context: { "graph.goal": "simulated" } } : {}),
      graph: randomRoot(random),
    }),
  );
}

/** Some plans have work judged; dice of their own, so that the others stay what they were. */
function withJudges(plan: Plan): Plan {
  const random = seededRandom(seedOf(`judges ${canonicalJson(plan)}`));
  if (!random.chance(0.15)) return plan;
  const judge = (): Check => ({
    kind: "judge",
    rubric: "It is good.",
    agent: CHOOSES,
    ...(random.chance(0.3) ? { onFail: random.pick(["warn", "fail"] as const) } : {}),
  });
  const graphOf = ({ steps, edges }: Graph): Graph => ({
    steps: steps.map((step) => {
      const { work } = step;
      if ("graph" in work) return { ...step, work: { ...work, graph: graphOf(work.graph) } };
      if (work.kind === "branches") {
        const branches = work.branches.map((one) => ({ ...one, graph: graphOf(one.graph) }));
        return { ...step, work: { ...work, branches } };
      }
      const works = work.kind === "agent" || work.kind === "shell";
      if (!works || !random.chance(0.6)) return step;
      return { ...step, check: random.chance(0.7) ? judge() : [judge(), judge()] };
    }),
    edges,
  });
  return { ...plan, graph: graphOf(plan.graph) };
}

function randomWorkspace(random: Random): WorkspaceSettings {
  return {
    kind: random.pick(["here", "worktree", "worktree"] as const),
    include: [],
    snapshots: random.chance(0.9),
    snapshotEveryMs: random.pick([50, 200, 100_000]),
  };
}

function randomRoot(random: Random): Graph {
  if (random.chance(0.2)) return randomList(random);
  return random.chance(0.3) ? randomWalk(random, 0) : randomGraph(random, 0);
}

const OUTCOMES = ["success", "partial_success", "fail", "port"] as const;
const LABELS = ["Yes", "[N] No"] as const;

/** One step after the other, as in a DOT file: each chooses one edge, some begin the walk anew. */
function randomWalk(random: Random, depth: number): Graph {
  const count = 2 + random.below(depth === 0 ? STEPS_MAX : 2);
  const edges: Omit<Edge, "back">[] = [];
  const goals = random.chance(0.3) ? 0.3 : 0;
  for (let from = 0; from < count - 1; from++) {
    const ways = 1 + random.below(3);
    for (let way = 0; way < ways; way++) {
      const forward = way === 0 || random.chance(0.6);
      const to = forward ? from + 1 + random.below(count - from - 1) : random.below(from + 1);
      edges.push(randomWay(random, from, to));
    }
  }
  const steps = Array.from(
    { length: count },
    (_, index): Step => ({
      ...randomStep(random, `s${index}`, depth),
      join: "any",
      split: "one",
      visitsMax: 3,
      ...(random.chance(goals) ? { goal: randomGoal(random, index) } : {}),
    }),
  );
  return { steps, edges: markBackEdges(count, edges) };
}

function randomWay(random: Random, from: number, to: number): Omit<Edge, "back"> {
  const base = {
    from,
    to,
    on: random.chance(0.75) ? "completed" : "failed",
    weight: random.below(3),
    ...(random.chance(0.3) ? { label: random.pick(LABELS) } : {}),
  } as const;
  if (random.chance(0.15)) {
    const restart = { keep: random.chance(0.5) ? ["dice"] : [] };
    // Visits are numbered on over restarts, so that a run does not use up all that it may have.
    return { ...base, condition: "run.visit < 4", restart };
  }
  const outcome = `outcome == "${random.pick(OUTCOMES)}"`;
  const conditions = [outcome, 'preferred_label == "Yes"'];
  return random.chance(0.4) ? { ...base, condition: random.pick(conditions) } : base;
}

/**
 * Some plans set the briefings of agents; dice of their own, so that the others stay what they
 * were.
 */
function withFidelity(plan: Plan): Plan {
  const random = seededRandom(seedOf(canonicalJson(plan)));
  if (!random.chance(0.4)) return plan;
  const reported = (chance: number): Pick<Edge, "fidelity" | "thread"> => ({
    ...(random.chance(chance) ? { fidelity: random.pick(MODES) } : {}),
    ...(random.chance(chance) ? { thread: random.pick(["t", "u"]) } : {}),
  });
  const graphOf = ({ steps, edges }: Graph): Graph => ({
    steps: steps.map((step) => {
      const { work } = step;
      if ("graph" in work) return { ...step, work: { ...work, graph: graphOf(work.graph) } };
      if (work.kind === "branches") {
        const branches = work.branches.map((one) => ({ ...one, graph: graphOf(one.graph) }));
        return { ...step, work: { ...work, branches } };
      }
      return work.kind === "agent" ? { ...step, ...reported(0.4) } : step;
    }),
    edges: edges.map((edge) => ({ ...edge, ...reported(0.1) })),
  });
  return { ...plan, ...reported(0.3), graph: graphOf(plan.graph) };
}

/** Conversations are what can go wrong. */
const MODES = ["full", "full", "full", "compact", "summary:high"] as const;

/** A list of steps that wait for others; agents that come one after the other share a session. */
function randomList(random: Random): Graph {
  const count = 2 + random.below(STEPS_MAX - 1);
  const before: Set<number>[] = [new Set()];
  const edges: Omit<Edge, "back">[] = [];
  for (let to = 1; to < count; to++) {
    const sources = new Set([random.chance(0.7) ? to - 1 : random.below(to)]);
    for (const from of sources) edges.push({ from, to, on: "completed", weight: 0 });
    before.push(new Set([...sources].flatMap((from) => [from, ...(before[from] ?? [])])));
  }
  let last: number | undefined;
  const steps = Array.from({ length: count }, (_, index): Step => {
    const step = {
      ...randomStep(random, `s${index}`, DEPTH_MAX),
      join: "all",
      split: "all",
    } as const;
    const after = last === undefined || before[index]?.has(last) === true;
    if (step.work.kind !== "agent" || !after || random.chance(0.2)) return step;
    last = index;
    return { ...step, work: { ...step.work, agent: CHOOSES, session: "main" } };
  });
  return { steps, edges: markBackEdges(count, edges) };
}

function randomGraph(random: Random, depth: number): Graph {
  const count = 1 + random.below(depth === 0 ? STEPS_MAX : 3);
  const edges: Omit<Edge, "back">[] = [];
  for (let to = 1; to < count; to++) {
    const sources = new Set([random.below(to)]);
    if (random.chance(0.4)) sources.add(random.below(to));
    for (const from of sources) if (!random.chance(0.1)) edges.push(randomArrow(random, from, to));
  }
  const loops = random.chance(0.35) ? 1 : 0;
  for (let loop = 0; loop < loops; loop++) {
    const from = random.below(count);
    const on = random.chance(0.5) ? "completed" : "failed";
    edges.push({ from, to: random.below(from + 1), on, condition: "run.visit < 3", weight: 1 });
  }
  const steps = Array.from({ length: count }, (_, index) => ({
    ...randomStep(random, `s${index}`, depth),
    ...(random.chance(0.08) ? { goal: randomGoal(random, index) } : {}),
  }));
  return { steps, edges: markBackEdges(count, edges) };
}

function randomGoal(random: Random, step: number): Goal {
  const holds = random.chance(0.5) ? "always" : "visited";
  return random.chance(0.2) ? { holds } : { holds, retryTarget: random.below(step + 1) };
}

function randomArrow(random: Random, from: number, to: number): Omit<Edge, "back"> {
  const on = random.chance(0.85) ? "completed" : "failed";
  const base = { from, to, on, weight: random.below(3) } as const;
  return random.chance(0.2) ? { ...base, condition: randomCondition(random) } : base;
}

function randomCondition(random: Random): string {
  return random.pick(["true", "false", 'context.dice == "1"', "run.visit > 1", "input.n > 1"]);
}

function randomStep(random: Random, id: string, depth: number): Step {
  const attempts = 1 + random.below(3);
  return {
    id,
    join: random.chance(0.75) ? "all" : "any",
    split: random.chance(0.75) ? "all" : "one",
    work: randomWork(random, depth),
    ...(random.chance(0.15) ? { when: random.pick(["true", "false", "run.visit == 1"]) } : {}),
    env: {},
    retry: {
      attempts,
      backoff: { initialMs: 100, factor: 2, maxMs: 1_000, jitter: 0.5 },
      onResume: random.chance(0.8) ? "fresh" : "keep",
      ...(random.chance(0.3) ? { on: random.pick(["any", "retry"] as const) } : {}),
    },
    ...(random.chance(0.2) ? { allowPartial: true } : {}),
    outputs: {},
    ...randomOnce(random),
    ...(random.chance(0.2) ? { own: true } : {}),
    ...(random.chance(0.1) ? { recover: "restart" } : {}),
    visitsMax: 4,
    ...(random.chance(0.1) ? { onFailure: "continue" } : {}),
    ...(random.chance(0.3) ? { stallAfter: 2 + random.below(2) } : {}),
  };
}

function randomOnce(random: Random): Pick<Step, "once" | "probe"> {
  if (!random.chance(0.25)) return { once: false };
  return random.chance(0.6) ? { once: true, probe: "simulated" } : { once: true };
}

/** Some sub-pipelines are watched; the graph decides, so that the seeds keep their other plans. */
function watchFor({ steps, edges }: Graph): Pick<WorkOf<"pipeline">, "watch"> {
  if (steps.length % 3 !== 0) return {};
  const until = { until: 'context.dice == "1"', steer: { says: "go on", everyMs: 150 } };
  return { watch: edges.length % 2 === 0 ? until : { everyMs: 200, cyclesMax: steps.length } };
}

function randomWork(random: Random, depth: number): Work {
  if (depth < DEPTH_MAX && random.chance(0.12)) {
    const input = random.chance(0.3) ? { input: { n: "${{ input.n }}", items: [1, 2] } } : {};
    const graph = randomGraph(random, depth + 1);
    return { kind: "pipeline", graph, ...input, ...watchFor(graph) };
  }
  if (depth < DEPTH_MAX && random.chance(0.12)) {
    return {
      kind: "loop",
      graph: randomGraph(random, depth + 1),
      ...(random.chance(0.8)
        ? { until: random.pick(["index >= 1", "false", 'context.dice == "1"']) }
        : {}),
      iterationsMax: 1 + random.below(3),
      onExhausted: random.chance(0.5) ? "fail" : "continue",
    };
  }
  if (depth < DEPTH_MAX && random.chance(0.12)) {
    return {
      kind: "each",
      items: random.pick([
        ...["[]", "[1]", "[1, 2, 3]", "input.items", "input.n"],
        { list: ["a", "b"] },
        { glob: "*" },
      ]),
      graph: randomGraph(random, depth + 1),
      maxParallel: 1 + random.below(3),
      onItemFailure: random.chance(0.5) ? "fail" : "continue",
    };
  }
  if (depth < DEPTH_MAX && random.chance(0.12)) {
    const ids = ["left", "middle", "right"].slice(0, 1 + random.below(3));
    return {
      kind: "branches",
      branches: ids.map((id) => ({ id, graph: randomWalk(random, depth + 1) })),
      maxParallel: 1 + random.below(3),
      policy: random.chance(0.6) ? "wait_all" : "first_success",
    };
  }
  if (random.chance(0.08)) return { kind: random.chance(0.8) ? "pass" : "pick" };
  if (random.chance(0.1)) return randomGate(random);
  if (random.chance(0.06)) return { kind: "wait", forMs: 50 + random.below(800) };
  if (random.chance(0.5)) return { kind: "shell", run: "simulated" };
  const agent = random.chance(0.7) ? CHOOSES : OWN;
  return { kind: "agent", agent, prompt: "simulated", settings: {} };
}

function randomGate(random: Random): Work {
  const choices = [
    { key: "A", label: "approve" },
    { key: "R", label: "reject", fails: true },
    { key: "N", label: "next", next: "s1" },
  ] as const;
  return {
    kind: "gate",
    ask: random.chance(0.9) ? "visit ${{ run.visit }}?" : "${{ context.dice }}?",
    choices,
    text: "optional",
    ...(random.chance(0.4) ? { timeoutMs: 100 + random.below(900), show: ["diff"] } : {}),
    ...(random.chance(0.5) ? { default: random.pick(["A", "R"]) } : {}),
  };
}
