/**
 * Outputs and answers of steps as values: `results.<step>.output`, `results.<step>.answer` and
 * `capture`, with real processes. After a kill or without the run's folder they come from the
 * journal.
 */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

interface Stored {
  readonly type: string;
  readonly step?: string;
  readonly output?: string;
  readonly answer?: unknown;
  readonly context?: Record<string, unknown>;
  readonly message?: string;
}

async function events(type: string): Promise<readonly Stored[]> {
  const [id = ""] = await project.runIds();
  return project
    .read(".perdure", "runs", id, "events.jsonl")
    .trimEnd()
    .split("\n")
    .map((line): Stored => {
      const { type: name, data } = JSON.parse(line) as { type: string; data: Stored };
      return { ...data, type: name };
    })
    .filter((event) => event.type === type);
}

describe("results.<step>.output", () => {
  it("is the last output of a step, whether it succeeded or failed", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: good, run: 'echo one; echo two >&2' }
  - { id: bad, run: 'echo why >&2; exit 4', on_failure: continue }
  - id: tell
    run: printf '<%s|%s|%s>' \${{ results.good.output }} \${{ results.bad.output }} \${{ results.bad.exit }}
`,
    );
    expect(await project.must(["run", "p.yaml"])).toContain("tell │ <one\n");
    const reported = await project.must(["logs", (await project.runIds())[0] ?? "", "tell"]);
    expect(reported).toContain("<one\ntwo\n|why\n|4>");
  });

  it("includes the output of a failed check, and stderr last where it is kept apart", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: work
    run: 'echo oops >&2; echo done'
    capture: text
    check: echo 2 tests failed; exit 1
    on_failure: continue
  - { id: tell, run: 'printf %s \${{ results.work.output }} > told' }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(project.read("told")).toBe("done\noops\n2 tests failed\n");
  });

  it("can be used in conditions of the step's own edges, and after a timeout", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: test
    run: echo flaky network; exit 1
    on_failure: sort
  - id: sort
    needs: []
    pass: true
    edges:
      - { to: again, when: 'results.test.output.contains("flaky")' }
      - { to: stop }
  - { id: again, run: ${project.effect("again")} }
  - { id: stop, needs: [], run: ${project.effect("stop")} }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ again: 1 });
    project.write(
      "late.yaml",
      `steps:
  - { id: slow, run: 'echo begun; sleep 60', timeout: 1s, on_failure: continue }
  - { id: tell, run: 'echo "slow said \${{ results.slow.output }}"' }
`,
    );
    expect(await project.must(["run", "late.yaml"])).toContain("tell │ slow said begun\n");
  });

  it("has at most 4 KB, in whole characters", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: long, run: 'i=0; while [ $i -lt 4000 ]; do printf "€"; i=$((i+1)); done; printf end' }
  - { id: tell, run: 'printf %s \${{ results.long.output }} > told' }
`,
    );
    await project.must(["run", "p.yaml"]);
    const reported = project.read("told");
    expect(reported).toMatch(/^€+end$/);
    expect(Buffer.byteLength(reported)).toBeGreaterThan(4_000);
    expect(Buffer.byteLength(reported)).toBeLessThanOrEqual(4_096);
  });

  it("is stored in the journal only if the pipeline refers to it", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: a, run: echo alpha }
  - { id: b, run: echo beta }
  - { id: c, run: 'echo \${{ results.a.output }}' }
`,
    );
    await project.must(["run", "p.yaml"]);
    const completed = await events("step.completed");
    expect(completed.map(({ step, output }) => [step, output])).toEqual([
      ["a", "alpha\n"],
      ["b", undefined],
      ["c", undefined],
    ]);
  });

  it("survives a kill of the runner, and needs no file once it is recorded", async () => {
    const [first, second] = [project.hold("first"), project.hold("second")];
    project.write(
      "p.yaml",
      `steps:
  - id: a
    run: |
      echo before
      ${first.command}
      echo after
  - id: b
    run: ${second.command}
  - { id: c, run: 'echo "a said \${{ results.a.output }}"' }
`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await first.arrived();
    await runner.kill("SIGKILL");
    await first.release();
    const [id = ""] = await project.runIds();
    const next = project.start(["resume", id]);
    await second.arrived();
    await next.kill("SIGKILL");
    rmSync(project.path(".perdure", "runs", id, "attempts", "a@1.1"), { recursive: true });
    const last = project.start(["resume", id]);
    await second.release();
    const { exit, stdout } = await last.ended;
    expect(exit, stdout).toBe(0);
    expect(stdout).toContain("c │ a said before\nc │ after\n");
  });

  it("exists for each item of a fan-out, and in a loop", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: each, for_each: '["x", "y"]', run: 'echo "item $PERDURE_ITEM"' }
  - id: tell
    run: printf %s \${{ results.each.items.map(i, i.output) }} > told
  - id: rounds
    loop: { until: 'results.count.output == "2\\n"', max_iterations: 5 }
    steps:
      - { id: count, run: 'echo x >> rounds; wc -l < rounds | tr -d " "' }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(JSON.parse(project.read("told"))).toEqual(["item x\n", "item y\n"]);
    expect(project.read("rounds")).toBe("x\nx\n");
  });
});

describe("results.<step>.answer", () => {
  it("is the stdout of an agent that is only a command", async () => {
    project.write(
      "p.yaml",
      `agents: { echo: 'echo thinking >&2; printf "You said: "; cat' }
steps:
  - { id: ask, agent: echo, prompt: Hello. }
  - { id: tell, run: 'printf "<%s>" \${{ results.ask.answer }} > told' }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(project.read("told")).toBe("<You said: Hello.>");
  });

  it("exists when a person has rejected a gate", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: approve, gate: Ship it?, on_failure: cancelled }
  - { id: ship, run: ${project.effect("ship")} }
  - id: cancelled
    needs: []
    run: printf '%s by %s' \${{ results.approve.answer.text }} \${{ results.approve.answer.by }} > told
`,
    );
    expect((await project.run(["run", "p.yaml"])).exit).toBe(6);
    const [id = ""] = await project.runIds();
    await project.must(["answer", id, "approve", "reject", "--text", "not on Friday"]);
    await project.must(["resume", id]);
    expect(project.read("told")).toMatch(/^not on Friday by \S+@\S+$/);
    expect(project.effects()).toEqual({});
  });
});

describe("capture", () => {
  it("puts the stdout of a step into the context", async () => {
    project.write(
      "p.yaml",
      `agents: { poet: 'echo "{\\"lines\\": 3}"' }
steps:
  - { id: version, run: 'echo 1.20; echo noise >&2', capture: text }
  - { id: files, run: 'printf "a b\\nc\\n"', capture: lines }
  - { id: none, run: 'true', capture: lines }
  - { id: count, run: 'echo " 42 "', capture: { as: number, to: total } }
  - { id: poem, agent: poet, prompt: Write., capture: json }
`,
    );
    await project.must(["run", "p.yaml"]);
    const completed = await events("step.completed");
    expect(Object.assign({}, ...completed.map(({ context }) => context))).toEqual({
      version: "1.20",
      files: ["a b", "c"],
      none: [],
      total: 42,
      poem: { lines: 3 },
    });
  });

  it.each([
    ["json", "echo '{oops'", "what it printed cannot be captured as json: it is not JSON:"],
    ["number", "echo 3 of 4", 'what it printed cannot be captured as number: "3 of 4" is not a'],
    ["number", "echo 9007199254740993", '"9007199254740993" is too large a number'],
    [
      "text",
      "head -c 300000 /dev/zero | tr '\\0' x",
      "it has more than 262144 bytes; write a file",
    ],
  ])("fails the step when it cannot be taken as %s: %s", async (as, run, message) => {
    project.write("p.yaml", `steps:\n  - id: a\n    capture: ${as}\n    run: |\n      ${run}\n`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    const [failed] = await events("step.failed");
    expect(failed).toMatchObject({ reason: "context" });
    expect(failed?.message).toContain(message);
  });

  it("is refused where it would have no meaning", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: a, gate: Go?, capture: text }
  - { id: b, run: ls, capture: csv }
  - { id: c, run: ls, for_each: '[1]', capture: text }
`,
    );
    const { exit, stdout, stderr } = await project.run(["validate", "p.yaml"]);
    expect(exit).toBe(4);
    const said = stdout + stderr;
    expect(said).toContain("`capture` has no effect on a gate");
    expect(said).toContain("possible values: text, lines, json, number");
    expect(said).toContain("the items of a fan-out would overwrite each other's `capture`");
  });
});
