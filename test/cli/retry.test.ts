/**
 * Attempts, their counters, and rewinds: what survives a kill and what runs again (P1, P4, P5).
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

async function shortId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

/** Shell text that fails until a file of this name is written. */
function until(name: string): string {
  return `test -e '${project.path(name)}'`;
}

/** plan -> build -> ship, and docs beside build. */
function diamond(settings = ""): void {
  project.write(
    "p.yaml",
    `${settings}steps:
  - id: plan
    run: ${project.effect("plan")}
  - id: build
    needs: plan
    run: |
      ${project.effect("build")}
      ${until("flag")}
  - id: docs
    needs: plan
    run: ${project.effect("docs")}
  - id: ship
    needs: [build, docs]
    run: ${project.effect("ship")}
`,
  );
}

it("keeps attempts and retry counters through kills", async () => {
  const [third, fourth] = [project.hold("3"), project.hold("4")];
  project.write(
    "p.yaml",
    `steps:
  - id: flaky
    run: |
      ${project.effect("flaky")}
      test "$PERDURE_ATTEMPT" -ge 3 || exit 1
      test "$PERDURE_ATTEMPT" = 4 || ${third.command}
      ${fourth.command}
      exit 1
    retry: { attempts: 4, backoff: { initial: 1ms, jitter: 0 } }
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await third.arrived();
  await runner.kill("SIGKILL");
  const resumed = project.start(["resume"]);
  await third.release();
  await fourth.release();
  await eventually("the fourth try begins", () => project.effects().flaky === 4);
  await fourth.release();
  const result = await resumed.ended;

  expect(result.exit, result.stderr).toBe(3);
  expect(result.stdout).toContain("▶ flaky started (attempt 4 of 4)");
  expect(result.stdout).toContain("failed: step flaky (4 attempts): it exited with 1.");
  expect(project.effects()).toEqual({ flaky: 4 });
  const id = await shortId();
  expect(await project.must(["show", id])).toMatch(/flaky@1\.4 +failed/);
});

it("does not count a lost attempt as a retry", async () => {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      ${project.effect("one")}
      ${hold.command}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.kill("SIGKILL");
  await project.killSteps();

  const resumed = project.start(["resume"]);
  await resumed.printed("one lost: ");
  await eventually("it starts again", () => project.effects().one === 2);
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
});

it("grants all attempts again with on_resume: fresh; none with keep, which suggests a command", async () => {
  const retry = (rule: string): string =>
    `retry: { attempts: 2, backoff: { initial: 1ms }, on_resume: ${rule} }`;
  const file = (rule: string): string =>
    project.write(
      `${rule}.yaml`,
      `steps:\n  - id: ${rule}\n    run: |\n      ${project.effect(rule)}\n      ${until(`${rule}-flag`)}\n    ${retry(rule)}\n`,
    );
  expect((await project.run(["run", file("fresh")])).exit).toBe(3);
  const fresh = await shortId();
  expect((await project.run(["resume", fresh])).exit).toBe(3);
  expect(project.effects()).toEqual({ fresh: 4 });

  expect((await project.run(["run", file("keep")])).exit).toBe(3);
  const keep = await shortId();
  const kept = await project.run(["resume", keep]);
  expect(kept.exit).toBe(3);
  expect(project.effects()).toEqual({ fresh: 4, keep: 2 });
  expect(kept.stdout).toContain(`Retry: perdure retry ${keep} keep`);
  project.write("keep-flag", "");
  expect((await project.run(["retry", keep, "keep"])).exit).toBe(0);
  expect(project.effects()).toEqual({ fresh: 4, keep: 3 });
});

it("retries a failed step and runs what waits for it, or refuses if that is impossible", async () => {
  diamond();
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  const id = await shortId();
  const unknown = await project.run(["retry", id, "bild"]);
  expect(unknown.exit).toBe(2);
  expect(unknown.stderr).toBe(
    `error: run ${id} has no step bild; did you mean build?
  next: perdure show ${id}
`,
  );
  for (const more of [[], ["--dry-run"]]) {
    const early = await project.run(["retry", id, "ship", ...more]);
    expect(early.exit).toBe(2);
    expect(early.stderr).toContain(
      "error: step ship cannot run yet: step build before it is not done",
    );
    expect(early.stderr).toContain(`next: perdure show ${id}`);
  }
  expect(project.effects()).toEqual({ plan: 1, build: 1, docs: 1 });
  project.write("flag", "");

  expect((await project.run(["retry", id, "build"])).exit).toBe(0);

  expect(project.effects()).toEqual({ plan: 1, build: 2, docs: 1, ship: 1 });
});

it("retries only the failed items of a failed fan-out", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: work
    for_each: { in: [a, b, c], as: x }
    run: |
      echo "$PERDURE_ITEM" | tee -a '${project.path("effects")}'
      test "$PERDURE_ITEM" != b || ${until("flag")}
  - id: reduce
    run: ${project.effect("reduce")}
`,
  );
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  project.write("flag", "");
  const id = await shortId();

  const retried = await project.run(["retry", id, "work"]);

  expect(retried.exit, retried.stderr).toBe(0);
  expect(project.effects()).toEqual({ a: 1, b: 2, c: 1, reduce: 1 });
  expect(await project.must(["replay", id])).toContain("no difference");
  const logs = await project.must(["logs", id, "work"]);
  expect(logs.split("\n").toSorted()).toEqual([
    "",
    "work@1.1[0]/work │ a",
    "work@1.1[1]/work │ b",
    "work@1.1[1]/work │ b",
    "work@1.1[2]/work │ c",
  ]);
  expect((await project.run(["logs", id, "reduce"])).stderr).toBe("reduce has printed nothing\n");
});

it("retries a completed step and all after it, but not an independent branch", async () => {
  diamond("workspace: here\n");
  project.write("flag", "");
  await project.must(["run", "p.yaml"]);
  const id = await shortId();
  const dry = await project.must(["retry", id, "build", "--dry-run"]);
  expect(dry).toBe(
    `STEP   RESUME WILL  BECAUSE
plan   reuse        it completed; its result is kept
build  run          you asked to continue from here
docs   reuse        it completed; its result is kept
ship   run          it comes after build
files: the files stay as they are (--files restore restores the snapshot before build@1)
`,
  );
  expect(project.effects()).toEqual({ plan: 1, build: 1, docs: 1, ship: 1 });

  expect((await project.run(["retry", id, "build"])).exit).toBe(0);

  expect(project.effects()).toEqual({ plan: 1, build: 2, docs: 1, ship: 2 });
});

it("takes earlier steps as done with resume --from-step; --dry-run says so and changes nothing", async () => {
  diamond("workspace: here\n");
  await project.run(["run", "p.yaml"]);
  const id = await shortId();
  const before = project.read(
    ".perdure",
    "runs",
    (await project.runIds())[0] ?? "",
    "events.jsonl",
  );
  const shown = await project.must(["show", id, "--json"]);
  const dry = await project.must(["resume", id, "--from-step", "ship", "--dry-run"]);
  expect(dry).toBe(
    `STEP   RESUME WILL  BECAUSE
plan   reuse        it completed; its result is kept
build  reuse        it has not completed, but is treated as completed: you continue from ship
docs   reuse        it completed; its result is kept
ship   run          you asked to continue from here
files: the files stay as they are: the step has not worked on them yet
`,
  );
  await project.must(["resume", id, "--dry-run"]);
  expect(await project.must(["show", id, "--json"])).toBe(shown);
  expect(project.read(".perdure", "runs", (await project.runIds())[0] ?? "", "events.jsonl")).toBe(
    before,
  );

  const resumed = await project.run(["resume", id, "--from-step", "ship"]);

  expect(resumed.exit, resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ plan: 1, build: 1, docs: 1, ship: 1 });
  expect(await project.must(["show", id])).toMatch(/✓ build +assumed completed/);
});

it("distinguishes a living, an ended and a dead step with --dry-run", async () => {
  const [ended, living] = [project.hold("ended"), project.hold("living")];
  project.write(
    "p.yaml",
    `steps:
  - id: ended
    needs: []
    run: |
      ${ended.command}
      ${project.effect("ended")}
  - id: living
    needs: []
    run: ${living.command}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await ended.arrived();
  await living.arrived();
  await runner.kill("SIGKILL");
  await ended.release();
  await eventually("the step has ended", () => project.stepProcesses().length <= 2);
  const id = await shortId();

  expect(await project.must(["resume", "--dry-run"])).toBe(
    `STEP    RESUME WILL  BECAUSE
ended   take result  it ended without a runner; its result is on disk
living  re-attach    its process is still running
`,
  );
  expect(await project.must(["why"])).toContain(
    `Continue (steps that still run are re-attached, not restarted): perdure resume ${id}`,
  );
  const resumed = project.start(["resume"]);
  await living.release();
  expect((await resumed.ended).exit).toBe(0);
  expect(project.effects()).toEqual({ ended: 1 });
});

it("never runs more than max_parallel steps at the same time", async () => {
  const names = ["a", "b", "c", "d", "e"];
  const holds = names.map((name) => project.hold(name));
  const steps = holds.map(
    ({ command }, at) =>
      `  - id: ${names[at]}\n    needs: []\n    run: |\n      ${project.effect(names[at] ?? "")}\n      ${command}\n`,
  );
  project.write("p.yaml", `max_parallel: 2\nsteps:\n${steps.join("")}`);
  const runner = project.start(["run", "p.yaml"]);
  for (const [at, hold] of holds.entries()) {
    await hold.arrived();
    const begun = Object.keys(project.effects()).length;
    expect(begun - at).toBeLessThanOrEqual(2);
    await hold.release();
  }
  expect((await runner.ended).exit).toBe(0);
});

it("names an unfinished run of the same pipeline and how to continue it, and starts a new one", async () => {
  diamond();
  project.write("q.yaml", "steps:\n  - id: one\n    run: exit 1\n");
  const hold = project.hold("x");
  project.write("h.yaml", `steps:\n  - id: one\n    run: ${hold.command}\n`);
  const live = project.start(["run", "h.yaml"]);
  await hold.arrived();
  const id = await shortId();
  const beside = project.start(["run", "h.yaml"]);
  await beside.printed(
    `Run ${id} of h.yaml is still running (0 of 1 steps completed). Watch it: perdure attach ${id}\n`,
  );
  await beside.kill("SIGTERM");
  await live.kill("SIGKILL");
  const third = project.start(["run", "h.yaml", "--plain"]);
  await third.printed(
    /^Run \w{8} of h\.yaml is unfinished \(0 of 1 steps completed\)\. Continue it: /m,
  );
  await third.kill("SIGTERM");
  const other = await project.run(["run", "q.yaml"]);
  expect(other.stdout).not.toContain("unfinished");
});
