/** Arguments reach the run as they were typed, or are refused: none is ignored or changed. */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

describe("-i key=value", () => {
  it("is the text as it was typed", async () => {
    const texts = [
      "1.20",
      "007",
      "12345678901234567890",
      "97",
      "true",
      "null",
      "-0",
      '"quoted',
      "[1",
    ];
    const names = texts.map((_, at) => `v${at}`);
    const step = (name: string): string =>
      `  - id: ${name}\n    run: printf '%s' "\${{ input.${name} }}" > ${name}\n`;
    const steps = `steps:\n${names.map(step).join("")}`;
    const strings = names.map((name) => `${name}: { type: string }`).join(", ");
    const input = `input: { type: object, properties: { ${strings} } }\n`;
    const words = texts.flatMap((text, at) => ["-i", `v${at}=${text}`]);
    for (const pipeline of [steps, input + steps]) {
      project.write("p.yaml", pipeline);
      await project.must(["run", "p.yaml", ...words]);
      expect(names.map((name) => project.read(name))).toEqual(texts);
      for (const name of names) rmSync(project.path(name));
    }
  });

  it("has the type that the schema declares", async () => {
    const cases = [
      ["integer", "42", "input.integer + 1 == 43"],
      ["number", "1.5e3", "input.number == 1500.0"],
      ["boolean", "true", "input.boolean"],
      ["array", "[1, 2]", "size(input.array) == 2"],
      ["object", '{"k": "x"}', 'input.object.k == "x"'],
    ] as const;
    const types = cases.map(([type]) => `${type}: { type: ${type} }`).join(", ");
    const steps = cases.map(
      ([type, , held]) => `  - id: ${type}\n    when: ${held}\n    run: ${project.effect(type)}\n`,
    );
    project.write(
      "p.yaml",
      `input: { type: object, properties: { ${types} } }\nsteps:\n${steps.join("")}`,
    );
    const words = cases.flatMap(([type, text]) => ["-i", `${type}=${text}`]);
    await project.must(["run", "p.yaml", ...words]);
    expect(project.effects()).toEqual(Object.fromEntries(cases.map(([type]) => [type, 1])));
  });

  it("is refused when a number would lose digits", async () => {
    project.write(
      "p.yaml",
      `input: { type: object, properties: { v: { type: integer } } }
steps:
  - { id: a, run: touch v }
`,
    );
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

  it("refuses options that would be ignored", async () => {
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
