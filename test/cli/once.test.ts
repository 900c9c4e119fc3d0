/**
 * Effects that must happen once, with the real program and a real repository: a step that pushes is
 * killed between its push and its receipt, and its probe or a person says whether it happened (P4).
 */
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { eventually } from "../rig/project.ts";
import { block, MOMENTS, type Moment, PushProject } from "../rig/push-project.ts";
import { onceRound } from "../soak/once-round.ts";

let project: PushProject;
beforeEach(() => {
  project = new PushProject();
});
afterEach(() => project.remove());

interface Pushing {
  readonly moment?: Moment;
  readonly probe?: string;
  readonly more?: string;
}

/** Starts a run whose first step pushes; it waits there at the moment. */
async function startPush(file: string, { moment = "after-push", probe, more }: Pushing) {
  const hold = project.hold(file);
  const once = probe === undefined ? "true" : `{ probe: ${JSON.stringify(probe)} }`;
  project.write(
    `${file}.yaml`,
    `steps:
  - id: push
    once: ${once}
    run: ${block(project.push(moment, hold), 6)}
${more ?? ""}  - id: ship
    run: ${project.effect("ship")}
`,
  );
  const runner = project.start(["run", `${file}.yaml`]);
  await hold.arrived();
  return { runner, id: await newest() };
}

async function newest(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

function receipt(id: string): Record<string, unknown> {
  return JSON.parse(project.read(".perdure", "runs", fullId(id), "receipts", "push-shell.json"));
}

function fullId(id: string): string {
  const key = project.pushes().find((push) => push.startsWith(id));
  return key?.split("/")[0] ?? "";
}

async function cutOff(pushing: Pushing = {}): Promise<string> {
  const { runner, id } = await startPush("p", pushing);
  await project.killAll(runner);
  return id;
}

describe("with a probe", () => {
  it.each(MOMENTS.map((moment, round) => [moment, round] as const))(
    "pushes once although it is killed before its receipt: %s",
    async (_moment, round) => {
      expect(await onceRound(round)).toEqual([]);
    },
  );

  it("reports the result of the probe, and passes on the effect's identity", async () => {
    const more = `  - id: tell\n    run: echo "it is \${{ results.push.identity }}"\n`;
    const id = await cutOff({ probe: project.probe, more });
    expect(await project.must(["resume", "--dry-run", id])).toContain(
      "push  probe first  its process is gone; it runs again only if its probe says no\n",
    );
    const out = await project.must(["resume", id]);
    const key = `${fullId(id)}/push@1`;
    expect(out).toContain(
      "? push may or may not have happened (its process is gone and left no exit status): the probe is asked\n",
    );
    expect(out).toContain(`? push happened, according to its probe: tag ${key}\n`);
    expect(out).toContain(`tell │ it is tag ${key}\n`);
    expect(await project.must(["show", id])).toContain(
      `it happened, according to its probe (tag ${key})`,
    );
  });

  it("asks a probe again that was killed, or stopped with the run", async () => {
    const asked = project.hold("probe");
    const probe = `${project.effect("asked")}\n${asked.command}\n${project.probe}`;
    const id = await cutOff({ probe });
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    const killed = project.start(["resume", id]);
    await asked.arrived();
    await killed.kill("SIGKILL");
    const left = project.stepProcesses();
    expect(left).not.toEqual([]);
    const again = project.start(["resume", id]);
    // The shell around the probe dies a moment before the probe, which would take the release.
    await eventually("the old probe is dead", () => {
      return !project.stepProcesses().some((pid) => left.includes(pid));
    });
    await asked.release();
    expect((await again.ended).exit, again.stdout + again.stderr).toBe(0);
    expect(project.stepProcesses()).toEqual([]);
    expect(project.pushes()).toHaveLength(1);
    expect(project.effects()).toMatchObject({ asked: 2, ship: 1 });

    await project.remove();
    kept.putBack();
    const stopped = project.start(["resume", id]);
    await asked.arrived();
    expect((await stopped.kill("SIGINT")).exit).toBe(130);
    expect(project.stepProcesses()).toEqual([]);
    const resumed = project.start(["resume", id]);
    await asked.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.pushes()).toHaveLength(1);
    expect(project.effects()).toMatchObject({ asked: 2, ship: 1 });
  });

  it("asks a person if the probe does not know; a resume asks the probe again", async () => {
    const id = await cutOff({
      probe: `test -e net || { echo no network >&2; exit 7; }\n${project.probe}`,
    });
    const stopped = await project.run(["resume", id]);
    expect(stopped.exit).toBe(3);
    expect(stopped.stdout).toContain(
      "? push may or may not have happened: its probe does not know: its probe exited with 7: no network\n",
    );
    expect(stopped.stdout).toContain(`If the effect happened: perdure settle ${id} push done\n`);
    project.write("net", "");
    expect((await project.run(["resume", id])).exit).toBe(0);
    expect(project.pushes()).toHaveLength(1);
  });

  it("asks the probe again after a kill at any moment", async () => {
    const id = await cutOff({ probe: `test -e net || exit 7\n${project.probe}` });
    const log = project.path("failpoints");
    const passed = (): readonly string[] => project.read("failpoints").trimEnd().split("\n");
    await project.run(["resume", id]);
    const look = await project.run(["resume", id], { env: { PERDURE_FAILPOINT_LOG: log } });
    expect(look.exit, look.stderr).toBe(3);
    const first = passed().indexOf("probe.before");
    project.write("net", "");
    const killedAt = new Set<string | undefined>();
    // From a little before, because one resume passes more of them than another.
    for (let at = first - 2; ; at++) {
      project.write("failpoints", "");
      const env = { PERDURE_FAILPOINT_LOG: log, PERDURE_FAILPOINT: String(at) };
      const resumed = await project.run(["resume", id], { env });
      if (resumed.exit !== null) break;
      killedAt.add(passed().at(-1));
      expect(project.pushes()).toHaveLength(1);
    }
    expect([...killedAt]).toEqual(expect.arrayContaining(["probe.before", "probe.after"]));
    await project.run(["resume", id]);
    expect(project.effects().ship).toBe(1);
    expect(project.pushes()).toHaveLength(1);
  });

  it("does not believe the probe if the step's outputs are missing", async () => {
    const { runner, id } = await startPush("p", {
      probe: project.probe,
      more: "    outputs: { notes: notes.md }\n",
    });
    await project.killAll(runner);
    const missing = 'it wrote no output "notes": there is no file notes.md';
    const stopped = await project.run(["resume", id]);
    expect(stopped.exit).toBe(3);
    expect(stopped.stdout).toContain(`its probe says that it happened, but ${missing}`);
    const refused = await project.run(["settle", id, "push", "done"]);
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain(`step push cannot be settled as done: ${missing}`);
    project.write("notes.md", "notes");
    await project.must(["settle", id, "push", "done", "--identity", "v1"]);
    expect((await project.run(["resume", id])).exit).toBe(0);
    expect(receipt(id)).toMatchObject({ identity: "v1", outputs: { notes: { bytes: 5 } } });
    expect(project.pushes()).toHaveLength(1);
  });

  it("asks the probe after Ctrl-C, too", async () => {
    const { runner, id } = await startPush("p", { probe: project.probe });
    const stopped = await runner.kill("SIGINT");
    expect(stopped.exit).toBe(130);
    expect(stopped.stdout).toContain(
      "? push may or may not have happened (it was stopped): the probe is asked\n",
    );
    expect((await project.run(["resume", id])).exit).toBe(0);
    expect(project.pushes()).toHaveLength(1);
  });

  it("asks the probe after a timeout, too", async () => {
    const { runner } = await startPush("p", {
      probe: project.probe,
      more: "    timeout: 4s\n    retry: 3\n",
    });
    expect((await runner.ended).exit).toBe(0);
    expect(project.pushes()).toHaveLength(1);
  });
});

describe("without a probe", () => {
  const words = (id: string): readonly string[] => [
    `Run ${id} (p) failed: step push (1 attempt): it must not happen twice, and whether it happened is unknown (its process is gone and left no exit status).`,
    "0 of 2 steps completed; not completed: push (failed), ship.",
    `If the effect happened: perdure settle ${id} push done`,
    `If it did not: perdure settle ${id} push redo`,
    `To give up: perdure settle ${id} push abort`,
    `Output: perdure logs ${id} push`,
  ];

  it("is settled by a person; of two people at the same time one counts", async () => {
    const id = await cutOff();
    expect(await project.must(["resume", "--dry-run", id])).toContain("push  needs settle  ");
    const stopped = await project.run(["resume", id]);
    expect(stopped.exit).toBe(3);
    for (const line of words(id)) expect(stopped.stdout).toContain(`${line}\n`);
    expect(project.pushes()).toHaveLength(1);
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    const verdicts = [
      ["done", 0, 1, 1],
      ["redo", 0, 2, 1],
      ["abort", 3, 1, undefined],
    ] as const;
    for (const [verdict, exit, pushes, ship] of verdicts) {
      await project.remove();
      kept.putBack();
      const out = await project.must(["settle", id, "push", verdict]);
      expect(out).toMatch(new RegExp(`^Step push of run ${id} is settled by \\S+@\\S+: `));
      expect(out).toContain(`Continue: perdure resume ${id}\n`);
      expect(project.pushes()).toHaveLength(1);
      const twice = await project.run(["settle", id, "push", "done"]);
      expect(twice.exit).toBe(2);
      expect(twice.stderr).toContain("there is nothing to settle: step push is ");
      const resumed = await project.run(["resume", id]);
      expect(resumed.exit, verdict + resumed.stdout + resumed.stderr).toBe(exit);
      expect(project.pushes()).toHaveLength(pushes);
      expect(project.effects().ship).toBe(ship);
    }

    await project.remove();
    kept.putBack();
    const both = await Promise.all([
      project.run(["settle", id, "push", "done"]),
      project.run(["settle", id, "push", "abort"]),
    ]);
    expect(both.filter(({ exit }) => exit === 0)).toHaveLength(1);
    const loser = both.find(({ exit }) => exit !== 0);
    expect([2, 7], loser?.stderr).toContain(loser?.exit);
    const done = both[0]?.exit === 0;
    expect((await project.run(["resume", id])).exit).toBe(done ? 0 : 3);
    const settled = project
      .read(".perdure", "runs", fullId(id), "events.jsonl")
      .split("\n")
      .filter((line) => line.includes("step.settled"));
    expect(settled).toHaveLength(1);
  });

  it("cannot be settled while it runs, nor before it is uncertain", async () => {
    const { runner, id } = await startPush("p", {});
    const refused = await project.run(["settle", id, "push", "done"]);
    expect(refused.exit).toBe(7);
    expect(refused.stderr).toContain("there is nothing to settle yet: step push is running\n");
    expect(refused.stderr).toContain(`next: perdure attach ${id}\n`);
    const odd = await project.run(["settle", id, "push", "maybe"]);
    expect(odd.exit).toBe(2);
    expect(odd.stderr).toContain('a step is settled as done, redo, abort, not "maybe"');
    await project.killAll(runner);
    const early = await project.run(["settle", id, "push", "done"]);
    expect(early.exit).toBe(2);
    expect(early.stderr).toContain("there is nothing to settle yet: step push is running;");
    expect((await project.run(["retry", id, "push"])).exit).toBe(2);
  });

  it("leaves it to a person after Ctrl-C; the rest of the run continues", async () => {
    const beside = `  - id: beside\n    needs: []\n    run: ${project.effect("beside")}\n`;
    const { runner, id } = await startPush("p", { more: beside });
    const stopped = await runner.kill("SIGINT");
    expect(stopped.stdout).toContain(
      "? push may or may not have happened (it was stopped): a person must settle it\n",
    );
    expect((await project.run(["resume", id])).exit).toBe(3);
    expect(project.effects().beside).toBe(1);
    expect(project.pushes()).toHaveLength(1);
    const refused = await project.run(["retry", id, "push"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain("settle it first: perdure settle");
    await project.must(["settle", id, "push", "done"]);
    expect((await project.run(["resume", id])).exit).toBe(0);
    expect(project.pushes()).toHaveLength(1);
  });
});
