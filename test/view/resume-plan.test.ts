import { expect, test } from "vitest";
import type { Conversation } from "../../src/core/event.ts";
import type { ConversationOffer } from "../../src/core/fact.ts";
import { planRewind } from "../../src/core/graph/rewind.ts";
import type { Recover } from "../../src/plan/plan.ts";
import { type Evidence, resumePlan, resumePlanLines } from "../../src/view/preview/resume-plan.ts";
import { chain, planOf, ref, Scribe, step, T0 } from "./scribe.ts";

/** What is known of each conversation, by attempt. */
type Offers = Readonly<Record<string, ConversationOffer>>;

function talkText(
  scribe: Scribe,
  evidence: Record<string, Evidence>,
  offers: Offers,
  recover?: Recover,
): string {
  const steps = resumePlan({
    plan: scribe.plan,
    run: scribe.run(),
    evidence: new Map(Object.entries(evidence)),
    offers: new Map(Object.entries(offers)),
    recover,
    now: T0 + 10_000,
  });
  return `\n${resumePlanLines(steps).join("\n")}\n`;
}

function text(scribe: Scribe, evidence: Record<string, Evidence> = {}, from?: string): string {
  const run = scribe.run();
  const rewind = from === undefined ? undefined : planRewind(scribe.plan, run, from);
  const map = new Map(Object.entries(evidence));
  const steps = resumePlan({ plan: scribe.plan, run, evidence: map, rewind, now: T0 + 10_000 });
  return `\n${resumePlanLines(steps).join("\n")}\n`;
}

const six = () => {
  const names = ["done", "alive", "exited", "dead", "unknown", "waits", "cut", "todo"];
  return planOf({ steps: names.map((name) => step(name)), edges: [] });
};

test("plans by evidence after a crash", () => {
  const scribe = new Scribe(six()).done("done");
  for (const id of ["alive", "exited", "dead", "unknown"]) scribe.start(id);
  scribe.start("waits").at(9).retry("waits", 1, 4_000).start("cut");
  scribe.write({ type: "run.stopping", mode: "now", reason: { code: "requested", by: "SIGINT" } });
  scribe.write({ type: "step.interrupted", ...ref("cut"), message: "SIGINT" });
  const evidence = { "alive@1.1": "alive", "exited@1.1": "exited", "dead@1.1": "dead" } as const;
  expect(text(scribe, evidence)).toMatchInlineSnapshot(`
    "
    STEP     RESUME WILL  BECAUSE
    done     reuse        it completed; its result is kept
    alive    re-attach    its process is still running
    exited   take result  it ended without a runner; its result is on disk
    dead     run          its process is gone and left no result
    unknown  continue     it was running; resume looks for its process first
    waits    continue     it is retried in 3.0s as attempt 2 of 3
    cut      continue     it was interrupted (SIGINT); it starts again as attempt 2
    todo     run          it has not started
    "
  `);
});

test("plans a failed run: steps that are retried, steps that are not, and steps that wait for them", () => {
  const keep = { ...step("x").retry, onResume: "keep" } as const;
  const graph = chain(step("plan"), step("build", { retry: keep }), step("ship"));
  const scribe = new Scribe(planOf(graph)).done("plan").start("build").fail("build");
  scribe.write({ type: "run.failed", message: "" });
  expect(text(scribe)).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   reuse        it completed; its result is kept
    build  skip         it failed (it exited with 2), and \`retry.on_resume: keep\` grants no more attempts
    ship   skip         it waits for build
    "
  `);

  const fresh = new Scribe(planOf(chain(step("plan"), step("build")))).start("plan").fail("plan");
  fresh.write({ type: "run.failed", message: "" });
  expect(text(fresh)).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   run          it failed (it exited with 2); it gets 3 more attempts
    build  run          it has not started
    "
  `);
});

test("leaves a `once` step to its probe, or to a person", () => {
  const scribe = new Scribe(planOf(chain(step("deploy", { once: true }), step("notify"))));
  scribe.start("deploy");
  const gone = text(scribe, { "deploy@1.1": "dead" });
  expect(gone).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL   BECAUSE
    deploy  needs settle  its process is gone, and it must not happen twice: you decide
    notify  skip          it waits for deploy
    "
  `);
  const probed = step("deploy", { once: true, probe: "test -e done" });
  const asks = new Scribe(planOf(chain(probed, step("notify")))).start("deploy");
  expect(text(asks, { "deploy@1.1": "dead" })).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL  BECAUSE
    deploy  probe first  its process is gone; it runs again only if its probe says no
    notify  run          it has not started
    "
  `);
  const cut = { cause: "stopped", message: "it was stopped", asks: "probe" } as const;
  asks.write({ type: "step.uncertain", ...ref("deploy"), ...cut });
  expect(text(asks)).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL  BECAUSE
    deploy  probe first  it may have happened; it runs again only if its probe says no
    notify  run          it has not started
    "
  `);
  asks.write({ type: "step.probed", ...ref("deploy"), answer: "unknown", message: "no network" });
  expect(text(asks)).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL  BECAUSE
    deploy  probe first  it may have happened; it runs again only if its probe says no
    notify  run          it has not started
    "
  `);
});

test("plans --from-step", () => {
  const graph = chain(step("plan"), step("build"), step("test"), step("ship"));
  const scribe = new Scribe(planOf(graph)).done("plan");
  expect(text(scribe, {}, "test")).toMatchInlineSnapshot(`
    "
    STEP   RESUME WILL  BECAUSE
    plan   reuse        it completed; its result is kept
    build  reuse        it has not completed, but is treated as completed: you continue from test
    test   run          you asked to continue from here
    ship   run          it comes after test
    "
  `);
});

const task: Conversation = { session: "s", kind: "start", says: "task", why: "" };
const there: ConversationOffer = { fresh: "new", found: true };
const gone: ConversationOffer = { fresh: "new", found: false };

/** Agents in every state in which a conversation can be left. */
function agents(...names: readonly string[]): Scribe {
  const work = { kind: "agent", agent: "claude", prompt: "p", settings: {} } as const;
  const steps = names.map((name) => step(name, { work }));
  const scribe = new Scribe(planOf({ steps, edges: [] }));
  for (const name of names) {
    const conversation = { ...task, session: name };
    scribe.write({ type: "step.started", ...ref(name), conversation });
  }
  return scribe;
}

test("plans conversations whose process is gone", () => {
  const scribe = agents("there", "begun", "answered", "alive");
  const evidence = {
    "there@1.1": "dead",
    "begun@1.1": "dead",
    "answered@1.1": "answered",
    "alive@1.1": "alive",
  } as const;
  const offers = { "there@1.1": there, "begun@1.1": gone, "answered@1.1": there };
  expect(talkText(scribe, evidence, offers)).toMatchInlineSnapshot(`
    "
    STEP      RESUME WILL  BECAUSE
    there     continue     its process is gone; its conversation continues
    begun     continue     its process is gone; its conversation starts again
    answered  take result  its process is gone, but its agent had finished
    alive     re-attach    its process is still running
    "
  `);
  expect(talkText(scribe, evidence, offers, "restart")).toMatchInlineSnapshot(`
    "
    STEP      RESUME WILL  BECAUSE
    there     continue     its process is gone; its conversation starts again
    begun     continue     its process is gone; its conversation starts again
    answered  take result  its process is gone, but its agent had finished
    alive     re-attach    its process is still running
    "
  `);
});

test("plans conversations that were stopped, asked again, handed over, paused or failed", () => {
  const scribe = agents("cut", "full", "wrong", "notes", "busy", "failed");
  const checkpoint = { path: "/notes", sha256: "0", bytes: 1 };
  const retry = { at: T0 + 12_000, delayMs: 12_000 };
  scribe.write({ type: "step.paused", ...ref("busy"), reason: "quota", message: "", retry });
  scribe.retry("failed", 1, 11_000);
  scribe.write({
    type: "run.stopping",
    mode: "after-turn",
    reason: { code: "requested", by: "SIGINT" },
  });
  scribe.write({ type: "step.interrupted", ...ref("cut"), message: "SIGINT" });
  scribe.write({ type: "step.continued", ...ref("full"), ask: { kind: "relay", why: "full" } });
  scribe.write({ type: "step.continued", ...ref("wrong"), ask: { kind: "correct", why: "" } });
  scribe.write({ type: "step.relayed", ...ref("notes"), checkpoint });
  const names = ["cut", "full", "wrong", "notes", "busy", "failed"];
  const offers = Object.fromEntries(names.map((name) => [`${name}@1.1`, there]));
  expect(talkText(scribe, {}, offers)).toMatchInlineSnapshot(`
    "
    STEP    RESUME WILL  BECAUSE
    cut     continue     it was interrupted (SIGINT); its conversation continues
    full    continue     the run stopped; its conversation continues, to be handed over
    wrong   continue     the run stopped; its conversation continues, for a corrected answer
    notes   continue     the run stopped; a new conversation continues from the notes of the last one
    busy    continue     it is retried in 2.0s as attempt 2: its conversation continues
    failed  continue     it is retried in 1.0s as attempt 2 of 3: a new conversation starts
    "
  `);
});
