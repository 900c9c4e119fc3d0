/** `perdure convert`, as a person uses it: what is written, what is refused, and what is said about it. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

const DOT = `digraph release {
  graph [goal="Ship it", default_max_retries=2]
  start [shape=Mdiamond]
  plan [prompt="Plan: $goal.
Write it down.
Then stop."]
  test [shape=parallelogram, tool_command="npm test", timeout=10m]
  check [shape=diamond]
  ask [shape=hexagon, label="Release?"]
  done [shape=Msquare]
  start -> plan -> test -> check
  check -> ask [condition="outcome=success"]
  check -> plan [condition="outcome!=success && context.tries<3", label="again"]
  ask -> done [label="[Y] Yes"]
  ask -> plan [label="[N] No"]
}
`;

const YAML = `name: release
language: attractor
context:
  graph.goal: Ship it
  graph.default_max_retries: "2"
defaults:
  env:
    goal: Ship it
  retry: 3
steps:
  - id: start
    pass: true

  - id: plan
    agent: claude
    prompt: |-
      Plan: Ship it.
      Write it down.
      Then stop.

  - id: test
    run: npm test
    timeout: 10m
    edges:
      - {to: check, on: any}

  - id: check
    pass: true
    edges:
      - {to: plan, label: again, condition: outcome!=success && context.tries < 3}
      - {to: ask, condition: outcome=success}

  - id: ask
    gate: Release?
    edges:
      - {to: done, label: "[Y] Yes"}
      - {to: plan, label: "[N] No"}

  - id: done
    pass: true
`;

describe("convert", () => {
  it("writes DOT as YAML as a person would, and back to the same plan", async () => {
    project.write("flow.dot", DOT);
    expect(await project.must(["convert", "flow.dot", "-o", "flow.yaml"])).toBe(
      "Wrote flow.yaml\nRead again, it is the same plan as that of flow.dot.\n",
    );
    expect(project.read("flow.yaml")).toBe(YAML);
    await project.must(["convert", "flow.yaml", "-o", "again.dot"]);
    await project.must(["convert", "again.dot", "-o", "again.yaml"]);
    expect(project.read("again.yaml")).toBe(YAML);
    expect(await project.must(["convert", "again.dot"])).toBe(YAML);
  });

  it("does not write over a file without being told to", async () => {
    project.write("flow.dot", DOT);
    project.write("flow.yaml", "mine");
    const refused = await project.run(["convert", "flow.dot", "-o", "flow.yaml"]);
    expect(refused).toMatchObject({ exit: 2, stdout: "" });
    expect(refused.stderr).toContain("perdure convert flow.dot -o flow.yaml --force");
    expect(project.read("flow.yaml")).toBe("mine");
    await project.must(["convert", "flow.dot", "-o", "flow.yaml", "--force"]);
    expect(project.read("flow.yaml")).toBe(YAML);
  });

  it("names what DOT cannot say, and writes the rest only if asked", async () => {
    const steps = [
      "  - id: start",
      "    pass: true",
      "  - id: make",
      "    run: make",
      "    check: test -s out",
      "  - id: all",
      "    for_each: [1, 2]",
      "    run: make",
      "  - id: exit",
      "    pass: true",
    ];
    const file = ["name: x", "language: attractor", "steps:", ...steps, ""].join("\n");
    project.write("flow.yaml", file);
    const refused = await project.run(["convert", "flow.yaml", "-o", "flow.dot"]);
    expect(refused).toMatchObject({ exit: 4, stdout: "" });
    expect(refused.stderr).toContain("error[not-in-dot]: step `make`: `check` is lost");
    expect(refused.stderr).toContain("flow.yaml:6:9");
    expect(refused.stderr).toContain("step `all`: what it does (a fan-out over items) is lost");
    expect(refused.stderr).toContain("perdure convert flow.yaml -o flow.dot --lossy");
    expect(project.exists("flow.dot")).toBe(false);
    const written = await project.run(["convert", "flow.yaml", "-o", "flow.dot", "--lossy"]);
    expect(written).toMatchObject({ exit: 0, stdout: "Wrote flow.dot\n" });
    expect(written.stderr).toContain("warning[not-in-dot]: step `make`: `check` is lost");
    await project.must(["validate", "flow.dot"]);
  });

  it("says what a list of steps becomes as a walk", async () => {
    project.write("list.yaml", "steps:\n  - {id: a, run: ls}\n  - {id: b, run: ls}\n");
    const { exit, stderr } = await project.run(["convert", "list.yaml"]);
    expect(exit).toBe(4);
    expect(stderr).toContain("its steps are a list; in DOT they are a walk");
    expect(stderr).toContain("1 thing of list.yaml cannot be said in DOT; nothing was written");
    expect((await project.run(["convert", "list.yaml", "--lossy"])).stdout).toBe(
      [
        "digraph list {",
        "  start [shape=Mdiamond]",
        "  a [shape=parallelogram, tool_command=ls]",
        "  b [shape=parallelogram, tool_command=ls]",
        "  exit [shape=Msquare]",
        "",
        "  start -> a",
        "  a -> b",
        "  b -> exit",
        "}",
        "",
      ].join("\n"),
    );
  });

  it("writes a pipeline in TypeScript as YAML", async () => {
    const steps = `[{ id: "a", run: "ls", retry: 2 }, { id: "b", run: "ls", needs: [] }]`;
    project.write("flow.ts", `export default { name: "x", steps: ${steps} };\n`);
    await project.must(["convert", "flow.ts", "-o", "flow.yaml"]);
    expect(project.read("flow.yaml")).toBe(
      [
        ...["name: x", "steps:", "  - id: a", "    run: ls", "    retry: 2", ""],
        ...["  - id: b", "    run: ls", "    needs: []", ""],
      ].join("\n"),
    );
  });

  it("needs a name that says the language", async () => {
    project.write("flow.dot", DOT);
    const { exit, stderr } = await project.run(["convert", "flow.dot", "-o", "flow.txt"]);
    expect(exit).toBe(2);
    expect(stderr).toContain("-o flow.txt: its name says neither YAML nor DOT");
  });
});
