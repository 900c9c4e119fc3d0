/** The files of a run: where steps work, what is restored, and what is merged. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { type Program, Project, type Result } from "../rig/project.ts";
import { snapshotFile } from "../workspace/rig.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

function git(...args: readonly string[]): string {
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  const who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
  return execFileSync("git", [...who, ...args], { cwd: project.dir, env, encoding: "utf8" }).trim();
}

/** The repository that the tests begin with is made once, and copied for each of them. */
let template: string | undefined;
afterAll(() => {
  if (template !== undefined) fs.rmSync(template, { recursive: true });
});

function repository(): void {
  if (template === undefined) {
    git("init", "-q", "-b", "main");
    project.write(".gitignore", "effects\nhold-*\nsecret.env\n");
    project.write("readme", "one\ntwo\nthree\n");
    git("add", ".");
    git("commit", "-qm", "begin");
    project.write("secret.env", "KEY=1\n");
    template = `${project.dir}.template`;
    fs.cpSync(project.dir, template, { recursive: true });
  } else fs.cpSync(template, project.dir, { recursive: true });
}

function saved(ref: string, path: string): string {
  return snapshotFile(project.dir, ref, path);
}

function pipeline(yaml: string): void {
  project.write("p.yaml", yaml);
}

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

async function runDir(): Promise<string> {
  const [id = ""] = await project.runIds();
  return join(".perdure", "runs", id);
}

async function workspaceFile(name: string): Promise<string> {
  return project.read(await runDir(), "workspace", name);
}

/** All that belongs to the user in the repository, to be compared. */
function users(): unknown {
  return {
    head: git("rev-parse", "HEAD"),
    branch: git("symbolic-ref", "HEAD"),
    main: git("rev-parse", "main"),
    index: git("ls-files", "-s"),
    status: git("status", "--porcelain"),
    stash: git("stash", "list"),
  };
}

const IDENTITY = {
  GIT_AUTHOR_NAME: "t",
  GIT_AUTHOR_EMAIL: "t@example.org",
  GIT_COMMITTER_NAME: "t",
  GIT_COMMITTER_EMAIL: "t@example.org",
};

const effect = (name: string): string => `echo ${name} >> ${project.path("effects")}`;

async function killAll(runner: Program): Promise<void> {
  await runner.kill("SIGKILL");
  await project.killSteps();
}

describe("kinds of workspaces", () => {
  it("worktree: has a branch of its own, with the ignored files that are named", async () => {
    repository();
    project.write("readme", "changed by the user\n");
    const before = users();
    pipeline(`
workspace: { kind: worktree, include: [secret.env] }
steps:
  - { id: work, run: "cat secret.env readme > out; git branch --show-current >> out" }
`);
    good(await project.run(["run", "p.yaml"]));
    const [id = ""] = await project.runIds();
    expect(await workspaceFile("out")).toBe(`KEY=1\none\ntwo\nthree\nperdure/${id.slice(0, 8)}\n`);
    fs.rmSync(project.path("p.yaml"));
    expect(users()).toEqual(before);
  });

  it("directory: is empty; copy: is the project without its history", async () => {
    repository();
    pipeline(
      "workspace: directory\nsteps: [{ id: a, run: 'ls -A > out; git status 2>> out || :' }]",
    );
    good(await project.run(["run", "p.yaml"]));
    expect(await workspaceFile("out")).toMatch(/^out\nfatal: not a git repository/);
    pipeline("workspace: copy\nsteps: [{ id: a, run: 'ls -A > out' }]");
    good(await project.run(["run", "p.yaml"]));
    expect(await workspaceFile("out")).toBe(".gitignore\nout\np.yaml\nreadme\nsecret.env\n");
  });

  it("worktree: is refused without git or without a commit, with the remedy", async () => {
    pipeline("workspace: worktree\nsteps: [{ id: a, run: ls }]");
    const none = await project.run(["run", "p.yaml"]);
    expect([none.exit, none.stderr]).toEqual([1, expect.stringContaining("git init")]);
    git("init", "-q");
    const empty = await project.run(["run", "p.yaml"]);
    expect([empty.exit, empty.stderr]).toEqual([1, expect.stringContaining("first commit")]);
  });
});

describe("the files of a new attempt", () => {
  const yaml = (kind: string, more = ""): string => `
workspace: ${kind}
steps:
  - { id: first, run: echo first > log }
  - id: work
    run: "cat log >> seen; echo partial >> log; ${effect("work")}; test -e ${project.path("go")} || exit 1"
${more}`;

  it.each(["worktree", "copy"])(
    "are those before the step (%s), on retry and on resume",
    async (kind) => {
      repository();
      pipeline(yaml(kind, "    retry: { attempts: 2, backoff: 1ms }\n"));
      expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
      project.write("go", "");
      good(await project.run(["resume", await project.newestId()]));
      expect(project.effects()).toEqual({ work: 3 });
      expect(await workspaceFile("log")).toBe("first\npartial\n");
      expect(await workspaceFile("seen")).toBe("first\n");
    },
  );

  it("are the current ones in the project itself", async () => {
    pipeline(yaml("here"));
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    project.write("go", "");
    good(await project.run(["resume", await project.newestId()]));
    expect(project.read("log")).toBe("first\npartial\npartial\n");
  });

  it("are those before the step when runner and step were killed", async () => {
    repository();
    const hold = project.hold("work");
    pipeline(`
workspace: worktree
steps:
  - { id: work, run: "echo partial >> log; rm readme; ${hold.command}; echo done >> log" }
`);
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await killAll(runner);
    const resumed = project.start(["resume"]);
    await hold.release();
    good(await resumed.ended);
    expect(await workspaceFile("log")).toBe("partial\ndone\n");
    // What was left behind by the attempt that was killed is kept.
    const [id = ""] = await project.runIds();
    expect(saved(`refs/perdure/${id}/work@1.1/after`, "log")).toBe("partial\n");
  });

  it("stay as they are if other steps have worked beside it", async () => {
    repository();
    const hold = project.hold("other");
    pipeline(`
workspace: worktree
steps:
  - { id: other, needs: [], run: "${hold.command}; echo other > other" }
  - id: work
    needs: []
    run: "echo try >> log; ${effect("work")}; test -e ${project.path("go")} || { : > ${project.path("go")}; exit 1; }"
    retry: { attempts: 2, backoff: 1ms }
`);
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await runner.printed("work completed");
    await hold.release();
    good(await runner.ended);
    expect(await workspaceFile("log")).toBe("try\ntry\n");
    expect(await workspaceFile("other")).toBe("other\n");
  });
});

describe("a worktree that was changed or removed", () => {
  /** The run that has stopped is made once, and put back for each test. */
  let made: { readonly kept: KeptProject; readonly path: string } | undefined;
  afterAll(() => made?.kept.forget());

  async function stopped(): Promise<string> {
    if (made !== undefined) {
      await project.remove();
      project = made.kept.project;
      made.kept.putBack();
      return made.path;
    }
    repository();
    pipeline(`
workspace: worktree
steps:
  - { id: one, run: "echo one > one; echo changed > readme" }
  - { id: two, run: "test -e ${project.path("go")} || exit 1; cat one readme > two" }
`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    project.write("go", "");
    const [id = ""] = await project.runIds();
    const path = project.path(".perdure", "runs", id, "workspace");
    made = { kept: new KeptProject(project), path };
    return path;
  }

  const branch = (): string => git("branch", "--list", "perdure/*").replace(/^[*+ ]+/, "");

  const repaired: readonly (readonly [string, (path: string) => void])[] = [
    ["the directory is gone", (path) => fs.rmSync(path, { recursive: true })],
    [
      "directory and branch are gone",
      (path) => {
        const name = branch();
        git("worktree", "remove", "--force", path);
        git("branch", "-D", name);
      },
    ],
  ];
  it.each(repaired)("%s: is made again from the snapshot", async (_what, damage) => {
    const path = await stopped();
    damage(path);
    good(await project.run(["resume", await project.newestId()]));
    expect(fs.readFileSync(join(path, "two"), "utf8")).toBe("one\nchanged\n");
  });

  it("without the directory of a run that began in a part of the project: only that part is made again", async () => {
    repository();
    fs.mkdirSync(project.path("part"));
    project.write(
      join("part", "p.yaml"),
      `
workspace: worktree
steps:
  - { id: one, run: "echo one > one" }
  - { id: two, run: "test -e ${project.path("go")} || exit 1; cat one > two" }
`,
    );
    git("add", ".");
    git("commit", "-qm", "part");
    const cwd = project.path("part");
    expect((await project.run(["run", "p.yaml"], { cwd })).exit).toBe(3);
    project.write("go", "");
    const [id = ""] = await project.runIds();
    const path = project.path(".perdure", "runs", id, "workspace");
    fs.rmSync(path, { recursive: true });
    good(await project.run(["resume", await project.newestId()], { cwd }));
    expect(fs.readFileSync(join(path, "part", "two"), "utf8")).toBe("one\n");
    expect(fs.readFileSync(join(path, "readme"), "utf8")).toBe("one\ntwo\nthree\n");
  });

  const refused: readonly (readonly [string, (path: string) => void, RegExp, RegExp])[] = [
    [
      "foreign changes",
      (path) => fs.writeFileSync(join(path, "one"), "mine\n"),
      /changed by somebody else: one/,
      /--files keep/,
    ],
    [
      "something else stands there",
      (path) => {
        fs.rmSync(path, { recursive: true });
        fs.mkdirSync(path);
      },
      /not the run's worktree/,
      /move .* away/,
    ],
  ];
  it.each(refused)("%s: refused, with the remedy", async (_what, damage, message, remedy) => {
    const path = await stopped();
    damage(path);
    const result = await project.run(["resume", await project.newestId()]);
    expect(result.exit, result.stdout + result.stderr).toBe(1);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(remedy);
  });

  it("with something else checked out by a step: the run resumes", async () => {
    repository();
    const own = "$(git branch --list 'perdure/*' --format='%(refname:short)')";
    /** What a step does, and the branch that is checked out then. */
    const works: readonly (readonly [string, RegExp])[] = [
      ["git switch -qc else", /^else$/],
      // No branch, and a commit.
      [`git switch -q ${own}; git switch -q --detach; git commit -q --allow-empty -m c`, /^$/],
      // Its branch without the first commit.
      [`git switch -q ${own}; git commit -q --amend --allow-empty -m other`, /^perdure\/\w{8}$/],
      // A branch, its own being gone.
      [`git switch -qc gone; git branch -qD ${own}`, /^gone$/],
    ];
    const holds = works.map((_, index) => project.hold(String(index)));
    const steps = works.map(
      ([work], index) => `
  - { id: work-${index}, run: "${work}; echo ${index} > one" }
  - id: hold-${index}
    run: "${holds[index]?.command}; cat one >> ${project.path("seen")}; git commit -q --allow-empty -m more"`,
    );
    pipeline(`workspace: worktree\nsteps:${steps.join("")}\n`);
    const env = { GIT_CONFIG_COUNT: "0", ...IDENTITY };
    let runner = project.start(["run", "p.yaml"], { env });
    for (const [index, hold] of holds.entries()) {
      await hold.arrived();
      await killAll(runner);
      const place = project.path(await runDir(), "workspace");
      expect(git("-C", place, "branch", "--show-current")).toMatch(works[index]?.[1] ?? "");
      if (index === 2) expect(git("-C", place, "log", "--format=%s")).not.toContain("begin");
      runner = project.start(["resume"], { env });
      await hold.release();
    }
    good(await runner.ended);
    expect(project.read("seen")).toBe("0\n1\n2\n3\n");
  });

  it("for a run that began in an uncommitted directory: the directory is made", async () => {
    repository();
    fs.mkdirSync(project.path("part"));
    const yaml = 'workspace: worktree\nsteps: [{ id: one, run: "echo one > one" }]\n';
    project.write(join("part", "p.yaml"), yaml);
    good(await project.run(["run", "p.yaml"], { cwd: project.path("part") }));
    expect(await workspaceFile(join("part", "one"))).toBe("one\n");
  });

  it("below a path with a newline: works", async () => {
    const inner = project.path("new\nline");
    fs.mkdirSync(inner);
    const nested = new Project(inner);
    execFileSync("git", ["init", "-q", "."], { cwd: inner });
    const commit = ["commit", "-q", "--allow-empty", "-m", "begin"];
    execFileSync("git", commit, { cwd: inner, env: { ...process.env, ...IDENTITY } });
    nested.write("p.yaml", 'workspace: worktree\nsteps: [{ id: one, run: "echo one > one" }]\n');
    good(await nested.run(["run", "p.yaml"]));
    const [id = ""] = await nested.runIds();
    expect(nested.read(".perdure", "runs", id, "workspace", "one")).toBe("one\n");
  });
});

describe("a step with a workspace of its own, in a project with git", () => {
  const work = [
    "git status --porcelain > status",
    "echo b > b.txt; git add b.txt; git commit -qm 'by b'",
    "git log --format=%s > log; git branch --show-current > branch",
  ];

  it.each(["here", "worktree"])("is in a worktree in which it can commit: %s", async (kind) => {
    repository();
    pipeline(`
workspace: ${kind}
steps:
  - { id: a, run: "echo a > a.txt" }
  - { id: b, workspace: own, run: "${work.join("; ")}" }
`);
    const before = git("log", "--format=%s", "main");
    good(await project.run(["run", "p.yaml"], { env: IDENTITY }));
    const read = async (name: string): Promise<string> =>
      kind === "here" ? project.read(name) : workspaceFile(name);
    expect(await read("status")).toContain("?? a.txt");
    expect(await read("b.txt")).toBe("b\n");
    expect(await read("log")).toBe("by b\nbegin\n");
    const branch = (await read("branch")).trim();
    const [id = ""] = await project.runIds();
    expect(branch).toBe(`perdure/${id.slice(0, 8)}-b@1`);
    expect(git("log", "--format=%s", "main")).toBe(before);
    await project.must(["clean", id, "--force"]);
    // The directory is gone, the commit is not.
    expect(git("log", "-1", "--format=%s", branch)).toBe("by b");
    expect(git("worktree", "list").split("\n")).toHaveLength(1);
  });

  it("starts its second attempt from the first commit again", async () => {
    repository();
    pipeline(`
steps:
  - id: b
    workspace: own
    retry: { attempts: 2, backoff: 1ms }
    run: "echo x >> x; git add x; git commit -qm x; git log --format=%s > log; test $PERDURE_ATTEMPT = 2"
`);
    good(await project.run(["run", "p.yaml"], { env: IDENTITY }));
    expect(project.read("log")).toBe("x\nbegin\n");
    expect(project.read("x")).toBe("x\n");
  });

  it("works in the part of the project in which the run began, in each attempt", async () => {
    repository();
    fs.mkdirSync(project.path("part"));
    project.write(join("part", "in"), "in\n");
    git("add", "part");
    git("commit", "-qm", "part");
    const work = [
      "cat in ../readme > out; git log --format=%s > before",
      "echo x >> x; git add x; git commit -qm x; git log --format=%s > log",
    ];
    const yaml = `
steps:
  - id: b
    workspace: own
    retry: { attempts: 2, backoff: 1ms }
    run: "${work.join("; ")}; test $PERDURE_ATTEMPT = 2"
`;
    project.write(join("part", "p.yaml"), yaml);
    good(await project.run(["run", "p.yaml"], { env: IDENTITY, cwd: project.path("part") }));
    const read = (name: string): string => project.read("part", name);
    expect([read("out"), read("before")]).toEqual(["in\none\ntwo\nthree\n", "part\nbegin\n"]);
    expect([read("log"), read("x")]).toEqual(["x\npart\nbegin\n", "x\n"]);
  });
});

describe("a step with a workspace of its own", () => {
  const yaml = (left: string, right: string): string => `
workspace: worktree
steps:
  - { id: left, needs: [], workspace: own, run: "${left}" }
  - { id: right, needs: [], workspace: own, run: "${right}" }
  - { id: after, needs: [left, right], run: "cat readme" }
`;

  it("is merged back in the order of the plan", async () => {
    repository();
    const hold = project.hold("left");
    pipeline(
      yaml(
        `${hold.command}; sed -i s/one/ONE/ readme; echo l > l`,
        "sed -i s/three/THREE/ readme; echo r > r",
      ),
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.release();
    good(await runner.ended);
    expect(await workspaceFile("readme")).toBe("ONE\ntwo\nTHREE\n");
    expect(await workspaceFile("l")).toBe("l\n");
    const done = [...runner.stdout.matchAll(/✓ (\w+) completed/g)].map((match) => match[1]);
    expect(done).toEqual(["left", "right", "after"]);
  });

  it("stops at a conflict, and continues when it is resolved, without doing the work again", async () => {
    repository();
    pipeline(
      yaml(
        `sed -i s/two/LEFT/ readme; ${effect("left")}`,
        `sed -i s/two/RIGHT/ readme; ${effect("right")}`,
      ),
    );
    const stopped = await project.run(["run", "p.yaml"]);
    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toContain(
      "a merge conflict: its work does not fit what other steps did in readme",
    );
    const [, place = ""] =
      /Resolve the conflict markers \(<{7}\) in (\S+), then/.exec(stopped.stdout) ?? [];
    expect(project.read(place, "readme")).toContain("<<<<<<<");
    const again = await project.run(["resume", await project.newestId()]);
    expect(again.exit, again.stdout).toBe(3);
    project.write(join(place, "readme"), "one\nBOTH\nthree\n");
    good(await project.run(["resume", await project.newestId()]));
    expect(await workspaceFile("readme")).toBe("one\nBOTH\nthree\n");
    expect(project.effects()).toEqual({ left: 1, right: 1 });
  });
});

describe("snapshots", () => {
  it("are taken during long steps, and the receipt names files that are too large", async () => {
    repository();
    const hold = project.hold("long");
    pipeline(`
workspace: { kind: worktree, max_file_mb: 1, snapshot_every: 50ms }
steps:
  - { id: work, run: "echo half > half; head -c 2000000 /dev/zero > big; ${hold.command}" }
`);
    const runner = project.start(["run", "p.yaml", "--json"]);
    await runner.printed("step.saved");
    await hold.release();
    good(await runner.ended);
    const [id = ""] = await project.runIds();
    expect(saved(`refs/perdure/${id}/work@1.1/during`, "half")).toBe("half\n");
    const receipt = JSON.parse(
      project.read(".perdure", "runs", id, "receipts", "work-shell.json"),
    ) as { snapshot: object };
    expect(receipt.snapshot).toMatchObject({ skipped: [{ path: "big", why: "too-large" }] });
  });
});
