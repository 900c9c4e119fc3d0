/**
 * The walk-throughs of docs/WALKTHROUGHS.md name functions and their files; here the program does
 * what they describe, from its source, and V8 says whether those functions ran.
 */
import fs from "node:fs";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { executedFunctions, sourceProgram } from "../../scripts/coverage.ts";
import { Project } from "../rig/project.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const FILES_MAX = 15;
const PROGRAM = ["--input-type=module", "-e", sourceProgram(ROOT)] as const;

function newProject(): Project {
  const project = new Project();
  onTestFinished(() => project.remove());
  return project;
}

/** Which of the named functions did not run, and how many files are named. */
function compared(heading: string, coverage: string) {
  const text = fs.readFileSync(path.join(ROOT, "docs", "WALKTHROUGHS.md"), "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? "";
  const named = [...section.matchAll(/`([\w.#]+)` \(`(src\/[^`]+)`\)/g)];
  const executed = executedFunctions(coverage, ROOT);
  const missing = named.flatMap(([, name = "", file = ""]) => {
    const own = name.split(".").at(-1) ?? name;
    return executed.get(file)?.has(own) === true ? [] : [`${name} (${file})`];
  });
  const files = new Set([...section.matchAll(/`(src\/[^`]+\.ts)`/g)].map(([, file]) => file));
  return { missing, named: named.length, files: files.size };
}

it("a shell step from YAML to disk", async () => {
  const project = newProject();
  project.write("p.yaml", "steps:\n  - id: hello\n    run: echo hi\n");
  const [flags, e, script] = PROGRAM;
  const env = { NODE_V8_COVERAGE: project.path("coverage") };
  const program = project.script(flags, [e, script, "run", "p.yaml"], { env });
  expect((await program.ended).exit).toBe(0);
  const { missing, named, files } = compared("A shell step", project.path("coverage"));
  expect(missing).toEqual([]);
  expect(named).toBeGreaterThan(FILES_MAX / 2);
  expect(files).toBeLessThanOrEqual(FILES_MAX);
});

it("a resume after kill -9", async () => {
  const project = newProject();
  const hold = project.hold("work");
  project.write("p.yaml", `steps:\n  - id: work\n    run: ${hold.command}\n`);
  const killed = project.start(["run", "p.yaml"]);
  await hold.arrived();
  killed.child.kill("SIGKILL");
  await killed.ended;
  const [flags, e, script] = PROGRAM;
  const env = { NODE_V8_COVERAGE: project.path("coverage") };
  const resumed = project.script(flags, [e, script, "resume"], { env });
  await hold.release();
  expect((await resumed.ended).exit).toBe(0);
  const { missing, named, files } = compared("A resume", project.path("coverage"));
  expect(missing).toEqual([]);
  expect(named).toBeGreaterThan(FILES_MAX / 2);
  expect(files).toBeLessThanOrEqual(FILES_MAX);
});
