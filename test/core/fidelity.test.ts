/**
 * Briefings: what agents learn of their run, what decides it, and which conversation they are part
 * of.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DETAILS, preambleOf } from "../../src/core/conversation/briefing.ts";
import { fidelityOf, threadOf } from "../../src/core/conversation/conversation.ts";
import { type Briefing, EVENT_VERSION } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import type { ConversationOffer, Ending } from "../../src/core/fact.ts";
import { findVisit, type Visit } from "../../src/core/run.ts";
import type { AgentDefinition, BriefingMode, Graph, Plan } from "../../src/plan/plan.ts";
import type { Json } from "../../src/util/json.ts";
import { planOf, type StepChanges } from "./plans.ts";
import { lost, ok, Play } from "./play.ts";

const adapter = (name: string): AgentDefinition => ({
  adapter: name,
  args: [],
  env: {},
  settings: {},
});
const AGENTS = {
  claude: adapter("claude"),
  again: adapter("claude"),
  codex: adapter("codex"),
  sh: { ...adapter("command"), command: "cat" },
};

function asks(agent = "claude", changes: StepChanges = {}): StepChanges {
  return { work: { kind: "agent", agent, prompt: "p", settings: {} }, ...changes };
}

const said = (answer: Json): Ending => ({
  how: "exited",
  exit: 0,
  outputs: {},
  context: {},
  answer,
});
const SPENT = { inputTokens: 1, cachedTokens: 0, outputTokens: 1, turns: 1 };

/**
 * A play whose conversations are numbered, and are there as long as the test does not take them.
 */
class AgentPlay extends Play {
  found = true;
  #count = 0;

  constructor(plan: Plan, input: Json = null) {
    super({ ...plan, agents: AGENTS }, input);
    this.around = {
      env: {},
      offer: (place, session) => this.#offer(findVisit(this.run, place), session),
    };
  }

  #offer(visit: Visit | undefined, session: string | undefined): ConversationOffer | undefined {
    const work = visit?.record.scope.graph.steps[visit.record.position]?.work;
    if (work?.kind !== "agent" || work.agent === "sh") return undefined;
    return { fresh: String(++this.#count), found: this.found && session !== undefined };
  }

  /** "b: full in 1+, thread a" for each attempt with a briefing or a conversation. */
  reported(): readonly string[] {
    return this.events.flatMap((event) => {
      if (event.type !== "step.started") return [];
      const { step, conversation, fidelity } = event;
      const more = conversation?.kind === "continue" ? "+" : "";
      const where = conversation === undefined ? "" : ` in ${conversation.session}${more}`;
      const thread = fidelity?.thread === undefined ? "" : `, thread ${fidelity.thread.name}`;
      return [`${step}: ${fidelity?.mode ?? "nothing"}${where}${thread}`];
    });
  }

  last(): Briefing | undefined {
    const event = this.events.findLast(({ type }) => type === "step.started");
    return event?.type === "step.started" ? event.fidelity : undefined;
  }

  differences(): unknown {
    const { difference, taken } = this.replayed();
    return [...(difference === undefined ? [] : [difference]), ...(taken === 0 ? [] : [taken])];
  }
}

/** A graph whose first edge says this. */
function withArrow(plan: Plan, said: Partial<Graph["edges"][number]>): Plan {
  const { steps, edges } = plan.graph;
  const changed = edges.map((edge, index) => (index === 0 ? { ...edge, ...said } : edge));
  return { ...plan, graph: { steps, edges: changed } };
}

describe("who is asked", () => {
  const bits = Array.from({ length: 8 }, (_, index) => [index & 1, index & 2, index & 4] as const);

  it.each(bits)("for the mode: edge %d, step %d, pipeline %d", (edge, step, pipeline) => {
    const plan = withArrow(
      planOf(
        "a>b",
        {
          a: asks(),
          b: asks("claude", step ? { fidelity: "summary:low" } : {}),
        },
        pipeline ? { fidelity: "compact" } : {},
      ),
      edge ? { fidelity: "truncate" } : {},
    );
    const play = new AgentPlay(plan).open().end("a");
    const visit = findVisit(play.run, { scope: "", step: "b", visit: 1 }) as Visit;
    const expected = edge
      ? { mode: "truncate", by: "edge" }
      : step
        ? { mode: "summary:low", by: "step" }
        : pipeline
          ? { mode: "compact", by: "pipeline" }
          : undefined;
    expect(fidelityOf(plan, visit)).toEqual(expected);
    expect(play.last()?.mode).toBe(expected?.mode);
  });

  const threads = Array.from({ length: 16 }, (_, index) => [8, 4, 2, 1].map((bit) => index & bit));
  it.each(threads)(
    "for the thread: step %d, edge %d, pipeline %d, group %d",
    (step, edge, all, group) => {
      const named = { ...(step ? { thread: "s" } : {}), ...(group ? { threadGroup: "g" } : {}) };
      const plan = withArrow(
        planOf("a>b", { a: asks(), b: asks("claude", named) }, all ? { thread: "p" } : {}),
        edge ? { thread: "e" } : {},
      );
      const play = new AgentPlay({ ...plan, fidelity: "full" }).open().end("a");
      const visit = findVisit(play.run, { scope: "", step: "b", visit: 1 }) as Visit;
      const name = step ? "s" : edge ? "e" : all ? "p" : group ? "g" : "a";
      expect(threadOf(plan, visit)?.name).toBe(name);
      expect(play.last()?.thread?.name).toBe(name);
    },
  );

  it("is nobody in a plan that says nothing", () => {
    const play = new AgentPlay(planOf("a>b", { a: asks(), b: asks() })).open().end("a");
    expect(play.reported()).toEqual(["a: nothing in 1", "b: nothing in 2"]);
  });

  it("is the edge that was followed, also the one that leads back", () => {
    const { graph, ...plan } = planOf("a>b b>a?run.visit<2", { a: asks(), b: asks() });
    const edges = graph.edges.map((edge) =>
      edge.back ? ({ ...edge, fidelity: "compact" } as const) : edge,
    );
    const play = new AgentPlay({ ...plan, graph: { ...graph, edges } }).open().end("a").end("b");
    expect(play.reported().at(-1)).toBe("a: compact in 3");
    expect(play.last()).toMatchObject({ by: "edge", why: "the edge from b says compact" });
  });

  it("is the edge to the step around it, for what begins in that", () => {
    const inner = planOf("c", { c: asks() }).graph;
    const plan = withArrow(
      planOf("a>g", { a: asks(), g: { work: { kind: "pipeline", graph: inner } } }),
      {
        fidelity: "compact",
      },
    );
    const play = new AgentPlay(plan).open().end("a", said("Done."));
    expect(play.last()).toMatchObject({ mode: "compact", by: "edge" });
    expect(play.last()?.preamble).toContain("- a: completed: Done.");
  });

  it("stays the same after a rewind, and after an edit that moves the edge", () => {
    const said = { fidelity: "compact" } as const;
    const plan = withArrow(planOf("a>b", { a: asks(), b: asks() }), said);
    const play = new AgentPlay(plan).open().end("a").end("b");
    play.open({ type: "rewind-requested", step: "b" });
    expect(play.last()).toMatchObject({ mode: "compact", by: "edge" });
    const edited = planOf("x a>b", { x: {}, a: asks(), b: asks("claude", { env: { E: "1" } }) });
    const again = new AgentPlay(plan)
      .open()
      .end("a")
      .tell({ type: "stop-requested", mode: "now", by: "me" });
    again.end("b", { how: "stopped", message: "stopped" });
    again.update({ ...withArrow(edited, said), agents: AGENTS }).open();
    expect(again.last()).toMatchObject({ mode: "compact", by: "edge" });
  });
});

describe("a thread", () => {
  const full = { fidelity: "full" } as const;

  it("is one conversation for all of its steps, whatever lies between them", () => {
    const main = (): StepChanges => asks("claude", { ...full, thread: "main" });
    const steps = { a: main(), x: {}, b: main(), y: asks(), c: main() };
    const play = new AgentPlay(planOf("a>x x>b b>y y>c", steps)).open().finish();
    expect(play.reported().filter((line) => line.includes("main"))).toEqual([
      "a: full in 1, thread main",
      "b: full in 1+, thread main",
      "c: full in 1+, thread main",
    ]);
    expect(play.differences()).toEqual([]);
  });

  it("is that of the step before where nobody names one", () => {
    const plan = planOf("a>b b>c", { a: asks(), b: asks(), c: asks() }, full);
    const play = new AgentPlay(plan).open().finish();
    expect(play.reported()).toEqual([
      "a: full in 1",
      "b: full in 1+, thread a",
      "c: full in 1+, thread b",
    ]);
    expect(play.differences()).toEqual([]);
  });

  it("stands for what cannot be had, and says why", () => {
    const reported = (plan: Plan, change?: (play: AgentPlay) => void): Briefing | undefined => {
      const play = new AgentPlay(plan).open();
      change?.(play);
      play.end("a", said("The plan."));
      expect(play.differences()).toEqual([]);
      return play.last();
    };
    const plan = (agent: string, first = asks()): Plan =>
      planOf("a>b", { a: first, b: asks(agent, full) });
    const instead = (why: string): object => ({
      mode: "summary:high",
      by: "step",
      why: `the step says full, but ${why}`,
      thread: { name: "a", by: "previous" },
      preamble: expect.stringContaining("The plan."),
    });
    expect(reported(plan("codex"))).toEqual(
      instead("the conversation of a is one with claude, not with codex"),
    );
    expect(reported(plan("sh"))).toEqual(
      instead("its agent is a command, which keeps no conversation"),
    );
    expect(reported(plan("claude", asks("sh")))).toEqual(instead("a has left no conversation"));
    const gone = (play: AgentPlay): void => {
      play.found = false;
    };
    expect(reported(plan("claude"), gone)).toEqual(instead("the conversation of a is gone"));
    // Two names for one program share its conversations.
    expect(reported(plan("again"))).toMatchObject({ mode: "full" });
  });

  it("lets in one at a time (core/K4)", () => {
    const plan = planOf("a>b a>c", { a: asks(), b: asks("claude", full), c: asks("claude", full) });
    const play = new AgentPlay(plan).open().end("a");
    expect(play.reported().slice(1)).toEqual([
      "b: full in 1+, thread a",
      "c: summary:high in 3, thread a",
    ]);
    expect(play.last()?.why).toBe("the step says full, but b is still in the conversation of a");
    expect(play.differences()).toEqual([]);
  });

  it("is left behind by a fork, whose steps get briefings instead", () => {
    const main = asks("claude", { ...full, thread: "main" });
    const play = new AgentPlay(planOf("a>b", { a: main, b: main })).open();
    play.end("a", said("The plan."));
    const forked = { type: "run.forked", from: { run: "other", seq: 4 } } as const;
    const again = new AgentPlay(play.plan);
    for (const event of [...play.events.slice(1, -1), forked]) {
      const recorded = { seq: again.run.seq + 1, time: again.now, version: EVENT_VERSION, event };
      again.run = evolve(again.plan, again.run, recorded);
    }
    again.open();
    expect(again.last()).toMatchObject({ mode: "summary:high", thread: { name: "main" } });
    expect(again.last()?.why).toContain("belongs to the run that this is a fork of");
  });
});

describe("after a loss", () => {
  const compact = { fidelity: "summary:low" } as const;

  it("an attempt that had not begun has the same briefing, word for word, whatever happened beside it (core/K6)", () => {
    const plan = planOf("a>b x", { a: asks(), b: asks("claude", compact), x: {} });
    const play = new AgentPlay(plan).open().end("a", said("The plan."));
    const first = play.last();
    play.found = false;
    play.end("x", ok({ key: "value" })).end("b", lost);
    expect(play.last()).toEqual(first);
    expect(first?.preamble).not.toContain("value");
    expect(play.reported().at(-1)).toBe("b: summary:low in 2");
    expect(play.differences()).toEqual([]);
  });

  it("continues in full while the conversation is there", () => {
    const play = new AgentPlay(planOf("a", { a: asks("claude", compact) })).open();
    play.end("a", { ...lost, spent: SPENT });
    expect(play.reported().at(-1)).toBe("a: nothing in 1+");
  });

  const modes = [
    ["compact, by itself", {}, {}, "compact"],
    [
      "what the step says",
      { resumeFidelity: "truncate" },
      { resumeFidelity: "summary:low" },
      "truncate",
    ],
    ["what the pipeline says", {}, { resumeFidelity: "summary:medium" }, "summary:medium"],
    ["the most, where it was in full", { fidelity: "full" }, {}, "summary:high"],
  ] as const satisfies readonly (readonly [string, StepChanges, Partial<Plan>, BriefingMode])[];
  it.each(modes)("of its conversation it learns %s", (_what, step, all, mode) => {
    const play = new AgentPlay(planOf("a", { a: asks("claude", step) }, all)).open();
    play.found = false;
    play.end("a", { ...lost, spent: SPENT });
    expect(play.last()).toMatchObject({
      mode,
      by: "resume",
      why: "it was interrupted, and its conversation is gone",
    });
    expect(play.reported().at(-1)).toMatch(`a: ${mode} in 2`);
    // And the same once more, when that did not begin either.
    const reported = play.last();
    expect(play.end("a", lost).last()).toEqual(reported);
    expect(play.differences()).toEqual([]);
  });

  it("the next attempt learns of a failure", () => {
    const retry = {
      attempts: 2,
      backoff: { initialMs: 1, factor: 1, maxMs: 1, jitter: 0 },
      onResume: "fresh",
    } as const;
    const play = new AgentPlay(
      planOf("a", { a: asks("sh", { fidelity: "compact", retry }) }),
    ).open();
    play.end("a", { how: "exited", exit: 7, outputs: {}, context: {} });
    play.now += 10;
    play.tell();
    expect(play.last()?.preamble).toContain("- a, this step: it failed (it exited with 7)");
  });
});

describe("the text", () => {
  const story = (): AgentPlay => {
    const steps = {
      plan: asks(),
      test: {},
      fix: asks("claude", { fidelity: "compact" }),
      side: {},
    };
    const plan = planOf("plan>test test!>fix plan>side", steps);
    const play = new AgentPlay(plan, { goal: "Ship it.\nToday." }).open();
    play.end("plan", {
      ...said("First this,\nthen that."),
      context: { risk: "low", "internal.retry_count.plan": 1 },
    } as Ending);
    return play.end("test", { how: "exited", exit: 1, outputs: {}, context: {} });
  };
  const visit = (play: Play): Visit =>
    findVisit(play.run, { scope: "", step: "fix", visit: 1 }) as Visit;
  const text = (mode: BriefingMode): string => {
    const play = story();
    return `\n${preambleOf(play.run, visit(play), mode)}\n`;
  };

  it("of truncate is the goal and the run", () => {
    expect(text("truncate")).toMatchInlineSnapshot(`
      "
      This step is part of run run of the pipeline test.
      Goal: Ship it. Today.
      "
    `);
  });

  it("of compact has a line for each step, and the values of the context", () => {
    expect(text("compact")).toMatchInlineSnapshot(`
      "
      This step is part of run run of the pipeline test.
      Goal: Ship it. Today.

      Steps so far, the newest last:
      - plan: completed: First this, then that.
      - test: failed (it exited with 1); the run continued

      Still open:
      - side: running

      The run's context:
      - risk = low
      "
    `);
  });

  it("of a summary has values, too", () => {
    expect(text("summary:low")).toMatchInlineSnapshot(`
      "
      This step is part of run run of the pipeline test.
      Goal: Ship it. Today.

      Steps so far, the newest last:
      - plan: completed: First this, then that.
      - test: failed (it exited with 1); the run continued

      Still open:
      - side: running

      The run's context:
      - risk = low
      "
    `);
  });

  it("of a long summary has excerpts, quoted", () => {
    const play = new AgentPlay(planOf("a>b", { a: asks(), b: asks() })).open();
    play.end(
      "a",
      said(Array.from({ length: 80 }, (_, line) => `line ${line} of a long answer`).join("\n\n")),
    );
    const [b] = play.run.running;
    const reported = preambleOf(play.run, b as Visit, "summary:medium");
    expect(reported).toContain("- a: completed, said:\n  > line 0 of a long answer\n  > line 1 of");
    expect(reported.split("\n").at(-1)).toBe("  > …");
    expect(preambleOf(play.run, b as Visit, "summary:high").length).toBeGreaterThan(
      reported.length,
    );
  });

  const modes = Object.keys(DETAILS) as BriefingMode[];
  const answers = fc.array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 3_000 }),
      fc.array(fc.string({ maxLength: 120 }), { maxLength: 60 }).map((lines) => lines.join("\n")),
      fc.jsonValue() as fc.Arbitrary<Json>,
    ),
    { minLength: 1, maxLength: 12 },
  );
  const contexts = fc.dictionary(
    fc.string({ maxLength: 30 }),
    fc.jsonValue() as fc.Arbitrary<Json>,
  );

  it("keeps its bound, tells the newest, and is the same for the same run", () => {
    fc.assert(
      fc.property(
        answers,
        contexts,
        fc.string(),
        fc.constantFrom(...modes),
        (all, context, goal, mode) => {
          const names = all.map((_, index) => `s${index}`);
          const edges = names
            .map((name, index) => `${name}>${names[index + 1] ?? "end"}`)
            .join(" ");
          const steps = Object.fromEntries(names.map((name) => [name, asks()]));
          const run = (): AgentPlay => {
            const play = new AgentPlay(planOf(edges, { ...steps, end: asks() }), { goal }).open();
            all.forEach((answer, index) => {
              play.end(`s${index}`, {
                ...said(answer),
                context: { ...context, "internal.x": "hidden!" },
              } as Ending);
            });
            return play;
          };
          const play = run();
          const [end] = play.run.running;
          const reported = preambleOf(play.run, end as Visit, mode);
          expect(reported.length).toBeLessThanOrEqual(DETAILS[mode].total);
          expect(
            reported.isWellFormed() || !JSON.stringify([all, context, goal]).isWellFormed(),
          ).toBe(true);
          expect(reported).not.toContain("internal.x");
          if (mode !== "truncate") expect(reported).toContain(`- s${all.length - 1}: completed`);
          const again = run();
          expect(preambleOf(again.run, [...again.run.running][0] as Visit, mode)).toBe(reported);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("leaves out what is old, and says how much", () => {
    const names = Array.from({ length: 700 }, (_, index) => `step${index}`);
    const edges = names.map((name, index) => `${name}>${names[index + 1] ?? "end"}`).join(" ");
    const play = new AgentPlay(planOf(edges, { end: asks() }))
      .open()
      .finish((path) => (path === "end" ? lost : ok({ [`key_of_${path}`]: "v".repeat(50) })));
    const end = findVisit(play.run, { scope: "", step: "end", visit: 1 }) as Visit;
    for (const mode of modes.filter((one) => one !== "truncate")) {
      const reported = preambleOf(play.run, end, mode);
      expect(reported.length).toBeLessThanOrEqual(DETAILS[mode].total);
      expect(reported.length).toBeGreaterThan(DETAILS[mode].total * 0.8);
      expect(reported).toMatch(/- \(\d+ earlier ones are left out\)\n- step/);
      expect(reported).toContain("- step699: completed");
      expect(reported).toContain("key_of_step699");
      expect(reported).not.toContain("- step0:");
    }
  });
});
