/**
 * Several checks per step: what each of them means, how they are reported, and what a kill leaves.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stateless, text } from "../rig/model/reply.ts";
import { eventually, type Hold, PlainProject, type Project, type Result } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

function pipeline(yaml: string): void {
  project.write("p.yaml", yaml);
}

async function eventsOf(type: string): Promise<readonly Record<string, unknown>[]> {
  const lines = project.read(".perdure", "runs", await project.newestId(), "events.jsonl");
  return lines
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string; data: Record<string, unknown> })
    .filter((event) => event.type === type)
    .map(({ data }) => data);
}

describe("several checks", () => {
  it("all run in order, and each one that fails is named with its exit status", async () => {
    pipeline(`
steps:
  - id: build
    run: echo built
    check:
      - ${project.effect("first")}; echo one is broken; exit 3
      - { run: "${project.effect("second")}" }
      - { run: "${project.effect("third")}; echo three is broken >&2; exit 4" }
`);
    const result = await project.run(["run", "p.yaml"]);

    expect(result.exit).toBe(3);
    expect(project.effects()).toEqual({ first: 1, second: 1, third: 1 });
    expect(result.stdout).toContain("build check 1 │ one is broken");
    expect(result.stdout).toContain("build check 3 │ three is broken");
    const [failed] = await eventsOf("step.failed");
    expect(failed?.reason).toBe("check");
    expect(failed?.message).toMatch(
      /^`echo first .*` exited with 3; `echo third .*` exited with 4$/,
    );
    expect(failed?.check).toMatchObject({ exit: 3, output: "one is broken\n" });
    expect(failed?.checks).toMatchObject([
      { kind: "command", exit: 3, output: "one is broken\n" },
      { kind: "command", exit: 0 },
      { kind: "command", exit: 4, output: "three is broken\n" },
    ]);
  });

  it("run in shells of their own, so that none can end the others or change what they see", async () => {
    pipeline(`
steps:
  - id: build
    run: "true"
    check:
      - X=1; cd /; exit 0
      - test -z "$X" && test -e p.yaml
      - kill -9 $$
      - ${project.effect("last")}
`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    const [failed] = await eventsOf("step.failed");
    expect(failed?.checks).toMatchObject([0, 0, 137, 0].map((exit) => ({ exit })));
    expect(project.effects()).toEqual({ last: 1 });
  });

  it("use the retries of the step until all of them pass", async () => {
    pipeline(`
steps:
  - id: build
    run: ${project.effect("work")}
    retry: { attempts: 3, backoff: 1ms }
    check:
      - test $(grep -c work effects) -ge 2
      - "true"
`);
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ work: 2 });
    const [completed] = await eventsOf("step.completed");
    expect(completed?.checks).toMatchObject([{ exit: 0 }, { exit: 0 }]);
  });
});

describe("on_fail", () => {
  it("warn: completes the step, and reports the warning everywhere", async () => {
    pipeline(`
steps:
  - id: lint
    run: ${project.effect("work")}
    check: { run: "echo too long; exit 7", on_fail: warn }
  - { id: next, run: "${project.effect("next")}" }
`);
    const out = await project.must(["run", "p.yaml"]);

    expect(project.effects()).toEqual({ work: 1, next: 1 });
    expect(out).toContain("lint check │ too long");
    expect(out).toMatch(/✓ lint completed.*; warning: `echo too long; exit 7` exited with 7/);
    const warned = { exit: 7, onFail: "warn", output: "too long\n" };
    expect((await eventsOf("step.completed"))[0]).toMatchObject({ exit: 0, check: warned });
    const id = await project.newestId();
    expect(project.receipt(id, "lint@1.1")).toMatchObject({
      status: "succeeded",
      checks: [{ exit: 7, on_fail: "warn", output: "too long\n" }],
    });
    const words = "`echo too long; exit 7` exited with 7";
    expect(await project.must(["show"])).toContain(`exit 0; warning: ${words}`);
    expect(await project.must(["why"])).toContain(`with a warning from lint (${words})`);
  });

  it("warn: keeps what the step left running on purpose", async () => {
    pipeline(`
steps:
  - id: serve
    run: |
      { while ! test -e stop; do sleep 0.05; done; ${project.effect("served")}; } &
    leaves_running: true
    check: { run: exit 1, on_fail: warn }
  - { id: use, run: "touch stop; until test -e effects; do sleep 0.05; done" }
`);
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ served: 1 });
  });

  it("fail: fails the step at once, without using its retries", async () => {
    pipeline(`
steps:
  - id: build
    run: ${project.effect("work")}
    retry: { attempts: 5, backoff: 1ms }
    check:
      - "true"
      - { run: exit 1, on_fail: fail }
`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    expect(project.effects()).toEqual({ work: 1 });
    const id = await project.newestId();
    expect(project.receipt(id, "build@1.1")).toMatchObject({
      status: "failed",
      reason: "check",
      check: { command: "exit 1", exit: 1, on_fail: "fail", message: "`exit 1` exited with 1" },
    });
  });
});

describe("a JSON Schema", () => {
  const SCHEMA = { type: "object", required: ["done"], properties: { done: { const: true } } };

  it("may be in the pipeline or in a file, and is frozen with the run", async () => {
    project.write("schema.json", JSON.stringify(SCHEMA));
    pipeline(`
steps:
  - id: report
    run: |
      ${project.effect("work")}
      if test $(grep -c work effects) = 1; then echo '{"done": 1}' > r.json; rm schema.json
      else echo '{"done": true}' > r.json; fi
    retry: { attempts: 2, backoff: 1ms }
    check:
      - { file: r.json, schema: { type: object } }
      - { file: r.json, schema: schema.json }
`);
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ work: 2 });
    const [failed] = await eventsOf("step.failed");
    expect(failed?.message).toMatch(/^r\.json does not fit its schema: /);
    expect(failed?.checks).toMatchObject([{ exit: 0 }, { kind: "schema", exit: 1 }]);
  });

  it("is a mistake of the pipeline if it is missing, not JSON or not a schema", async () => {
    project.write("no.json", "{");
    project.write("bad.json", JSON.stringify({ type: "objekt" }));
    pipeline(`
steps:
  - { id: a, run: "true", check: { file: x, schema: gone.json } }
  - { id: b, run: "true", check: [{ file: x, schema: no.json }] }
  - { id: c, run: "true", check: [ls, { file: x, schema: bad.json, on_fail: maybe }] }
  - { id: d, run: "true", check: [{ file: x, schema: bad.json }] }
  - { id: e, run: "true", check: [] }
`);
    const { exit, stderr } = await project.run(["validate", "p.yaml"]);
    expect(exit).toBe(4);
    expect(stderr).toContain("there is no file `gone.json`");
    expect(stderr).toContain("`no.json` is not JSON: ");
    expect(stderr).toContain("`on_fail` cannot be `maybe`");
    expect(stderr).toContain("`bad.json` is not a valid JSON Schema at type: ");
    expect(stderr).toContain("`check` has no checks");
  });
});

describe("a runner that is killed during a check", () => {
  it("leads to no repetition of the work or of the checks that have ended", async () => {
    const hold = project.hold("check");
    pipeline(`
steps:
  - id: build
    run: ${project.effect("work")}
    check:
      - ${project.effect("first")}; exit 1
      - { run: "${project.effect("second")}; ${hold.command}", on_fail: warn }
      - ${project.effect("third")}
    retry: { attempts: 1 }
`);
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    const resumed = project.start(["resume"]);
    await resumed.printed("is still running");
    await hold.release();
    const result = await resumed.ended;

    expect(result.exit, result.stdout + result.stderr).toBe(3);
    expect(project.effects()).toEqual({ work: 1, first: 1, second: 1, third: 1 });
    const [failed] = await eventsOf("step.failed");
    expect(failed?.checks).toMatchObject([1, 0, 0].map((exit) => ({ exit })));
  });
});

describe("a check that is killed with everything around it", () => {
  const step = (hold: Hold): string => `
steps:
  - id: build
    run: ${project.effect("work")}; echo made > made
    outputs: { made: made }
    check:
      - ${project.effect("first")}
      - echo looked; ${hold.command}
  - { id: next, run: "${project.effect("next")}" }
`;

  /** What the check printed and what was found, as if nothing had happened. */
  async function expectChecked(result: Result): Promise<void> {
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(project.effects()).toEqual({ work: 1, first: 2, next: 1 });
    expect(await eventsOf("step.lost")).toEqual([]);
    const id = await project.newestId();
    expect(project.receipt(id, "build@1.1")).toMatchObject({ checks: [{ exit: 0 }, { exit: 0 }] });
    expect(await project.must(["logs", id, "build"])).toBe("check 2 │ looked\n");
  }

  it("runs again with the next owner, without the work", async () => {
    const hold = project.hold("check");
    pipeline(step(hold));
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    const resumed = project.start(["resume"]);
    await hold.release();
    await expectChecked(await resumed.ended);
  });

  it("runs again without the work when its runner lives", async () => {
    const hold = project.hold("check");
    pipeline(step(hold));
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await project.killSteps();
    await hold.release();
    await expectChecked(await runner.ended);
  });

  it("does not fail the step when a process that it needs was killed with it", async () => {
    const hold = project.hold("check");
    pipeline(`
steps:
  - id: build
    run: ${project.effect("work")}; sleep 1000 & echo $! > pid
    check: ${hold.command}; grep -qv ') Z' /proc/$(cat pid)/stat
`);
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    const resumed = project.start(["resume"]);
    await hold.release();
    await eventually("the work is repeated", () => project.effects().work === 2);
    await hold.release();
    const result = await resumed.ended;
    expect(result.exit, result.stdout + result.stderr).toBe(0);
    expect(await eventsOf("step.lost")).toHaveLength(1);
    expect(await eventsOf("step.failed")).toEqual([]);
  });

  it("can be stopped, and killed again", async () => {
    const hold = project.hold("check");
    pipeline(step(hold));
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    const second = project.start(["resume"]);
    await eventually("the check runs again", () => project.effects().first === 2);
    await hold.arrived();
    await second.kill("SIGKILL");
    await project.killSteps();
    const third = project.start(["resume"]);
    await eventually("the check runs again", () => project.effects().first === 3);
    await third.kill("SIGTERM");
    expect((await third.ended).exit).toBe(143);
    expect(project.stepProcesses()).toEqual([]);
    expect(project.effects()).toEqual({ work: 1, first: 3 });
  });

  it("also survives the next runner when it runs without the work", async () => {
    const hold = project.hold("check");
    pipeline(step(hold));
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    const second = project.start(["resume"]);
    await eventually("the check runs again", () => project.effects().first === 2);
    await second.kill("SIGKILL");
    const third = project.start(["resume"]);
    await third.printed("is still running");
    await hold.release();
    await expectChecked(await third.ended);
  });

  it("needs no further answer of an agent", async () => {
    const agents = await FakeClaude.open(stateless(shell("echo work >> effects"), text("Done.")));
    try {
      const hold = agents.hold("check");
      agents.write(
        "p.yaml",
        `steps: [{ id: work, agent: claude, prompt: Do it., check: "${hold.command}" }]\n`,
      );
      const runner = agents.begin(["run", "p.yaml"]);
      await hold.arrived();
      await runner.kill("SIGKILL");
      await agents.killSteps();
      const asked = agents.model.requests().length;
      const resumed = agents.begin(["resume"]);
      await hold.release();
      const result = await resumed.ended;
      expect(result.exit, result.stdout + result.stderr).toBe(0);
      expect(agents.model.requests()).toHaveLength(asked);
      expect(agents.effects()).toEqual({ work: 1 });
      expect(await agents.said()).toEqual(["work: task in 1"]);
    } finally {
      await agents.close();
    }
  });
});

describe("the output of a failed check", () => {
  const CHECK = "echo FAIL parser.test; echo expected 3 got 4; exit 1";

  it("is in the printed lines, in why, in logs, in the receipt and in the report", async () => {
    pipeline(`
steps:
  - { id: test, run: echo worked, check: "${CHECK}" }
`);
    const { stdout } = await project.run(["run", "p.yaml"]);
    expect(stdout).toContain("test check │ FAIL parser.test\ntest check │ expected 3 got 4\n");
    expect(stdout).toContain(`✗ test failed: its check did not pass: \`${CHECK}\` exited with 1\n`);
    const why = await project.must(["why"]);
    expect(why).toContain(`its check did not pass: \`${CHECK}\` exited with 1.`);
    expect(why).toContain(
      `The last lines of the check \`${CHECK}\`:\n  FAIL parser.test\n  expected 3 got 4\n`,
    );
    const id = await project.newestId();
    expect(await project.must(["logs", id, "test"])).toBe(
      "worked\ncheck │ FAIL parser.test\ncheck │ expected 3 got 4\n",
    );
    expect(await project.must(["logs", id])).toContain("test check │ FAIL parser.test\n");
    expect(await project.must(["report", id])).toContain(
      "  FAIL parser.test\n  expected 3 got 4\n",
    );
    const output = "FAIL parser.test\nexpected 3 got 4\n";
    expect(project.receipt(id, "test@1.1")).toMatchObject({
      check: { command: CHECK, exit: 1, output },
      checks: [{ command: CHECK, exit: 1, output }],
    });
    expect(project.read(".perdure", "runs", id, "attempts", "test@1.1", "check.log")).toBe(output);
  });

  it("is shown on a terminal while the check runs and after it has failed", async () => {
    const hold = project.hold("check");
    pipeline(`
steps:
  - { id: test, run: echo worked, check: "echo halfway; ${hold.command}; echo broken; exit 1" }
`);
    const terminal = new Terminal(project, { columns: 120, rows: 24 });
    try {
      terminal.perdure("run p.yaml");
      await hold.arrived();
      await terminal.shows(/▶ test +running +\S+ +check │ halfway/);
      await hold.release();
      await terminal.shows(
        /✗ test failed: its check did not pass: `echo halfway;[\s\S]* exited\s+with 1/,
      );
      await terminal.shows(/^ {2}│ +broken$/m);
      await terminal.shows("status 3");
    } finally {
      terminal.close();
    }
  });
});
