/**
 * Power cuts: what the program relies on was synced before (P7). The program runs under a recording
 * of its system calls; then each of three mistakes is planted in a copy of it and must be found.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PROGRAM, Project } from "../rig/project.ts";
import { callsIn, recording } from "../rig/system-calls.ts";
import { judge, type Verdict } from "./sync-order.ts";

const PACKAGE = resolve(import.meta.dirname, "../..");

let project: Project;
beforeEach(() => {
  project = new Project();
  project.write("kept.txt", "kept\n");
  const git = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
  execFileSync("git", ["init", "-q", project.dir]);
  execFileSync("git", ["-C", project.dir, "add", "kept.txt"]);
  execFileSync("git", ["-C", project.dir, ...git, "commit", "-q", "-m", "kept"]);
});
afterEach(() => project.remove());

/** Steps that change files, hand one on, fail once and are put back. */
const PIPELINE = `workspace: WORKSPACE
steps:
  - id: one
    run: echo one > one.txt
    outputs: { made: one.txt }
  - id: two
    retry: 2
    run: echo "$PERDURE_ATTEMPT" >> two.txt; test "$PERDURE_ATTEMPT" = 2
  - id: three
    run: cat one.txt two.txt > three.txt
    outputs: { sum: three.txt }
`;

/** Runs the pipeline with a program under the recording, and judges it. */
async function recorded(program: string, workspace: "here" | "worktree"): Promise<Verdict> {
  project.write("p.yaml", PIPELINE.replace("WORKSPACE", workspace));
  const file = project.path(".git", "recording");
  // libuv would hand file operations to the kernel by other calls than those that are recorded.
  const env = { UV_USE_IO_URING: "0" };
  const ran = project.script(program, ["run", "p.yaml"], { through: recording(file), env });
  const { exit, stdout, stderr } = await ran.ended;
  expect(exit, stdout + stderr).toBe(0);
  const [runId = ""] = await project.runIds();
  const lines = project.read(".perdure", "runs", runId, "events.jsonl").trimEnd().split("\n");
  const events = lines.map((line) => {
    const { type, data } = JSON.parse(line) as { type: string; data: unknown };
    return { type, data: JSON.stringify(data) };
  });
  return judge({ calls: callsIn(file), directory: project.dir, events });
}

/** A copy of the program with one line changed; the line must be there. */
function mutated(line: string, otherwise: string): string {
  const copy = project.path(".git", "mutant");
  for (const name of ["bin", "dist"]) {
    fs.cpSync(join(PACKAGE, name), join(copy, name), { recursive: true });
  }
  fs.copyFileSync(join(PACKAGE, "package.json"), join(copy, "package.json"));
  fs.symlinkSync(join(PACKAGE, "node_modules"), join(copy, "node_modules"));
  const path = join(copy, "dist", "main.js");
  const text = fs.readFileSync(path, "utf8");
  expect(text, "the program has the line that is mutated").toContain(line);
  fs.writeFileSync(path, text.replaceAll(line, otherwise));
  return join(copy, "bin", "perdure.js");
}

describe.runIf(process.platform === "linux")("before anything relies on it", () => {
  it.each(["here", "worktree"] as const)("all is synced in workspace: %s", async (workspace) => {
    const { broken, ...seen } = await recorded(PROGRAM, workspace);
    expect(broken).toEqual([]);
    expect(seen).toMatchObject({ attempts: 4, artifacts: 2 });
    expect(seen.snapshots).toBeGreaterThanOrEqual(4);
    expect(seen.storeFiles).toBeGreaterThan(8);
    expect(seen.prints).toBeGreaterThan(4);
  });

  it("an answer is synced before it is acknowledged", async () => {
    project.write("p.yaml", "steps:\n  - id: ok\n    gate: { ask: go on? }\n");
    expect((await project.run(["run", "p.yaml"])).exit).toBe(6);
    const [runId = ""] = await project.runIds();
    const file = project.path(".git", "recording");
    const args = ["answer", runId, "ok", "approve"];
    const answered = await project.run(args, { through: recording(file) });
    expect(answered.exit, answered.stderr).toBe(0);
    const verdict = judge({ calls: callsIn(file), directory: project.dir, events: [] });
    expect(verdict.broken).toEqual([]);
    expect(verdict.prints).toBeGreaterThan(0);
  });

  it.each([
    ["PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF", /^D1: one@1\.1 /],
    ['"core.fsync":"all,-index"', '"core.fsync":"none"', /^D3: /],
    ["await file.sync()", "0", /^D2: the content of /],
  ])("a mistake is found: %s -> %s", async (line, otherwise, found) => {
    const { broken } = await recorded(mutated(line, otherwise), "here");
    expect(broken).toContainEqual(expect.stringMatching(found));
  });
});
