/** Loops, fan-outs and nested pipelines, killed and resumed, with counted effects. */
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Hold, PlainProject, type Program, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** Kills the runner and the step that waits at a hold, as a power cut would. */
async function cutPower(runner: Program, hold: Hold): Promise<void> {
  await hold.arrived();
  await runner.kill("SIGKILL");
  await project.killSteps();
}

/** What `show --json` says of each step, by its path. */
async function states(): Promise<Record<string, string>> {
  const shown = JSON.parse(await project.must(["show", "--json"])) as {
    steps: { step: string; status: string }[];
  };
  return Object.fromEntries(shown.steps.map(({ step, status }) => [step, status]));
}

describe("a fan-out", () => {
  it("that is killed at item 3 of 5 repeats only the unfinished items", async () => {
    const hold = project.hold("third");
    project.write(
      "p.yaml",
      `steps:
  - id: each
    for_each: {in: [a, b, c, d, e], max_parallel: 1}
    run: |
      ${project.effect('"$PERDURE_INDEX-$PERDURE_ITEM"')}
      if [ "$PERDURE_ITEM" = c ]; then ${hold.command}; fi
      echo "$PERDURE_ITEM" > "$PERDURE_OUTPUT_LETTER"
    outputs: {letter: "out/\${{ item }}"}
  - id: reduce
    run: cat \${{ results.each.items[0].outputs.letter }} \${{ results.each.items[4].outputs.letter }} > all
`,
    );
    await cutPower(project.start(["run", "p.yaml"]), hold);
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ "0-a": 1, "1-b": 1, "2-c": 2, "3-d": 1, "4-e": 1 });
    expect(project.read("all")).toBe("a\ne\n");
  });

  it("retries only its failed items, and itself if its file of items was missing", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: each
    for_each: "['a', 'b', 'c']"
    as: letter
    on_item_failure: continue
    steps:
      - {id: first, run: "${project.effect("first-${{ letter }}")}"}
      - id: second
        run: |
          ${project.effect("second-${{ letter }}")}
          test \${{ letter }} != b || test -e mended
  - id: strict
    for_each: [x, y]
    run: |
      ${project.effect("strict-$PERDURE_ITEM")}
      test "$PERDURE_ITEM" != y || test -e mended
  - {id: missing, needs: [], for_each: {in: {file: no.json}}, run: "${project.effect("missing")}"}
`,
    );
    const failed = await project.run(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain("1 of 2 items failed");
    expect(failed.stdout).toContain("there is no file no.json of items");
    project.write("mended", "");
    project.write("no.json", "[1]");
    await project.must(["resume", await project.newestId()]);
    expect(project.effects()).toEqual({
      ...{ "first-a": 1, "first-b": 1, "first-c": 1 },
      ...{ "second-a": 1, "second-b": 1, "second-c": 1 },
      ...{ "strict-x": 1, "strict-y": 2, missing: 1 },
    });
  });

  it("keeps the items that its files had when it started", async () => {
    const hold = project.hold("glob");
    mkdirSync(project.path("src"));
    project.write("src/b.ts", "");
    project.write("src/a.ts", "");
    project.write("list.json", '[{"name": "one"}, {"name": "two"}]');
    project.write(
      "p.yaml",
      `steps:
  - id: files
    for_each: {in: {glob: "src/**/*.ts"}, max_parallel: 1}
    run: |
      ${project.effect("$PERDURE_ITEM")}
      if [ "$PERDURE_INDEX" = 0 ]; then ${hold.command}; fi
  - id: list
    for_each: {in: {file: list.json}, max_parallel: 1}
    run: ${project.effect("${{ item.name }}")}
`,
    );
    await cutPower(project.start(["run", "p.yaml"]), hold);
    project.write("src/aa.ts", "");
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ "src/a.ts": 2, "src/b.ts": 1, one: 1, two: 1 });
  });
});

describe("a loop", () => {
  it("that is killed in its second iteration continues there", async () => {
    const hold = project.hold("second");
    project.write(
      "p.yaml",
      `steps:
  - id: again
    loop: {until: 'context.n == "3"', max_iterations: 5}
    steps:
      - id: count
        run: |
          ${project.effect("count-${{ loop.index }}")}
          echo "n=$((PERDURE_INDEX + 1))" >> "$PERDURE_CONTEXT"
      - id: wait
        run: |
          ${project.effect("wait-${{ index }}")}
          if [ "$PERDURE_INDEX" = 1 ]; then ${hold.command}; fi
  - {id: end, run: "${project.effect("end-${{ results.again.iterations }}")}"}
`,
    );
    await cutPower(project.start(["run", "p.yaml"]), hold);
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({
      ...{ "count-0": 1, "count-1": 1, "count-2": 1 },
      ...{ "wait-0": 1, "wait-1": 2, "wait-2": 1, "end-3": 1 },
    });
  });

  it("of back edges survives a kill, with its count of visits", async () => {
    const hold = project.hold("fix");
    project.write(
      "p.yaml",
      `steps:
  - {id: build, run: "${project.effect("build")}"}
  - id: test
    run: |
      ${project.effect("test-$PERDURE_VISIT")}
      test "$PERDURE_VISIT" -ge 3
    on_failure: fix
    max_visits: 3
  - {id: publish, run: "${project.effect("publish")}"}
  - id: fix
    needs: []
    run: |
      ${project.effect("fix-$PERDURE_VISIT")}
      if [ "$PERDURE_VISIT" = 2 ]; then ${hold.command}; fi
    goto: test
`,
    );
    await cutPower(project.start(["run", "p.yaml"]), hold);
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({
      ...{ build: 1, "test-1": 1, "test-2": 1, "test-3": 1 },
      ...{ "fix-1": 1, "fix-2": 2, publish: 1 },
    });
  });

  it("that makes no progress is stopped, and says so", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: test
    run: |
      ${project.effect("test")}
      echo "error 0x$$ in $PWD/a.c:$PERDURE_VISIT"
      exit 1
    edges: [{to: end}]
    on_failure: fix
  - {id: fix, needs: [], run: "${project.effect("fix")}", goto: test}
  - {id: end, needs: [], run: "true"}
`,
    );
    const failed = await project.run(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(project.effects()).toEqual({ test: 3, fix: 2 });
    const why = await project.must(["why"]);
    expect(why).toContain("it makes no progress: the same failure came 3 times in a row");
  });
});

describe("pipelines in pipelines", () => {
  it("are frozen, shown as one tree, and continue where they stopped", async () => {
    const hold = project.hold("inner");
    project.write(
      "inner.yaml",
      `input: {type: object, required: [who], properties: {who: {type: string}}}
env: {FROM: inner}
steps:
  - {id: one, run: "${project.effect("one-${{ input.who }}-$FROM")}"}
  - id: two
    run: |
      ${project.effect("two-${{ input.who }}")}
      if [ \${{ input.who }} = b ]; then ${hold.command}; fi
      echo \${{ input.who }} > "$PERDURE_OUTPUT_NAME"
    outputs: {name: "out-\${{ input.who }}"}
`,
    );
    project.write(
      "p.yaml",
      `max_parallel: 1
steps:
  - {id: alone, pipeline: inner.yaml, input: {who: "\${{ input.first }}"}}
  - {id: each, for_each: [b, c], pipeline: inner.yaml, input: {who: "\${{ item }}"}}
  - id: group
    steps:
      - {id: read, run: "cp \${{ outputs.alone.two.name }} copied"}
`,
    );
    await cutPower(project.start(["run", "p.yaml", "-i", "first=a"]), hold);
    project.write("inner.yaml", "steps: [{id: other, run: 'false'}]");
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({
      ...{ "one-a-inner": 1, "two-a": 1, "one-b-inner": 1, "two-b": 2 },
      ...{ "one-c-inner": 1, "two-c": 1 },
    });
    expect(project.read("copied")).toBe("a\n");
    const shown = await project.must(["show"]);
    expect(shown).toMatch(/✓ alone +completed/);
    expect(shown).toMatch(/\n {2}✓ one +completed/);
    expect(shown).toMatch(/\n {2}✓ \[1 c\] each +completed/);
    expect(shown).toMatch(/\n {4}✓ two +completed/);
  });
});

describe("a goal", () => {
  it("repeats the steps before it until it is reached, also after a kill", async () => {
    const hold = project.hold("work");
    project.write(
      "p.yaml",
      `steps:
  - id: work
    run: |
      ${project.effect("work-$PERDURE_VISIT")}
      if [ "$PERDURE_VISIT" = 2 ]; then ${hold.command}; fi
      test "$PERDURE_VISIT" = 1 || echo ready=yes >> "$PERDURE_CONTEXT"
  - {id: prove, when: 'has(context.ready)', run: "${project.effect("prove")}", goal: true, retry_target: work}
  - {id: after, run: "${project.effect("after")}"}
`,
    );
    await cutPower(project.start(["run", "p.yaml"]), hold);
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ "work-1": 1, "work-2": 2, prove: 1, after: 2 });
  });

  it("that cannot be reached fails the run, and suggests a command that works", async () => {
    project.write(
      "p.yaml",
      `steps:
  - {id: work, run: "test ! -e mended || echo ready=yes >> \\"$PERDURE_CONTEXT\\"", max_visits: 2}
  - {id: prove, when: 'has(context.ready)', run: "true", goal: true, retry_target: work}
`,
    );
    const failed = await project.run(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain("the goal prove was missed: it is skipped");
    const [, id = ""] = /perdure resume (\S+) --from-step work/.exec(failed.stdout) ?? [];
    project.write("mended", "");
    await project.must(["resume", id, "--from-step", "work"]);
    expect(await states()).toEqual({ work: "completed", prove: "completed" });
  });
});

describe("a failure", () => {
  it("fails the run even when another branch finishes, and leaves the steps that need it pending", async () => {
    project.write(
      "p.yaml",
      `steps:
  - {id: bad, run: "false"}
  - {id: behind, run: "${project.effect("behind")}"}
  - {id: other, needs: [], run: "${project.effect("other")}"}
  - {id: last, run: "${project.effect("last")}"}
`,
    );
    const failed = await project.run(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(project.effects()).toEqual({ other: 1, last: 1 });
    expect(await states()).toMatchObject({ bad: "failed", behind: "pending", last: "completed" });
  });

  it("that is tolerated or handled by a step is shown, and does not fail the run", async () => {
    project.write(
      "p.yaml",
      `steps:
  - {id: lint, run: exit 4, on_failure: continue}
  - {id: build, run: "${project.effect("build-${{ results.lint.status }}-${{ results.lint.exit }}")}"}
  - {id: deploy, run: "false", on_failure: rollback}
  - {id: announce, run: "${project.effect("announce")}"}
  - {id: party, run: "${project.effect("party")}"}
  - {id: rollback, needs: [], run: "${project.effect("rollback")}"}
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ "build-failed-4": 1, rollback: 1 });
    expect(await states()).toEqual({
      ...{ lint: "failed", build: "completed", deploy: "failed" },
      // The path not taken.
      ...{ announce: "skipped", party: "skipped", rollback: "completed" },
    });
  });
});
