/**
 * Conversations: handed over, corrected, shared, begun anew, and what each of them used (core/K1,
 * core/K2).
 */
import { describe, expect, it } from "vitest";
import { ASKS_MAX, RELAYS_MAX } from "../../src/core/conversation/conversation.ts";
import type { Spent } from "../../src/core/event.ts";
import type { ConversationOffer, Ending } from "../../src/core/fact.ts";
import type { Plan, Recover } from "../../src/plan/plan.ts";
import { planOf, type StepChanges } from "./plans.ts";
import { bad, lost, OWNER, ok, Play } from "./play.ts";

const agent: StepChanges = { work: { kind: "agent", agent: "x", prompt: "p", settings: {} } };
const sharing: StepChanges = {
  work: { kind: "agent", agent: "x", prompt: "p", session: "main", settings: {} },
};
const retry = (attempts: number): StepChanges => ({
  retry: {
    attempts,
    backoff: { initialMs: 100, factor: 1, maxMs: 100, jitter: 0 },
    onResume: "fresh",
  },
});

const full: Ending = { how: "asked", ask: { kind: "relay", why: "it is full" } };
const wrong: Ending = { how: "asked", ask: { kind: "correct", why: "it is not JSON" } };
const relayed: Ending = { how: "relayed", checkpoint: { path: "/n", sha256: "s", bytes: 1 } };
const gone: Ending = { how: "paused", reason: "session-gone", message: "no such session" };
const stopped: Ending = { how: "stopped", message: "stopped" };

/**
 * A play whose agent's conversations are numbered, and are there unless the test says otherwise.
 */
class Talking extends Play {
  found = true;
  #count = 0;

  constructor(plan: Plan = planOf("a", { a: agent })) {
    super(plan);
    this.around = { env: {}, offer: () => this.#offer() };
  }

  #offer(): ConversationOffer {
    return { fresh: String(++this.#count), found: this.found };
  }

  reopen(recover?: Recover): this {
    const opened = { type: "opened", owner: OWNER, epoch: 2 } as const;
    return this.tell(recover === undefined ? opened : { ...opened, recover });
  }

  /**
   * What each attempt said in which conversation: "a: task in 1", with "+" for one that continues.
   */
  said(): readonly string[] {
    return this.events.flatMap((event) => {
      if (event.type !== "step.started" || event.conversation === undefined) return [];
      const { session, kind, says } = event.conversation;
      return [`${event.step}: ${says} in ${session}${kind === "continue" ? "+" : ""}`];
    });
  }

  failure(): unknown {
    const failed = this.events.findLast((event) => event.type === "step.failed");
    return failed?.type === "step.failed" ? [failed.reason, failed.message] : undefined;
  }
}

describe("a relay", () => {
  it("is asked for in the old conversation and continues in a new one", () => {
    const play = new Talking().open().end("a", full).end("a", relayed).end("a");
    expect(play.said()).toEqual(["a: task in 1", "a: relay in 1+", "a: relayed in 3"]);
    expect(play.status).toBe("completed");
  });

  it("is asked for again after a loss", () => {
    const play = new Talking().open().end("a", full).end("a", lost).end("a", relayed);
    expect(play.said().slice(1)).toEqual(["a: relay in 1+", "a: relay in 1+", "a: relayed in 4"]);
  });

  it("is asked for again after a stop, by the next owner", () => {
    const play = new Talking().open();
    play.tell({ type: "stop-requested", mode: "after-turn", by: "me" }).end("a", full);
    expect(play.status).toBe("stopped");
    expect(play.reopen().said()).toEqual(["a: task in 1", "a: relay in 1+"]);
  });

  it("is not asked of a conversation that is gone: the task begins again", () => {
    const play = new Talking().open().end("a", full).end("a", gone);
    expect(play.said().at(-1)).toBe("a: task in 3");
    // Nobody is asked for the notes of a conversation that has only begun.
    expect(play.end("a", lost).said().at(-1)).toBe("a: interrupted in 3+");
  });

  it("is kept by the conversation that it began, through a loss", () => {
    const play = new Talking().open().end("a", full).end("a", relayed);
    expect(play.end("a", lost).said().at(-1)).toBe("a: interrupted in 3+");
    play.found = false;
    // What was continued had begun, so it is gone now, and its id with it.
    expect(play.end("a", lost).said().at(-1)).toBe("a: relayed in 5");
    expect(play.end("a", lost).said().at(-1)).toBe("a: relayed in 5");
    expect(play.end("a", gone).said().at(-1)).toMatch(/^a: relayed in [4-9]$/);
  });

  it("is kept by the next attempt after a failure, also when its conversation is gone", () => {
    const play = new Talking(planOf("a", { a: { ...agent, ...retry(2) } })).open();
    play.end("a", full).end("a", relayed).end("a", bad);
    play.found = false;
    play.now = play.turn?.wakeAt ?? 0;
    expect(play.tell().said().at(-1)).toBe("a: relayed in 3");
    // Something was said in it, so that its id cannot be used again.
    const begun = new Talking(planOf("a", { a: { ...agent, ...retry(2) } })).open();
    begun.end("a", full).end("a", relayed).end("a", lost).end("a", bad);
    begun.found = false;
    begun.now = begun.turn?.wakeAt ?? 0;
    expect(begun.tell().said().at(-1)).toBe("a: relayed in 5");
  });

  it("fails when the notes are never good", () => {
    const play = new Talking().open().end("a", full);
    for (let ask = 1; ask <= ASKS_MAX; ask++) play.end("a", full);
    expect(play.status).toBe("failed");
    expect(play.failure()).toEqual(["relay", "it is full"]);
    expect(play.said()).toHaveLength(1 + ASKS_MAX);
  });

  it("may happen again and again, but not for ever", () => {
    const play = new Talking().open();
    for (let relay = 0; relay <= RELAYS_MAX; relay++) play.end("a", full).end("a", relayed);
    expect(play.status).toBe("failed");
    expect(play.failure()).toEqual([
      "relay",
      `it was handed over ${RELAYS_MAX} times: raise \`relay.at\` or split the task`,
    ]);
    expect(play.types().filter((type) => type === "step.relayed")).toHaveLength(RELAYS_MAX);
  });
});

describe("a correction", () => {
  it("is asked for in the same conversation until the answer fits", () => {
    const play = new Talking().open().end("a", wrong).end("a", lost).end("a", wrong).end("a");
    expect(play.said()).toEqual([
      "a: task in 1",
      "a: correct in 1+",
      "a: correct in 1+",
      "a: correct in 1+",
    ]);
    expect(play.status).toBe("completed");
  });

  it("fails the attempt in the end; the next one continues the conversation", () => {
    const play = new Talking(planOf("a", { a: { ...agent, ...retry(2) } })).open();
    for (let ask = 0; ask <= ASKS_MAX; ask++) play.end("a", wrong);
    expect(play.failure()).toEqual(["answer", "it is not JSON"]);
    play.finish();
    expect(play.said().at(-1)).toBe("a: failed in 1+");
    expect(play.status).toBe("completed");
  });

  it("waits with the conversation while its service is busy", () => {
    const busy: Ending = { how: "paused", reason: "overloaded", message: "529" };
    const play = new Talking().open().end("a", wrong).end("a", busy).finish();
    expect(play.said().at(-1)).toBe("a: correct in 1+");
  });
});

describe("a shared session", () => {
  const plan = planOf("a>b b>c", { a: sharing, b: agent, c: { ...sharing, ...retry(3) } });

  it("continues in the steps that name it, and in no other", () => {
    const play = new Talking(plan).open().finish();
    expect(play.said()).toEqual(["a: task in 1", "b: task in 2", "c: task in 1+"]);
  });

  it("continues after a failed attempt in it", () => {
    const play = new Talking(plan).open().end("a").end("b").end("c", bad).finish();
    expect(play.said().slice(2)).toEqual(["c: task in 1+", "c: failed in 1+"]);
  });

  it("continues with the next attempt of the step that began it", () => {
    const first = planOf("a>c", { a: { ...sharing, ...retry(2) }, c: sharing });
    const play = new Talking(first).open().end("a", bad).finish();
    expect(play.said()).toEqual(["a: task in 1", "a: failed in 1+", "c: task in 1+"]);
  });

  it("is interrupted by a loss like any other", () => {
    const play = new Talking(plan).open().end("a").end("b").end("c", lost);
    expect(play.said().at(-1)).toBe("c: interrupted in 1+");
  });

  it("begins anew when it is gone, and says so", () => {
    const play = new Talking(plan).open().end("a");
    play.found = false;
    play.end("b");
    expect(play.said().at(-1)).toBe("c: task in 3");
    expect(play.events.at(-1)).toMatchObject({
      conversation: { why: "the conversation of a is gone" },
    });
  });

  it("is the newest conversation once it was handed over", () => {
    const three = planOf("a>b b>c", { a: sharing, b: sharing, c: sharing });
    const play = new Talking(three).open().end("a").end("b", full).end("b", relayed).finish();
    expect(play.said()).toEqual([
      "a: task in 1",
      "b: task in 1+",
      "b: relay in 1+",
      "b: relayed in 4",
      "c: task in 4+",
    ]);
  });
});

describe("a failure", () => {
  const twice = { ...agent, ...retry(2) };
  const turns: Ending = { how: "reined", reason: "turns", message: "no turns are left" };

  function retried(play: Talking): Talking {
    play.now = play.turn?.wakeAt ?? play.now;
    return play.tell();
  }

  it("continues the conversation, and tells what failed", () => {
    const play = retried(new Talking(planOf("a", { a: twice })).open().end("a", bad));
    expect(play.said()).toEqual(["a: task in 1", "a: failed in 1+"]);
    const [visit] = play.run.running;
    expect(visit?.conversation?.failure).toMatchObject({ attempt: 1, reason: "exit" });
  });

  it("is still to be reported after a loss, and known once the agent has answered", () => {
    const play = retried(new Talking(planOf("a", { a: twice })).open().end("a", bad));
    const failure = (): unknown => [...play.run.running][0]?.conversation?.failure;
    play.end("a", lost);
    expect(play.said().at(-1)).toBe("a: interrupted in 1+");
    expect(failure()).toMatchObject({ reason: "exit" });
    play.end("a", wrong);
    expect(failure()).toBeUndefined();
  });

  it("is reported to the new conversation when its own is gone", () => {
    const play = new Talking(planOf("a", { a: twice })).open().end("a", lost).end("a", bad);
    play.found = false;
    expect(retried(play).said().at(-1)).toBe("a: task in 3");
    expect([...play.run.running][0]?.conversation).toMatchObject({
      conversation: { gone: true },
      failure: { attempt: 2 },
    });
  });

  it("begins anew where the author wants that", () => {
    const { retry: policy } = retry(2);
    const fresh = { ...agent, retry: { ...policy, conversation: "fresh" } } as StepChanges;
    const play = retried(new Talking(planOf("a", { a: fresh })).open().end("a", bad));
    expect(play.said()).toEqual(["a: task in 1", "a: task in 2"]);
    expect([...play.run.running][0]?.conversation?.failure).toBeUndefined();
  });

  it("begins anew where a person wants that, for the failures that were there", () => {
    const play = new Talking(planOf("a", { a: twice })).open();
    retried(play.end("a", bad)).end("a", bad);
    expect(play.status).toBe("failed");
    expect(play.reopen("restart").said().at(-1)).toBe("a: task in 3");
    expect(retried(play.end("a", bad)).said().at(-1)).toBe("a: failed in 3+");
  });

  it("for lack of turns is not tried again before a person grants more", () => {
    const play = new Talking(planOf("a", { a: twice })).open().end("a", turns);
    expect(play.status).toBe("failed");
    play.tell({ type: "opened", owner: OWNER, epoch: 2, turns: 20 });
    expect(play.said().at(-1)).toBe("a: failed in 1+");
    expect([...play.run.running][0]?.conversation?.turnsGranted).toBe(20);
  });
});

describe("recovery", () => {
  const restarting = planOf("a", { a: { ...agent, recover: "restart" } });

  it("continues unless somebody wants otherwise", () => {
    expect(new Talking().open().end("a", lost).said().at(-1)).toBe("a: interrupted in 1+");
  });

  it("begins anew where the author wants that, after a loss and after a stop", () => {
    const play = new Talking(restarting).open().end("a", lost);
    expect(play.said()).toEqual(["a: task in 1", "a: task in 2"]);
    play.tell({ type: "stop-requested", mode: "now", by: "me" }).end("a", stopped);
    expect(play.reopen().said().at(-1)).toBe("a: task in 3");
  });

  it("does what a person says, whatever the author wants, for as long as he owns the run", () => {
    const play = new Talking(restarting).open();
    play.tell({ type: "stop-requested", mode: "now", by: "me" }).end("a", stopped);
    expect(play.reopen("continue").said().at(-1)).toBe("a: interrupted in 1+");
    expect(play.reopen().end("a", lost).said().at(-1)).toBe("a: task in 3");

    const other = new Talking().open();
    other.reopen("restart").end("a", lost);
    expect(other.said().at(-1)).toBe("a: task in 2");
    expect(other.reopen().end("a", lost).said().at(-1)).toBe("a: interrupted in 2+");
  });

  it("is for what was interrupted only: a pause, an ask and a hand-over continue", () => {
    const busy: Ending = { how: "paused", reason: "server", message: "500" };
    const play = new Talking(restarting).open().end("a", busy).finish();
    expect(play.said().at(-1)).toBe("a: interrupted in 1+");
    const asked = new Talking(restarting).open().end("a", full).end("a", relayed);
    expect(asked.said()).toEqual(["a: task in 1", "a: relay in 1+", "a: relayed in 3"]);
  });

  it("leaves the notes of a conversation behind that it does not continue from", () => {
    const play = new Talking().open().end("a", full).end("a", relayed);
    play.reopen("restart").end("a", lost);
    expect(play.said().at(-1)).toBe("a: task in 4");
    play.found = false;
    expect(play.reopen().end("a", lost).said().at(-1)).toBe("a: task in 4");
  });
});

describe("a stop", () => {
  it("may become more urgent, and not less", () => {
    const play = new Talking(planOf("a", { a: agent })).open();
    const modes = ["after-step", "after-turn", "after-step", "now", "after-turn", "now"] as const;
    for (const mode of modes) play.tell({ type: "stop-requested", mode, by: mode });
    const reported = play.events.flatMap((event) =>
      event.type === "run.stopping" ? [event.mode] : [],
    );
    expect(reported).toEqual(["after-step", "after-turn", "now"]);
  });

  it("tells which processes are to be ended, and when", () => {
    const play = new Talking(planOf("a", { a: agent })).open();
    const cancels = (mode: "after-step" | "after-turn" | "now") =>
      play
        .tell({ type: "stop-requested", mode, by: "me" })
        .operations("cancel")
        .map(({ when }) => when);
    expect(cancels("after-step")).toEqual([]);
    expect(cancels("after-turn")).toEqual(["after-turn"]);
    expect(cancels("now")).toEqual(["now"]);
  });
});

describe("a budget of time", () => {
  const plan = planOf("a", { a: agent }, { budget: { timeMs: 100 } });
  const at = { scope: "", step: "a", visit: 1, attempt: 1 };

  it("ends what runs when it is used up", () => {
    const play = new Talking(plan).open();
    expect(play.turn?.wakeAt).toBe(play.now + 100);
    play.now += 100;
    play.tell();
    expect(play.operations("cancel")).toMatchObject([{ when: "now" }]);
    expect(play.run.state).toMatchObject({
      reason: { code: "budget", limit: { kind: "time", used: 100, of: 100 } },
    });
  });

  it("does not count the time in which nobody watched", () => {
    const play = new Talking(plan).open();
    play.now += 40;
    // The last sign of the first owner.
    play.tell({ type: "session-known", at, session: "its-own" });
    play.now += 1_000_000;
    play.reopen();
    expect(play.run.workedMs).toBe(40);
    expect(play.turn?.wakeAt).toBe(play.now + 60);
    play.now += 50;
    play.end("a");
    expect(play.run.workedMs).toBe(90);
  });

  it("does not count back when a clock was set back", () => {
    const play = new Talking(plan).open();
    play.now -= 1_000;
    play.end("a");
    expect(play.run.workedMs).toBe(0);
  });
});

describe("what was used", () => {
  const spent = (inputTokens: number): Spent => ({
    inputTokens,
    cachedTokens: 0,
    outputTokens: 1,
    turns: 1,
    costUsd: 0.5,
  });

  it("is kept by conversation, over the attempts in it", () => {
    const play = new Talking().open();
    play.end("a", { ...full, spent: spent(1) });
    play.end("a", { ...lost, spent: spent(2) });
    play.end("a", { ...relayed, spent: spent(4) });
    play.end("a", { ...ok(), spent: spent(8) });
    const inputs = [...play.run.conversations].map(([id, used]) => [id, used.inputTokens]);
    expect(inputs).toEqual([
      ["1", 7],
      ["4", 8],
    ]);
    expect(play.run.spent).toEqual({ ...spent(15), outputTokens: 4, turns: 4, costUsd: 2 });
  });

  it("is kept by conversation, over the steps that share it", () => {
    const play = new Talking(planOf("a>b", { a: sharing, b: sharing })).open();
    play.end("a", { ...ok(), spent: spent(1) }).end("b", { ...ok(), spent: spent(2) });
    expect(play.run.conversations.get("1")?.inputTokens).toBe(3);
  });

  it("counts the turns of a try over its conversations, and those of the next from nothing", () => {
    const play = new Talking(planOf("a", { a: { ...agent, ...retry(2) } })).open();
    const turns = (): number | undefined => [...play.run.running][0]?.conversation?.turns;
    play.end("a", { ...full, spent: spent(1) }).end("a", { ...relayed, spent: spent(1) });
    expect(turns()).toBe(2);
    play.end("a", { ...bad, spent: spent(1) });
    play.now = play.turn?.wakeAt ?? 0;
    play.tell();
    expect(turns()).toBe(0);
  });
});
