/**
 * Pipelines in TypeScript on the command line: when they are read, and how their mistakes are
 * reported.
 */
import { mkdirSync, rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A pipeline that counts how often it is read. */
function write(hold: string, last: string): void {
  project.write("steps.ts", `export const last: string = ${JSON.stringify(last)};\n`);
  project.write(
    "p.ts",
    `import { appendFileSync } from "node:fs";
import { definePipeline } from "perdure";
import { last } from "./steps.ts";
appendFileSync(${JSON.stringify(project.path("effects"))}, "read\\n");
export default definePipeline({
  steps: [
    { id: "a", run: ${JSON.stringify(project.effect("a"))} },
    { id: "b", run: ${JSON.stringify(`${hold}; ${project.effect("b")}`)} },
    { id: "c", run: last },
  ],
});
`,
  );
}

it("are read by run and by an update, but never by resume", async () => {
  const hold = project.hold("b");
  write(hold.command, "exit 3");
  const cli = project.start(["run", "p.ts"]);
  await hold.arrived();
  await cli.kill();
  const text = project.read("p.ts");
  rmSync(project.path("p.ts"));
  const resumed = project.start(["resume"]);
  await hold.release();
  expect(await resumed.ended).toMatchObject({ exit: 3 });
  expect(project.effects()).toEqual({ read: 1, a: 1, b: 1 });

  // An edit of a file that it imports is no edit of its own text, and is adopted nevertheless.
  project.write("p.ts", text);
  project.write(
    "steps.ts",
    `export const last: string = ${JSON.stringify(project.effect("c"))};\n`,
  );
  expect(
    await project.run(["resume", await project.newestId(), "--update", "--yes"]),
  ).toMatchObject({ exit: 0 });
  expect(project.effects()).toEqual({ read: 2, a: 1, b: 1, c: 1 });
  const [id = ""] = await project.runIds();
  expect(await project.must(["explain", id, "c"])).toContain("c");
  expect(await project.must(["graph", "p.ts"])).toContain("flowchart");
  expect(project.effects()).toMatchObject({ read: 3 });
});

it("may have other extensions, and may import other modules", async () => {
  mkdirSync(project.path("deep"));
  project.write("p.yaml", "steps: [{ id: a, pipeline: deep/c.ts }]");
  const steps = '[{ id: "x", pipeline: "d.mjs" }, { id: "y", prompt_file: "p.md", agent: "cat" }]';
  project.write("deep/c.ts", `export default { agents: { cat: "cat" }, steps: ${steps} };\n`);
  project.write(
    "deep/d.mjs",
    `export default { steps: [{ id: "z", run: "echo deep > found" }] };\n`,
  );
  project.write("deep/p.md", "Hello.");
  await project.must(["run", "p.yaml"]);
  expect(project.read("found")).toBe("deep\n");
  project.write("deep/d.mjs", 'export default { steps: [{ id: "z", pipeline: "c.ts" }] };\n');
  const { stderr, exit } = await project.run(["validate", "p.yaml"]);
  expect(stderr).toContain("these files include each other: deep/c.ts -> deep/d.mjs -> deep/c.ts");
  expect(exit).toBe(4);
});

it("report where their mistakes are, for people and for programs", async () => {
  project.write(
    "p.ts",
    `import { definePipeline } from "perdure";

console.log("noise");
export default definePipeline({
  steps: [
    { id: "a", run: "ls" },
    { id: "b", run: "ls \${{ outputs.z.x }}", needs: ["aa"] as never },
  ],
});
`,
  );
  const reported = await project.run(["run", "p.ts"]);
  expect(reported).toMatchObject({ exit: 4, stdout: "" });
  expect(reported.stderr).toMatchInlineSnapshot(`
    "warning[module-prints]: the module printed output while it was loaded: noise
     --> p.ts:1:1
      |
    1 | import { definePipeline } from "perdure";
      | ^
      = help: every \`run\`, \`validate\` and \`graph\` loads it again; do the work in steps

    error[unknown-need]: there is no step \`aa\` to wait for
     --> p.ts: steps[1].needs[0]
      = help: did you mean \`a\`?

    error[unknown-step]: there is no step \`z\`
     --> p.ts: steps[1].run
      = help: did you mean \`a\`?

    2 errors, 1 warning

    error: p.ts has 2 errors; nothing was run
      next: fix them, then: perdure run p.ts
    "
  `);
  const json = await project.run(["validate", "p.ts", "--json"]);
  const diagnostics = [
    { rule: "module-prints" },
    { path: "steps[1].needs[0]" },
    { path: "steps[1].run" },
  ];
  expect(JSON.parse(json.stdout)).toMatchObject({ files: [{ valid: false, diagnostics }] });
  const refused = await project.run(["run", "p.ts", "--json"]);
  expect([refused.exit, refused.stderr]).toEqual([4, ""]);
  expect(JSON.parse(refused.stdout)).toMatchObject({
    error: { code: "invalid-pipeline", diagnostics },
  });
  expect(project.exists(".perdure")).toBe(false);
});
