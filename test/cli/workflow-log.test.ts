/**
 * The log of a job in GitHub Actions: groups that fold, annotations, and no commands from steps.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { normalised, PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const ENV = { env: { GITHUB_ACTIONS: "true" } };

it("groups the output of each attempt, one after the other, and annotates failures", async () => {
  const hold = project.hold("slow");
  project.write(
    "p.yaml",
    `name: ci
workspace: { snapshots: false }
steps:
  - { id: slow, run: "echo first; ${hold.command}; echo '::error::mine'; echo last" }
  - { id: test, needs: [], run: "echo FAIL parser; exit 1" }
`,
  );
  const program = project.start(["run", "p.yaml"], ENV);
  // The slow step has the log; the failure of the other one is annotated at once.
  await program.printed("::error title=test failed::it exited with 1%0AFAIL parser\n");
  await program.printed("│ first\n");
  expect(program.stdout).not.toContain("::group::test@1.1");
  await hold.release();
  const { exit, stdout } = await program.ended;
  expect(exit).toBe(3);
  const lines = normalised(stdout, project).split("\n");
  expect(lines.filter((line) => line.startsWith("::") && !line.startsWith("::error"))).toEqual([
    "::group::slow@1.1",
    "::endgroup::",
    "::group::test@1.1",
    "::endgroup::",
  ]);
  const slow = lines.slice(lines.indexOf("::group::slow@1.1"), lines.indexOf("::endgroup::"));
  expect(slow.filter((line) => line.startsWith("│"))).toEqual([
    "│ first",
    "│ ::error::mine",
    "│ last",
  ]);
  expect(lines).toContain("  Fix the cause, then continue: perdure resume 1a2b3c4d");
});

it("shows the output of a running step from its first line after a resume", async () => {
  const hold = project.hold("build");
  const run = `echo compiling; ${hold.command}; echo linked`;
  project.write(
    "p.yaml",
    `workspace: { snapshots: false }\nsteps:\n  - { id: build, run: "${run}" }\n`,
  );
  const program = project.start(["run", "p.yaml"], ENV);
  await hold.arrived();
  await program.kill("SIGKILL");
  const resumed = project.start(["resume"], ENV);
  await resumed.printed("::group::build@1.1\n│ compiling\n");
  await hold.release();
  const { exit, stdout } = await resumed.ended;
  expect(exit).toBe(0);
  expect(stdout).toContain("│ compiling\n│ linked\n::endgroup::\n");
});

it("prints colours on request, and none with NO_COLOR", async () => {
  project.write(
    "p.yaml",
    "workspace: { snapshots: false }\nsteps:\n  - { id: build, run: echo built }\n",
  );
  await project.must(["run", "p.yaml"]);
  const id = await project.newestId();
  const green = "\u001b[32m";
  for (const args of [["list"], ["show", id], ["why", id], ["timeline", id]]) {
    expect(await project.must(args, { env: { FORCE_COLOR: "1" } }), args[0]).toContain(green);
    expect(await project.must(args, { env: { NO_COLOR: "1" } }), args[0]).not.toContain("\u001b");
    expect(await project.must(args), args[0]).not.toContain("\u001b");
  }
  const logs = await project.must(["logs", id], { env: { FORCE_COLOR: "1" } });
  expect(logs).toBe("\u001b[2mbuild │\u001b[0m built\n");
});
