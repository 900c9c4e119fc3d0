/**
 * A project that was moved resumes; a copy of one is recognised, and never affects the original.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { Project, type Result, runIdsIn } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
  mkdirSync(project.path("one"));
});
afterEach(() => project.remove());

function git(dir: string, ...args: readonly string[]): string {
  const who = ["-c", "user.name=t", "-c", "user.email=t@t"];
  return execFileSync("git", ["-C", project.path(dir), ...who, ...args], { encoding: "utf8" });
}

function read(...parts: readonly string[]): string {
  return readFileSync(project.path(...parts), "utf8");
}

function perdure(dir: string, ...args: readonly string[]): Promise<Result> {
  return project.run(args, { cwd: project.path(dir) });
}

/** The failed runs by their kind of workspace: each is made once, and put back for its tests. */
const made = new Map<string, { readonly kept: KeptProject; readonly id: string }>();
afterAll(() => {
  for (const { kept } of made.values()) kept.forget();
});

/** A run that has done `a` and failed at `b`, which works once there is a file `mended`. */
async function failedRun(workspace: string): Promise<string> {
  const known = made.get(workspace);
  if (known !== undefined) {
    await project.remove();
    project = known.kept.project;
    known.kept.putBack();
    return known.id;
  }
  writeFileSync(
    project.path("one", "p.yaml"),
    `workspace: ${workspace}
steps:
  - { id: a, run: "echo a >> effects; echo from-a > list", outputs: { list: list } }
  - { id: b, run: "pwd > where; echo b >> effects; test -e '${project.path("mended")}'" }
  - { id: c, run: "cat '\${{ outputs.a.list }}' >> effects; echo c >> effects" }
`,
  );
  if (workspace === "worktree") {
    git("one", "init", "-q");
    git("one", "add", "p.yaml");
    git("one", "commit", "-qm", "first");
  }
  expect((await perdure("one", "run", "p.yaml")).exit).toBe(3);
  const id = runIdIn("one");
  made.set(workspace, { kept: new KeptProject(project), id });
  return id;
}

function runIdIn(dir: string): string {
  return runIdsIn(project.path(dir, ".perdure", "state.db"))[0] ?? "";
}

/** The directory in which a run of this kind works. */
function workIn(dir: string, workspace: string, id: string): string {
  return workspace === "here" ? dir : join(dir, ".perdure", "runs", id, "workspace");
}

function good(result: Result): Result {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
  return result;
}

describe.each(["here", "worktree", "copy", "directory"])("a moved project, %s", (workspace) => {
  it("resumes where it is now", async () => {
    const id = await failedRun(workspace);
    renameSync(project.path("one"), project.path("two"));
    writeFileSync(project.path("mended"), "");

    good(await perdure("two", "resume", id));

    const work = workIn("two", workspace, id);
    expect(read(work, "where").trim()).toBe(project.path(work));
    expect(existsSync(project.path("one"))).toBe(false);
    // A workspace of the run's own is put back before the second attempt; the project's is not.
    const twice = workspace === "here" ? "a\nb\nb\n" : "a\nb\n";
    expect(read(work, "effects")).toMatch(new RegExp(`^${twice}`));
    expect(read(work, "effects").endsWith("c\n")).toBe(true);
    const events = read("two", ".perdure", "runs", id, "events.jsonl");
    expect(events.split('"run.moved"')).toHaveLength(2);
    if (workspace === "worktree") {
      expect(git(work, "rev-parse", "--show-toplevel").trim()).toBe(project.path(work));
      expect(git("two", "worktree", "list")).toContain(project.path(work));
      expect(git("two", "worktree", "list")).not.toContain(project.path("one"));
    }
    good(await perdure("two", "doctor"));
  });

  it("can be exported from where it is now, and imported elsewhere", async () => {
    const id = await failedRun(workspace);
    renameSync(project.path("one"), project.path("two"));
    good(await perdure("two", "export", id, "-o", "../run.perdure"));
    mkdirSync(project.path("three"));
    if (workspace === "worktree")
      execFileSync("git", ["clone", "-q", "two", "three"], { cwd: project.dir });

    good(await perdure("three", "import", "../run.perdure"));
    writeFileSync(project.path("mended"), "");
    good(await perdure("three", "resume", id));

    const work = workIn("three", workspace, id);
    expect(read(work, "where").trim()).toBe(project.path(work));
  });
});

it("mentions the unfinished run of a moved file", async () => {
  const id = await failedRun("here");
  renameSync(project.path("one"), project.path("two"));
  good(await perdure("two", "rewind", id, "b"));
  writeFileSync(project.path("mended"), "");

  const { stdout } = await perdure("two", "run", "p.yaml");

  expect(stdout).toContain(`Run ${id.slice(0, 8)} of p.yaml is unfinished`);
});

describe.each(["here", "worktree"])("a copied project, %s", (workspace) => {
  it("is recognised, and continues with its own files if --as-copy is given", async () => {
    const id = await failedRun(workspace);
    const short = id.slice(0, 8);
    execFileSync("cp", ["-a", "one", "two"], { cwd: project.dir });
    writeFileSync(project.path("mended"), "");
    const before = read(workIn("one", workspace, id), "effects");

    const refused = await perdure("two", "resume", id);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toBe(
      `error: this project is a copy of ${project.path("one")}, which has run ${short} as well\n` +
        `  next: perdure -C ${project.path("one")} resume ${short}\n` +
        `        to use the files here instead: perdure resume ${short} --as-copy\n`,
    );

    good(await perdure("two", "resume", id, "--as-copy"));
    const copy = workIn("two", workspace, id);
    expect(read(copy, "where").trim()).toBe(project.path(copy));
    expect(read(workIn("one", workspace, id), "effects")).toBe(before);
    if (workspace === "worktree") {
      expect(git("one", "worktree", "list")).not.toContain(project.path("two"));
      expect(git("two", "worktree", "list")).not.toContain(`${project.path("one")}/`);
    }

    good(await perdure("one", "resume", id));
    const original = workIn("one", workspace, id);
    expect(read(original, "where").trim()).toBe(project.path(original));
  });
});

it("does not continue in a copy while the run is active in the original", async () => {
  const hold = project.hold("b");
  writeFileSync(project.path("one", "p.yaml"), `steps: [{ id: x, run: "${hold.command}" }]\n`);
  const runner = project.start(["run", "p.yaml"], { cwd: project.path("one") });
  await hold.arrived();
  const id = runIdIn("one");
  execFileSync("cp", ["-a", "one", "two"], { cwd: project.dir });

  expect((await perdure("two", "resume", id, "--as-copy")).exit).toBe(7);
  await runner.kill("SIGKILL");
  const refused = await perdure("two", "resume", id, "--as-copy");
  expect(refused.exit).toBe(7);
  expect(refused.stderr).toContain(`continues in ${project.path("one")} (process `);
  good(await perdure("one", "stop", id));
});
