/** Inputs that exceed a limit are refused at once, with a message that names the place. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { cleanEnvironment, PlainProject, PROGRAM, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

it("reports where a pipeline stops being UTF-8", async () => {
  const text = (end: string): Buffer =>
    Buffer.from(
      `steps:\n  - id: a\n    run: echo "\u00c3\u00a9 \u00ef\u00bf\u00bd ${end}"\n`,
      "latin1",
    );
  fs.writeFileSync(project.path("bad.yaml"), text("\u00ff"));
  const bad = await project.run(["run", "bad.yaml"]);
  expect(bad.exit).toBe(4);
  expect(bad.stderr).toContain("error[bad-encoding]: the file is not valid UTF-8 here");
  expect(bad.stderr).toContain("bad.yaml:3:20");
  fs.writeFileSync(project.path("good.yaml"), text("\u00c3\u00a9"));
  expect((await project.run(["run", "good.yaml"])).exit).toBe(0);

  fs.writeFileSync(project.path("prompt.md"), text("\u00ff"));
  project.write("p.yaml", "steps:\n  - { id: a, agent: claude, prompt_file: prompt.md }\n");
  const named = await project.run(["validate", "p.yaml"]);
  expect(named.exit).toBe(4);
  expect(named.stderr).toContain("prompt.md:3:20: the file is not valid UTF-8 here");
});

it("refuses 200,000 steps before it parses them", async () => {
  const step = (at: number): string => `  - { id: s${at}, run: echo ${at}, env: { A: b } }\n`;
  const steps = Array.from({ length: 200_000 }, (_, at) => step(at));
  project.write("p.yaml", `steps:\n${steps.join("")}`);
  const { exit, stderr } = await project.run(["validate", "p.yaml"]);
  expect(exit).toBe(4);
  expect(stderr).toContain("the file has more than 100000 steps");
  expect(stderr).toContain("p.yaml:100002:1");
});

// A copy of process.env takes seconds with so many, and a run made dozens.
it("reads an environment of 30,000 variables once", { timeout: 60_000 }, async () => {
  project.write("p.yaml", `steps:\n  - { id: a, run: test "$V29999" = 29999 }\n`);
  const names = Array.from({ length: 30_000 }, (_, at) => [`V${at}`, `${at}`]);
  await project.must(["run", "p.yaml"], { env: Object.fromEntries(names) });
});

it("refuses a path that is too long for a journal, and leaves nothing to resume", async () => {
  project.write("p.yaml", "steps: [{ id: a, run: 'true' }]\n");
  const start = `"${process.execPath}" "${PROGRAM}" run '${project.path("p.yaml")}'`;
  for (const [depth, words] of [
    [3, "the path of this project is too long"],
    [22, "has a path that is too long for this system"],
  ] as const) {
    const name = "d".repeat(200);
    const go = `for i in $(seq ${depth}); do mkdir -p ${name}; cd -P ${name} || exit; done; ${start}`;
    const options = { cwd: project.dir, env: cleanEnvironment(), encoding: "utf8" } as const;
    const { status, stderr } = spawnSync("bash", ["-c", go], options);
    expect(stderr).toContain(words);
    expect(stderr).not.toContain("perdure resume");
    expect(status).toBe(1);
  }
});
