/** What a worker makes of a run that was stopped, and of a directory from before a reboot. */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { machineWith, needNamespaces } from "../rig/namespace.ts";
import { eventually } from "../rig/project.ts";
import { Fleet } from "./worker-rig.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

let fleet: Fleet;
beforeAll(async () => {
  needNamespaces();
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

test("a run that was stopped at a question stays stopped when somebody answers", async () => {
  const hold = fleet.hold("beside");
  const worker = await fleet.worker("ended", "--labels", "ended");
  const runId = await fleet.submitted(`
requires: [ended]
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
  const other = await fleet.submitted("requires: [ended]\nsteps: [{id: a, run: echo a}]");
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

test("T3: after a reboot, a worker makes the directory of a run again, and keeps the old one beside it", async () => {
  const hold = fleet.hold("boot");
  const boot = () => machineWith(fleet.dir, { [BOOT_ID]: `${randomUUID()}\n` });
  const before = await fleet.workerThrough(boot(), "boot", "--labels", "boot");
  const runId = await fleet.submitted(`
requires: [boot]
workspace: {kind: directory}
steps:
  - id: first
    run: ${fleet.effect("boot-first")}; echo kept > kept.txt
  - id: held
    run: ${hold.command}; cat kept.txt
`);
  await hold.arrived();
  await fleet.loseMachine(before, runId);
  const after = await fleet.workerThrough(boot(), "boot", "--labels", "boot");
  await hold.release();
  await fleet.reached(runId, "run.completed");
  expect(fleet.effectsOf("boot")).toEqual({ first: 1 });
  expect(await fleet.counts(runId)).toMatchObject({ "run.moved": 2, "step.lost": 1 });
  expect(existsSync(`${after.directory}/runs/${runId}.earlier`)).toBe(true);
});
