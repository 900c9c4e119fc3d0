/**
 * The files of a run that is resumed: what `--from-step` passes on, what `--files keep` keeps, and
 * what `clean` must not remove.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

const GIT = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync("git", ["-C", cwd, ...GIT, ...args], { encoding: "utf8" });
}

function repository(): void {
  git(project.dir, "init", "-q");
  writeFileSync(project.path("app.txt"), "broken\n");
  git(project.dir, "add", "app.txt");
  git(project.dir, "commit", "-qm", "first");
}

async function newest(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id;
}

describe("--from-step", () => {
  function pipeline(): void {
    project.write(
      "p.yaml",
      `steps:
  - id: spec
    run: ${project.effect("spec")}; exit 1
    outputs: { s: "\${{ input.name }}.md" }
  - id: impl
    run: cat "\${{ outputs.spec.s }}" > built; ${project.effect("impl")}
`,
    );
  }

  it("refuses if an output is missing, or else passes on the existing files and keeps them", async () => {
    pipeline();
    await project.run(["run", "p.yaml", "-i", "name=spec"]);
    for (const args of [
      ["resume", "--from-step", "impl"],
      ["resume", "--from-step", "impl", "--dry-run"],
      ["run", "p.yaml", "--from-step", "impl"],
    ]) {
      const { exit, stdout, stderr } = await project.run(args);
      expect(exit, stdout + stderr).not.toBe(0);
      expect(stderr).toContain(`step spec cannot be taken as done: its output "s" is missing`);
      expect(stderr).toContain(project.path("spec.md"));
    }
    expect(project.effects()).toEqual({ spec: 1 });

    project.write("spec.md", "by hand\n");
    await project.must(["resume", "--from-step", "impl"]);
    expect(project.read("built")).toBe("by hand\n");
    expect(project.effects()).toEqual({ spec: 1, impl: 1 });
    // What was handed on is an artifact like any other, and comes back when its file is lost.
    rmSync(project.path("spec.md"));
    await project.must(["clean", "--keep-last", "1"]);
    const id = await newest();
    await project.must(["retry", id, "impl"]);
    expect(project.read("spec.md")).toBe("by hand\n");
  });
});

describe("resume --files keep", () => {
  /** The failed run is made once, and put back for each test. */
  let made: { readonly kept: KeptProject; readonly id: string } | undefined;
  afterAll(() => made?.kept.forget());

  async function failed(): Promise<{ id: string; workspace: string }> {
    if (made === undefined) {
      const id = await makeFailed();
      made = { kept: new KeptProject(project), id };
    } else {
      await project.remove();
      project = made.kept.project;
      made.kept.putBack();
    }
    return { id: made.id, workspace: project.path(".perdure", "runs", made.id, "workspace") };
  }

  /** A step that fails twice in each run, until its file has been mended. */
  async function makeFailed(): Promise<string> {
    repository();
    project.write(
      "p.yaml",
      `workspace: worktree
steps:
  - id: a
    run: ${project.effect("a")}
  - id: b
    retry: { attempts: 2, backoff: 10ms }
    run: echo tried >> log; ${project.effect("b")}; grep -q fixed app.txt && test -e '${project.path("go")}'
`,
    );
    project.write("go", "");
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    return newest();
  }

  it.each(["edited", "committed"])("goes on with what was %s by hand", async (how) => {
    const { id, workspace } = await failed();
    appendFileSync(join(workspace, "app.txt"), "fixed\n");
    if (how === "committed") git(workspace, "commit", "-qam", "a fix");
    const refused = await project.run(["resume", id]);
    expect(refused.exit).toBe(1);
    const [, advice = ""] = /next: perdure (resume \S+ --files keep)/.exec(refused.stderr) ?? [];
    await project.must(advice.split(" "));
    expect(project.effects()).toEqual({ a: 1, b: 3 });
    expect(readFileSync(join(workspace, "app.txt"), "utf8")).toBe("broken\nfixed\n");
    if (how === "committed") expect(git(workspace, "log", "--format=%s")).toContain("a fix");
  });

  it("makes the current files the start of every later attempt", async () => {
    const { id, workspace } = await failed();
    appendFileSync(join(workspace, "app.txt"), "fixed\n");
    rmSync(project.path("go"));
    expect((await project.run(["resume", id, "--files", "keep"])).exit).toBe(3);
    project.write("go", "");
    await project.must(["resume", id]);
    expect(project.effects()).toEqual({ a: 1, b: 5 });
    expect(readFileSync(join(workspace, "app.txt"), "utf8")).toBe("broken\nfixed\n");
  });

  it("keeps the files of a step that was interrupted", async () => {
    repository();
    const hold = project.hold("b");
    project.write(
      "p.yaml",
      `workspace: worktree
steps:
  - id: b
    run: test -e done-by-hand || { echo half > half; ${hold.command}; }
`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    expect((await runner.kill("SIGINT")).exit).toBe(130);
    const id = await newest();
    const workspace = project.path(".perdure", "runs", id, "workspace");
    writeFileSync(join(workspace, "done-by-hand"), "");
    await project.must(["resume", id, "--files", "keep"]);
    expect(readFileSync(join(workspace, "half"), "utf8")).toBe("half\n");
  });
});

it("clean keeps the outputs of a step whose work is not merged yet", async () => {
  repository();
  const hold = project.hold("own");
  project.write(
    "p.yaml",
    `workspace: worktree
steps:
  - id: a
    workspace: own
    needs: []
    outputs: { result: out.txt }
    run: ${hold.command}; echo mine > app.txt; echo result > out.txt
  - id: b
    needs: []
    run: echo theirs > app.txt
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await runner.printed("b completed");
  await hold.release();
  const ended = await runner.ended;
  expect(ended.exit, ended.stdout + ended.stderr).toBe(3);
  const id = await newest();
  await project.must(["clean"]);
  const own = project.path(".perdure", "runs", id, "own");
  writeFileSync(join(own, "a@1", "app.txt"), "both\n");
  await project.must(["resume", id]);
  expect(await project.must(["export", id, "-o", "run.perdure"])).toContain("1 artifact,");
});
