/**
 * What people type reaches the run as they typed it, or is refused: nothing is ignored or changed.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

describe("-i key=value", () => {
  function pipeline(input = ""): void {
    project.write(
      "p.yaml",
      `${input}steps:\n  - id: a\n    run: printf '%s' "\${{ input.v }}" > v\n`,
    );
  }

  it.each(["1.20", "007", "12345678901234567890", "97", "true", "null", "-0", '"quoted', "[1"])(
    "is the text that was typed: %s",
    async (text) => {
      pipeline();
      await project.must(["run", "p.yaml", "-i", `v=${text}`]);
      expect(project.read("v")).toBe(text);
      pipeline("input: { type: object, properties: { v: { type: string } } }\n");
      await project.must(["run", "p.yaml", "-i", `v=${text}`]);
      expect(project.read("v")).toBe(text);
    },
  );

  it.each([
    ["integer", "42", "input.v + 1 == 43"],
    ["number", "1.5e3", "input.v == 1500.0"],
    ["boolean", "true", "input.v"],
    ["array", "[1, 2]", "size(input.v) == 2"],
    ["object", '{"k": "x"}', 'input.v.k == "x"'],
  ])("is what the schema says it is: %s", async (type, text, held) => {
    project.write(
      "p.yaml",
      `input: { type: object, properties: { v: { type: ${type} } } }
steps:
  - id: a
    when: ${held}
    run: ${project.effect("a")}
`,
    );
    await project.must(["run", "p.yaml", "-i", `v=${text}`]);
    expect(project.effects()).toEqual({ a: 1 });
  });

  it("is refused when a number would lose digits", async () => {
    pipeline("input: { type: object, properties: { v: { type: integer } } }\n");
    for (const input of ["v=12345678901234567890", '{"v": 12345678901234567890}']) {
      const { exit, stderr } = await project.run(["run", "p.yaml", "-i", input]);
      expect(exit).toBe(2);
      expect(stderr).toContain("12345678901234567890 is too long for a number");
    }
    expect((await project.run(["run", "p.yaml", "-i", "v=many"])).stderr).toContain(
      "v must be of type integer, not string",
    );
    expect(project.exists("v")).toBe(false);
  });
});

describe("a run that continues", () => {
  async function failed(): Promise<string> {
    project.write(
      "p.yaml",
      `name: mine\nsteps:\n  - id: a\n    run: ${project.effect("a")}\n  - id: b\n    run: ${project.effect("b")}; test -e go\n`,
    );
    project.write("other.yaml", `steps:\n  - id: a\n    run: ${project.effect("other")}\n`);
    await project.run(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    return id.slice(0, 8);
  }

  it("is refused where something that was typed would be ignored", async () => {
    const id = await failed();
    const cases: readonly (readonly [args: readonly string[], next: string])[] = [
      [["run", "p.yaml", "--run", id], `perdure resume ${id}`],
      [["run", "other.yaml", "--resume", id], `perdure resume ${id}`],
      [
        ["run", "other.yaml", "--from-step", "b", "--run", id],
        `perdure resume ${id} --from-step b`,
      ],
      [["run", "p.yaml", "--resume", id, "-i", "x=2"], `perdure fork ${id} --input ...`],
      [["run", "p.yaml", "--resume", id, "--run", id], `perdure resume ${id}`],
      [["resume", "--pipeline-id", id, id], `perdure resume ${id}`],
    ];
    for (const [args, next] of cases) {
      const { exit, stdout, stderr } = await project.run(args);
      expect(exit, args.join(" ") + stdout).toBe(2);
      expect(stderr, args.join(" ")).toContain(next);
    }
    expect(await project.runIds()).toHaveLength(1);
    expect(project.effects()).toEqual({ a: 1, b: 1 });
  });

  it("may be named together with its pipeline", async () => {
    const id = await failed();
    project.write("go", "");
    await project.must(["run", "p.yaml", "--from-step", "b", "--run", id]);
    await project.must(["run", "mine", "--from-step", "b", "--run", id]);
    expect(project.effects()).toEqual({ a: 1, b: 3 });
  });
});
