/** Instances in workspaces of their own: one for all steps of an item, an iteration or a group. */
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, Project, type Result } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

const WHO = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
const IDENTITY = {
  GIT_AUTHOR_NAME: "t",
  GIT_AUTHOR_EMAIL: "t@example.org",
  GIT_COMMITTER_NAME: "t",
  GIT_COMMITTER_EMAIL: "t@example.org",
};

function repository(): void {
  const git = (...args: readonly string[]): void => {
    execFileSync("git", [...WHO, ...args], { cwd: project.dir });
  };
  git("init", "-q", "-b", "main");
  project.write(".gitignore", "effects\nhold-*\nallowed\n");
  project.write("readme", "one\ntwo\nthree\n");
  git("add", ".");
  git("commit", "-qm", "begin");
}

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

async function workspaceFile(name: string): Promise<string> {
  return project.read(".perdure", "runs", await project.newestId(), "workspace", name);
}

it("keeps a merge in the files of the run when a snapshot of another step is older", async () => {
  const [shared, apart] = [project.hold("shared"), project.hold("apart")];
  const failsOnce = `test -e '${project.path("failed")}' || { touch '${project.path("failed")}'; exit 1; }`;
  project.write(
    "p.yaml",
    `
workspace: directory
steps:
  - { id: shared, needs: [], run: "${shared.command}; ${project.effect("shared")}" }
  - { id: apart, needs: [], workspace: own, run: "${apart.command}; echo merged > made" }
  - { id: last, needs: [shared, apart], retry: 2, run: "${failsOnce}; cat made > seen" }
`,
  );
  // The runner dies when it has the snapshot of one step and has not recorded it; the other one ends then.
  const runner = project.start(["run", "p.yaml"], {
    env: { PERDURE_FAILPOINT: "workspace.after:2" },
  });
  await Promise.all([shared.arrived(), apart.arrived()]);
  await shared.release();
  expect((await runner.ended).signal).toBe("SIGKILL");
  await apart.release();
  await eventually("no step is left", () => project.stepProcesses().length === 0);
  good(await project.run(["resume"]));
  expect(await workspaceFile("seen")).toBe("merged\n");
  expect(project.effects()).toEqual({ shared: 1 });
});

describe("workspace: own on a fan-out", () => {
  it("gives all steps of an item one worktree, and merges in the order of the items", async () => {
    repository();
    const hold = project.hold("first");
    project.write(
      "p.yaml",
      `
workspace: worktree
steps:
  - id: map
    for_each: { in: [1, 2, 3] }
    workspace: own
    steps:
      - id: make
        run: "if test $PERDURE_ITEM = 1; then ${hold.command}; fi; pwd >> '${project.path("places")}'; echo $PERDURE_ITEM > f$PERDURE_ITEM; git add .; git commit -qm $PERDURE_ITEM"
      - id: look
        run: "pwd >> '${project.path("places")}'; test \\"$(git log -1 --format=%s)\\" = $PERDURE_ITEM; ls f*; test $(ls f* | wc -l) = 1; echo more >> f$PERDURE_ITEM"
  - { id: after, run: "cat f1 f2 f3 > all" }
`,
    );
    const runner = project.start(["run", "p.yaml"], { env: IDENTITY });
    await runner.printed(/✓ map@1\.1\[1\]\/look \(2\) completed/);
    await runner.printed(/✓ map@1\.1\[2\]\/look \(3\) completed/);
    await hold.release();
    good(await runner.ended);
    const merged = [...runner.stdout.matchAll(/map@1\.1\[(\d)\] was merged/g)];
    expect(merged.map((match) => match[1])).toEqual(["0", "1", "2"]);
    expect(await workspaceFile("all")).toBe("1\nmore\n2\nmore\n3\nmore\n");
    const places = project.read("places").trim().split("\n");
    expect(new Set(places).size).toBe(3);
    expect(places).toHaveLength(6);
  });

  it("works in the short form, and in the project itself", async () => {
    repository();
    project.write(
      "p.yaml",
      `
steps:
  - { id: map, for_each: [1, 2], workspace: own, run: "test $(ls f* 2>/dev/null | wc -l) = 0; echo $PERDURE_ITEM > f$PERDURE_ITEM" }
`,
    );
    good(await project.run(["run", "p.yaml"]));
    expect([project.read("f1"), project.read("f2")]).toEqual(["1\n", "2\n"]);
  });

  it("keeps the workspace of a failed item, and runs none of its steps twice", async () => {
    repository();
    project.write(
      "p.yaml",
      `
workspace: worktree
steps:
  - id: map
    for_each: { in: [1, 2], on_item_failure: fail }
    workspace: own
    steps:
      - { id: make, run: "${project.effect("make-$PERDURE_ITEM")}; echo made > f$PERDURE_ITEM" }
      - { id: use, run: "${project.effect("use-$PERDURE_ITEM")}; cat f$PERDURE_ITEM; test $PERDURE_ITEM = 1 -o -e '${project.path("allowed")}'; echo used >> f$PERDURE_ITEM" }
`,
    );
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    project.write("allowed", "");
    good(await project.run(["resume", await project.newestId()]));
    expect(project.effects()).toEqual({ "make-1": 1, "make-2": 1, "use-1": 1, "use-2": 2 });
    expect(await workspaceFile("f2")).toBe("made\nused\n");
  });

  it("stops at a conflict, and merges again when it is resolved", async () => {
    repository();
    project.write(
      "p.yaml",
      `
workspace: worktree
steps:
  - id: map
    for_each: { in: [1, 2] }
    workspace: own
    steps:
      - { id: edit, run: "${project.effect("edit-$PERDURE_ITEM")}; echo $PERDURE_ITEM > readme" }
  - { id: after, run: "cat readme > seen" }
`,
    );
    const stopped = await project.run(["run", "p.yaml"]);
    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toContain("readme");
    const id = await project.newestId();
    project.write(`.perdure/runs/${id}/own/map@1.1[1]/readme`, "1 and 2\n");
    good(await project.run(["resume", id]));
    expect(project.effects()).toEqual({ "edit-1": 1, "edit-2": 1 });
    expect(await workspaceFile("seen")).toBe("1 and 2\n");
  });
});

describe("workspace: own on other steps that hold steps", () => {
  it("is merged after a group, after each iteration of a loop, and after a sub-pipeline", async () => {
    repository();
    project.write("sub.yaml", 'steps: [{ id: inner, run: "test ! -e s; echo s > s" }]\n');
    project.write(
      "p.yaml",
      `
workspace: worktree
steps:
  - id: group
    workspace: own
    steps:
      - { id: a, run: "echo a > g" }
      - { id: b, run: "echo b >> g" }
  - id: rounds
    iterations: 2
    workspace: own
    steps: [{ id: round, run: "echo $PERDURE_INDEX >> r" }]
  - { id: sub, pipeline: sub.yaml, workspace: own }
  - { id: after, run: "cat g r s > all" }
`,
    );
    good(await project.run(["run", "p.yaml"]));
    expect(await workspaceFile("all")).toBe("a\nb\n0\n1\ns\n");
  });

  it("is refused without snapshots", async () => {
    project.write(
      "p.yaml",
      `
workspace: { snapshots: false }
steps:
  - { id: a, workspace: own, run: "true" }
`,
    );
    const refused = await project.run(["validate", "p.yaml"]);
    expect(refused.exit).toBe(4);
    expect(refused.stderr).toContain("error[own-workspace]");
    expect(refused.stderr).toContain("p.yaml:4:25");
  });
});

it("does not remove in a retry what another step has just written", async () => {
  repository();
  const writes = (name: string): string =>
    `for i in 1 2 3 4 5 6 7 8 9; do echo $i > ${name}$i; done`;
  project.write(
    "p.yaml",
    `
workspace: worktree
max_parallel: 2
steps:
  - { id: fails, needs: [], retry: { attempts: 4, backoff: 1ms }, run: "echo $PERDURE_ATTEMPT >> tries; test $PERDURE_ATTEMPT = 4" }
  - { id: pause, needs: [], wait: 1ms }
  - { id: one, needs: [pause], run: "${writes("n1")}" }
  - { id: two, needs: [one], run: "${writes("n2")}" }
  - { id: three, needs: [two], run: "${writes("n3")}" }
  - { id: after, needs: [fails, three], run: "ls n* | wc -l > count" }
`,
  );
  good(await project.run(["run", "p.yaml"]));
  expect((await workspaceFile("count")).trim()).toBe("27");
});

it("keeps work that another step did between two attempts of a step", async () => {
  repository();
  project.write(
    "p.yaml",
    `
workspace: worktree
max_parallel: 1
steps:
  - { id: fails, needs: [], run: "echo x >> tries; test -e '${project.path("allowed")}'" }
  - { id: other, needs: [], run: "${project.effect("other")}; echo kept > other" }
  - { id: after, needs: [fails, other], run: "cat other > seen" }
`,
  );
  const [first, second] = [await project.run(["run", "p.yaml"]), await project.newestId()];
  expect(first.exit).toBe(3);
  expect((await project.run(["resume", second])).exit).toBe(3);
  project.write("allowed", "");
  good(await project.run(["resume", second]));
  expect(project.effects()).toEqual({ other: 1 });
  expect(await workspaceFile("seen")).toBe("kept\n");
});
