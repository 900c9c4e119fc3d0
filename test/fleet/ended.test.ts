/** Runs of a fleet that have ended, and get an answer that nobody records. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../rig/project.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

test("a run that was stopped at its question is looked at once when somebody answers, and stays stopped", async () => {
  const hold = fleet.hold("beside");
  const worker = await fleet.worker("ended");
  const runId = await fleet.submitted(`
steps:
  - id: ask
    needs: []
    gate: Continue?
  - id: beside
    needs: []
    run: ${hold.command}
  - id: after
    needs: [ask, beside]
    run: ${fleet.effect("ended-after")}
`);
  await hold.arrived();
  await fleet.journal.inbox.send(runId, { type: "stop", mode: "now", by: "ann" });
  await fleet.reached(runId, "run.stopped");
  const answer = { choice: "A", from: "command", by: "ann", given: Date.now() } as const;
  await fleet.journal.inbox.answer(runId, { attempt: "ask@1.1", answer });
  const looked = () => worker.supervisor.stdout.split(": stopped").length - 1;
  await eventually("a worker has looked at it again", () => looked() === 2);
  const other = await fleet.submitted("steps: [{id: a, run: echo a}]");
  await fleet.reached(other, "run.completed");
  expect(looked()).toBe(2);
  expect((await fleet.events(runId)).at(-1)?.type).toBe("run.stopped");
  // The answer counts as soon as somebody resumes the run.
  await fleet.must(["resume", runId]);
  await hold.arrived();
  await hold.release();
  await fleet.reached(runId, "run.completed");
  expect(fleet.effectsOf("ended")).toEqual({ after: 1 });
});
