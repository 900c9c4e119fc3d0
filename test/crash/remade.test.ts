/** A workspace that is made again is complete before anything works in it, whoever is killed meanwhile. */
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Project } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

/** The program passes fewer failpoints before it makes the workspace. */
const FAILPOINTS_MAX = 40;

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

/** Resumes the run, and kills that right after it has made the workspace, before its files. */
async function killedWhenRemade(id: string): Promise<void> {
  const log = `${project.stateHome}.failpoints`;
  for (let nth = 1; nth < FAILPOINTS_MAX; nth++) {
    fs.rmSync(log, { force: true });
    fs.rmSync(project.path(".perdure", "runs", id, "workspace"), { recursive: true, force: true });
    const env = { PERDURE_FAILPOINT: String(nth), PERDURE_FAILPOINT_LOG: log };
    const { signal } = await project.run(["resume", id], { env });
    expect(signal).toBe("SIGKILL");
    if (fs.readFileSync(log, "utf8").endsWith("workspace.remade\n")) return;
  }
  throw new Error("the failpoint was not passed");
}

/** Removes the worktree, and kills those who make it again, one after the other. */
async function killedWhileRemade(id: string): Promise<void> {
  fs.rmSync(project.path(".perdure", "runs", id, "workspace"), { recursive: true });
  for (const name of ["worktree-added", "worktree-checked-out", "worktree-filled"]) {
    const env = { PERDURE_FAILPOINT: `workspace.${name}:1` };
    const { signal, stderr } = await project.run(["resume", id], { env });
    expect(signal, `${name}: ${stderr}`).toBe("SIGKILL");
  }
}

test.each(["directory", "worktree"])(
  "a workspace (%s) that is made again keeps the files of completed steps",
  async (kind) => {
    project.write("tracked", "tracked\n");
    userGit(project.dir, "init", "-q", "-b", "main");
    userGit(project.dir, "add", "tracked");
    userGit(project.dir, "commit", "-q", "-m", "first");
    const hold = project.hold("second");
    project.write(
      "p.yaml",
      `workspace: ${kind === "worktree" ? "{ kind: worktree, commit: never }" : kind}
steps:
  - { id: first, run: echo kept > kept.txt }
  - { id: second, run: "test -e '${project.path("go")}' || ${hold.command}; cat kept.txt" }
`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.kill("SIGKILL");
    await project.killSteps();
    const id = await project.newestId();
    project.write("go", "");
    await killedWhenRemade(id);
    if (kind === "worktree") await killedWhileRemade(id);
    const { exit, stdout, stderr } = await project.run(["resume", id]);
    expect(exit, stdout + stderr).toBe(0);
    expect(project.read(".perdure", "runs", id, "workspace", "kept.txt")).toBe("kept\n");
  },
);
