/** The examples of docs/LIBRARY.md, run as they stand there. */
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TEXT = readFileSync(resolve(ROOT, "docs/LIBRARY.md"), "utf8");

let project: Project;
beforeEach(() => {
  project = new Project();
  for (const [, name = "", text = ""] of TEXT.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)) {
    project.write(name, text);
  }
});
afterEach(() => project.remove());

it("has a pipeline", async () => {
  const printed = await project.must(["run", "pipeline.ts", "-i", "who=all", "--plain"]);
  expect(printed).toContain("published for all");
});

it("has a program", async () => {
  mkdirSync(project.path("node_modules"));
  symlinkSync(ROOT, project.path("node_modules", "perdure"));
  const { stdout, stderr, exit } = await project.script("program.ts").ended;
  expect({ stderr, exit }).toEqual({ stderr: expect.not.stringContaining("Error"), exit: 0 });
  const lines = stdout.trim().split("\n");
  // The first two run at once.
  expect(lines.slice(0, 2).sort((a, b) => a.localeCompare(b))).toEqual([
    "core is done",
    "web is done",
  ]);
  expect(lines.slice(2)).toEqual([
    "publish is done",
    "completed 0",
    "core: completed, web: completed, publish: completed",
    "unknown-need",
  ]);
});
