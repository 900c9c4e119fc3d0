/** Why a step ran, ran again, or is used: every cause that the journal can tell. */
import { expect, test } from "vitest";
import type { EventOf } from "../../src/core/event.ts";
import { explainJson, explainLines, explainStep } from "../../src/view/explain.ts";
import { chain, OWNER, planOf, ref, Scribe, step } from "./scribe.ts";

function reported(scribe: Scribe, path: string, fingerprint?: string): string {
  const explained = explainStep(scribe.events, path, fingerprint);
  return explained === undefined ? "nothing" : `\n${explainLines(explained).join("\n")}\n`;
}

const three = (): Scribe => new Scribe(planOf(chain(step("plan"), step("fix"), step("ship"))));

function updated(change: Partial<EventOf<"run.updated">>): EventOf<"run.updated"> {
  return {
    type: "run.updated",
    fingerprint: "g",
    envNames: [],
    kept: [],
    rerun: [],
    gone: [],
    ...change,
  };
}

test("explains attempts after failures, a loss, a stop, a pause and newly granted attempts", () => {
  const scribe = three().start("fix").at(1).retry("fix", 1, 10).start("fix", 2).at(3);
  scribe.write({
    type: "step.lost",
    ...ref("fix", 2),
    message: "gone",
    retry: { at: 0, delayMs: 0 },
  });
  scribe.start("fix", 3).write({ type: "step.adopted", ...ref("fix", 3), found: "alive" });
  scribe.write({ type: "step.interrupted", ...ref("fix", 3), message: "SIGINT" }).start("fix", 4);
  scribe.write({
    type: "step.paused",
    ...ref("fix", 4),
    reason: "rate-limit",
    message: "busy",
    retry: { at: 0, delayMs: 0 },
  });
  scribe.start("fix", 5).fail("fix", 5);
  scribe.write({ type: "step.granted", ...ref("fix"), attempts: 3 }).start("fix", 6);
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:00 UTC: all steps that it depends on had completed
      it failed after 1.0s: it exited with 2
    fix@1.2  2026-02-01 10:00:01 UTC: it had failed once and had attempts left
      it was lost after 2.0s: gone
    fix@1.3  2026-02-01 10:00:03 UTC: its process had been lost, which does not use up an attempt
      its runner had ended; the next one found it running and re-attached
      it was interrupted after 0ms: SIGINT
    fix@1.4  2026-02-01 10:00:03 UTC: it had been interrupted, and the run was resumed
      it paused after 0ms (rate-limit)
    fix@1.5  2026-02-01 10:00:03 UTC: the pause had ended (rate-limit)
      it failed after 0ms: it exited with 2
    fix@1.6  2026-02-01 10:00:03 UTC: ada resumed the run, which granted 3 more attempts
      it has not ended yet
    It has not completed; resume continues it.
    "
  `);
});

test("explains conversations that continue, are corrected and are handed over, and restored files", () => {
  const scribe = three().write({
    type: "step.started",
    ...ref("fix"),
    restore: true,
    conversation: { session: "s1", kind: "start", says: "task", why: "it is the first attempt" },
  });
  const ask = { kind: "correct", why: "its answer is not JSON" } as const;
  scribe.write({ type: "step.continued", ...ref("fix"), ask }).write({
    type: "step.started",
    ...ref("fix", 2),
    conversation: { session: "s1", kind: "continue", says: "correct", why: ask.why },
  });
  const checkpoint = { path: "notes", sha256: "0", bytes: 1 };
  scribe.write({ type: "step.relayed", ...ref("fix", 2), checkpoint }).start("fix", 3);
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:00 UTC: all steps that it depends on had completed
      its files were restored to the start of the visit
      it started a conversation s1: it is the first attempt
      its conversation continues in the next attempt: its answer is not JSON
    fix@1.2  2026-02-01 10:00:00 UTC: its answer is not JSON
      it continued the conversation s1: its answer is not JSON
      it handed over to a new conversation
    fix@1.3  2026-02-01 10:00:00 UTC: the previous conversation had handed over
      it has not ended yet
    It has not completed; resume continues it.
    "
  `);
});

test("explains an uncertain effect, the answer of its probe, and the verdict of a person", () => {
  const scribe = three().start("fix").at(1);
  const uncertain = { cause: "exit", message: "it exited with 1" } as const;
  scribe.write({ type: "step.uncertain", ...ref("fix"), ...uncertain, asks: "probe" });
  scribe.write({ type: "step.probed", ...ref("fix"), answer: "unknown" });
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:00 UTC: all steps that it depends on had completed
      it may or may not have happened (it exited with 1): the probe is asked
      it may or may not have happened: its probe does not know
    It may or may not have happened; it has no result before that is settled.
    "
  `);
  scribe.write({ type: "step.settled", ...ref("fix"), as: "done", by: "ada@laptop" });
  scribe.complete("fix");
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:00 UTC: all steps that it depends on had completed
      it may or may not have happened (it exited with 1): the probe is asked
      it may or may not have happened: its probe does not know
      it was settled by ada@laptop: it happened
      it completed after 1.0s
    Its result of 2026-02-01 10:00:01 UTC is used: nothing that it depends on has changed.
    "
  `);
});

test("explains a rewind: who asked for it, and to which step", () => {
  const scribe = three()
    .done("plan", "fix")
    .write({
      type: "run.rewound",
      step: "plan",
      reopened: ["plan", "fix", "ship"],
      assumed: [],
      restore: "c0ffee",
    });
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:01 UTC: all steps that it depends on had completed
      it completed after 1.0s
    Its earlier results are not used any more; it runs again because ada rewound the run to plan; the files were restored first.
    "
  `);
  expect(reported(scribe, "plan")).toContain(
    "ada asked to run it again; the files were restored first",
  );
});

test("explains edits that change the step, leave it alone, or remove it", () => {
  const scribe = three().done("plan", "fix").at(60);
  const rerun = { step: "fix", because: "definition", names: ["prompt", "model"] } as const;
  scribe.write({ type: "run.opened", owner: { ...OWNER, user: "bob" }, epoch: 2 });
  scribe.write(updated({ kept: ["plan"], rerun: [rerun] }));
  expect(reported(scribe, "fix")).toMatchInlineSnapshot(`
    "
    fix@1.1  2026-02-01 10:00:01 UTC: all steps that it depends on had completed
      it completed after 1.0s
    Its earlier results are not used any more; it runs again because bob adopted an edit of the pipeline: its \`prompt\`, \`model\` changed.
    "
  `);
  expect(reported(scribe, "plan", "0123456789abcdef")).toMatchInlineSnapshot(`
    "
    plan@1.1  2026-02-01 10:00:00 UTC: all steps that it depends on had completed
      it completed after 1.0s
    kept  2026-02-01 10:01:00 UTC: bob adopted an edit that changes neither this step nor anything that it depends on
    Its result of 2026-02-01 10:00:01 UTC is used: nothing that it depends on has changed (fingerprint 0123456789ab).
    "
  `);
  scribe.write(updated({ kept: ["plan"], gone: ["fix"] }));
  expect(reported(scribe, "fix")).toContain(
    "It is no longer in the pipeline; its results are history.",
  );
});

test("explains a skipped step, one that has not run, an unknown one, and one that is assumed completed", () => {
  const scribe = three().write({ type: "step.skipped", ...ref("plan"), edges: [0] });
  expect(reported(scribe, "plan")).toContain("it was skipped: its condition was false");
  expect(reported(scribe, "ship", "ab")).toBe("\nIt has not run yet.\n");
  expect(reported(scribe, "nobody")).toBe("nothing");
  scribe.write({ type: "run.rewound", step: "ship", reopened: ["ship"], assumed: ["fix"] });
  expect(reported(scribe, "fix")).toBe(
    "\nIt is treated as completed: a person continued the run from a later step.\n",
  );
});

test("explains a step as JSON", () => {
  const explained = explainStep(three().done("plan").events, "plan", undefined);
  expect(explained && explainJson("run-1", explained)).toEqual({
    run_id: "run-1",
    step: "plan",
    attempts: [
      {
        visit: 1,
        attempt: 1,
        time: "2026-02-01T10:00:00.000Z",
        cause: "all steps that it depends on had completed",
        notes: [],
        end: "it completed after 1.0s",
      },
    ],
    kept: [],
    now: "Its result of 2026-02-01 10:00:01 UTC is used: nothing that it depends on has changed.",
  });
});
