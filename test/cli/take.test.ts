/**
 * A worktree run from its start to the branch, the merge and the pull request, with kills in
 * between.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import { eventually, Project, type Result } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

function git(...args: readonly string[]): string {
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  return execFileSync("git", args, {
    cwd: project.dir,
    env,
    encoding: "utf8",
    stdio: "pipe",
  }).trim();
}

function repository(yaml: string): void {
  git("init", "-q", "-b", "main");
  git("config", "user.name", "Ann");
  git("config", "user.email", "ann@example.org");
  project.write("readme", "one\n");
  project.write(".gitignore", "bin\ncalls\nopened\norigin\neffects\n");
  project.write("p.yaml", yaml);
  git("add", ".");
  git("commit", "-qm", "begin");
}

const STEPS = `
  - { id: one, run: "echo two >> readme" }
  - { id: look, run: "cat readme" }
  - { id: two, run: "echo 2 > added" }
`;

function good(result: Result): Result {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
  return result;
}

/** The run that most tests begin with is made once, and put back for each of them. */
let made: Made | undefined;
interface Made {
  readonly kept: KeptProject;
  readonly result: Result;
  /** The failpoints that it has passed. */
  readonly passed: readonly string[];
}
afterAll(() => made?.kept.forget());

/** A worktree run of three steps that has completed, with two commits. */
async function completed(): Promise<Made> {
  if (made === undefined) {
    repository(`name: change\nworkspace: worktree\nsteps:${STEPS}`);
    const log = `${project.dir}.failpoints`;
    const env = { PERDURE_FAILPOINT_LOG: log };
    const result = good(await project.run(["run", "p.yaml"], { env }));
    const passed = fs.readFileSync(log, "utf8").trim().split("\n");
    fs.rmSync(log);
    made = { kept: new KeptProject(project), result, passed };
  } else {
    await project.remove();
    project = made.kept.project;
    made.kept.putBack();
  }
  return made;
}

/** The subject of each commit after the first, oldest first, with the steps that it names. */
function commitsOn(branch: string): readonly string[] {
  const format = "--format=%s|%(trailers:key=Perdure-Step,valueonly,separator=%x2C)";
  const text = git("log", "--reverse", format, `main..${branch}`);
  return text === "" ? [] : text.split("\n");
}

async function branchName(): Promise<string> {
  return `perdure/${(await project.newestId()).slice(0, 8)}`;
}

describe("a worktree run", () => {
  it("commits the changes of each completed step, and says where they are", async () => {
    const { stdout } = (await completed()).result;
    const branch = await branchName();
    expect(commitsOn(branch)).toEqual(["change: one|one@1", "change: two|two@1"]);
    expect(git("log", "-1", "--format=%an %(trailers:key=Perdure-Run,valueonly)", branch)).toBe(
      `Ann ${await project.newestId()}`,
    );
    expect(stdout).toContain(`branch  ${branch}: 2 commits, 2 files, +2 -0, nothing uncommitted`);
    expect(stdout).toContain(`look    git diff main...${branch}`);
    expect(stdout).toMatch(/take {4}perdure merge [0-9a-f]{8}/);
    for (const command of ["show", "why"]) {
      expect((await project.run([command])).stdout).toContain(`branch  ${branch}: 2 commits`);
      const { result } = JSON.parse(await project.must([command, "--json"])) as { result: object };
      expect(result).toMatchObject({ branch, commits: 2, files_changed: 2, merged: false });
      expect(result).toMatchObject({ look: `git diff main...${branch}`, base_moved: 0 });
    }
    expect(git("status", "--porcelain")).toBe("");
  });

  it("commits once at its end, or never, as the author chooses; `apply` takes that, too", async () => {
    repository(`name: change\nworkspace: { kind: worktree, commit: end }\nsteps:${STEPS}`);
    good(await project.run(["run", "p.yaml"]));
    expect(commitsOn(await branchName())).toEqual(["change: one, two|one@1,two@1"]);

    project.write("p.yaml", `workspace: { kind: worktree, commit: never }\nsteps:${STEPS}`);
    const { stdout } = good(await project.run(["run", "p.yaml"]));
    expect(commitsOn(await branchName())).toEqual([]);
    expect(stdout).toMatch(/branch {2}perdure\/.*0 commits, .*2 uncommitted files/);
    expect(stdout).toMatch(/take {4}perdure apply/);
    const refused = await project.run(["merge"]);
    expect(refused.exit).not.toBe(0);
    expect(refused.stderr).toMatch(/has no commits; 2 changed files in .*\n.*perdure apply/);

    // The files are changed beside those of the user's, once, and nothing is committed.
    git("add", "p.yaml");
    git("commit", "-qm", "never");
    project.write("mine", "mine\n");
    expect(good(await project.run(["apply"])).stdout).toContain("Changed 2 files in");
    expect(git("status", "--porcelain").split("\n").toSorted()).toEqual(
      [" M readme", "?? added", "?? mine"].map((line) => line.trim()).toSorted(),
    );
    expect(good(await project.run(["apply"])).stdout).toContain("already has the changes");
    expect(git("rev-list", "--count", "main")).toBe("2");
  });

  it("keeps the commit of a step when another step starts again from its files", async () => {
    const failsOnce = `test -e '${project.path("failed")}' || { touch '${project.path("failed")}'; exit 1; }`;
    const own = `echo 2 > added; git add added; git commit -qm own; ${failsOnce}`;
    const steps = (retry: string): string => `
  - { id: one, run: "echo two >> readme" }
  - { id: two, ${retry}run: "${own}" }
`;
    repository(`name: change\nworkspace: worktree\nsteps:${steps("retry: 2, ")}`);
    good(await project.run(["run", "p.yaml"]));
    expect(commitsOn(await branchName())).toEqual(["change: one|one@1", "own|"]);

    // The same where a person retries the step, and the directory has gone meanwhile.
    fs.rmSync(project.path("failed"));
    project.write("p.yaml", `name: change\nworkspace: worktree\nsteps:${steps("")}`);
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    const id = await project.newestId();
    fs.rmSync(project.path(".perdure", "runs", id, "workspace"), { recursive: true });
    good(await project.run(["resume", id]));
    expect(commitsOn(await branchName())).toEqual(["change: one|one@1", "own|"]);
  });

  it("commits the content of snapshots on the branch of a step, and nothing of a failed one", async () => {
    const make = "mkdir node_modules; echo m > node_modules/m; echo 1 > kept; echo 2 > späť";
    const own = "git switch -qc mine; echo x > x; git add x; git commit -qm own; echo y > y";
    repository(
      `name: change\nworkspace: worktree\nsteps:\n  - { id: one, run: "${make}" }\n` +
        `  - { id: two, run: "${own}" }\n  - { id: three, run: "echo half > half; exit 1" }\n`,
    );
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    const branch = await branchName();
    const files = (name: string): readonly string[] =>
      git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", name).split("\n");
    expect(commitsOn(branch)).toEqual(["change: one|one@1"]);
    const begun = [".gitignore", "kept", "p.yaml", "readme", "späť"];
    expect(files(branch).toSorted()).toEqual(begun);
    // A step has switched to another branch: its own commit comes first.
    expect(commitsOn("mine")).toEqual(["change: one|one@1", "own|", "change: two|two@1"]);
    expect(files("mine").toSorted()).toEqual([...begun, "x", "y"].toSorted());
  });

  it("names the uncommitted changes that it lacks, or includes them", async () => {
    repository(`workspace: worktree\nsteps:\n  - { id: one, run: "cat readme new || true" }\n`);
    project.write("readme", "changed\n");
    project.write("new", "new\n");
    fs.mkdirSync(project.path("node_modules"));
    project.write("node_modules/x", "x");
    const without = good(await project.run(["run", "p.yaml"])).stdout;
    expect(without).toMatch(/worktree lacks 3 uncommitted files: .*readme.*include: uncommitted/);
    expect(without).toContain("one │ one\n");

    const steps = 'steps:\n  - { id: one, run: "cat readme new; ls; echo 1 > one" }\n';
    project.write("p.yaml", `workspace: { kind: worktree, include: uncommitted }\n${steps}`);
    const before = git("status", "--porcelain");
    const { stdout } = good(await project.run(["run", "p.yaml"]));
    expect(stdout).toContain("one │ changed\none │ new\n");
    expect(stdout).not.toContain("node_modules");
    expect(git("status", "--porcelain")).toBe(before);
    const files = git("ls-tree", "-r", "--name-only", await branchName()).split("\n");
    expect(files).toEqual([".gitignore", "new", "one", "p.yaml", "readme"]);
    // What the user has already is not applied again.
    expect(good(await project.run(["apply"])).stdout).toContain("Changed 1 file in");
  });

  it("has the commits of the steps that a fork keeps", async () => {
    await completed();
    const id = await project.newestId();
    good(await project.run(["fork", id, "--at", "two"]));
    expect(await project.newestId()).not.toBe(id);
    good(await project.run(["resume"]));
    const both = ["change: one|one@1", "change: two|two@1"];
    expect(commitsOn(await branchName())).toEqual(both);
    expect(commitsOn(`perdure/${id.slice(0, 8)}`)).toEqual(both);
    // A step before whose commit the fork starts is committed there.
    good(await project.run(["fork", id, "--at", "one", "--start"]));
    expect(commitsOn(await branchName())).toEqual(both);
  });

  it("completes although git cannot commit or add, and says so", async () => {
    const lock = 'touch \\"$(git rev-parse --git-dir)/index.lock\\"; echo 2 > two';
    repository(`name: change
workspace: worktree
steps:
  - { id: one, run: "echo 1 > one" }
  - { id: two, run: "${lock}" }
`);
    // It ends as if there were nothing to commit.
    const path = process.env.PATH ?? "";
    const text = `#!/bin/sh
case "$*" in *"commit --quiet"*) echo "error: Error building trees" >&2; exit 1 ;; esac
PATH='${path}' exec git "$@"
`;
    fs.mkdirSync(project.path("bin"));
    fs.writeFileSync(project.path("bin/git"), text, { mode: 0o755 });
    const env = { PATH: `${project.path("bin")}:${path}` };
    const { stdout } = good(await project.run(["run", "p.yaml"], { env }));
    expect(stdout).toContain("the work of one@1 is not committed: git commit failed in");
    expect(stdout).toMatch(/the work of two@1 is not committed: git add failed .*index\.lock/);
    expect(stdout).toContain("0 commits, 0 files, +0 -0, 2 uncommitted files");
  });

  it("waits for the git process of a killed owner, which still adds the work of a step", async () => {
    const adding = project.hold("adding");
    repository(`name: change
workspace: worktree
steps:
  - { id: one, run: "echo 1 > one" }
  - { id: two, run: "echo 2 > two" }
`);
    project.write(".gitattributes", "one filter=slow\n");
    git("add", ".");
    git("commit", "-qm", "attributes");
    // The first git that adds the file waits, and holds the lock of the index.
    const once = `mkdir '${project.path(".git", "once")}' 2> /dev/null`;
    git("config", "filter.slow.clean", `if ${once}; then ${adding.command}; fi; cat`);
    const first = project.start(["run", "p.yaml"]);
    await adding.arrived();
    await first.kill();
    // This git is the real one, and names what it is asked for.
    const path = process.env.PATH ?? "";
    const text = `#!/bin/sh\necho "$*" >> '${project.path("calls")}'\nPATH='${path}' exec git "$@"\n`;
    fs.mkdirSync(project.path("bin"));
    fs.writeFileSync(project.path("bin/git"), text, { mode: 0o755 });
    const env = { PATH: `${project.path("bin")}:${path}` };
    const second = project.start(["resume"], { env });
    await eventually(
      "the second owner adds the work, too",
      () => project.exists("calls") && project.read("calls").includes(" add -A"),
    );
    await adding.release();
    const { stdout } = good(await second.ended);
    expect(stdout).not.toContain("not committed");
    expect(commitsOn(await branchName())).toEqual(["change: one|one@1", "change: two|two@1"]);
  });

  it("leaves a merge alone that a step has begun, and says so", async () => {
    const begin =
      "git switch -qc other; echo a > readme; git commit -qam a; git switch -q -; " +
      "echo b > readme; git commit -qam b; git merge -q other || true";
    repository(`name: change\nworkspace: worktree\nsteps:\n  - { id: one, run: "${begin}" }\n`);
    const { stdout } = good(await project.run(["run", "p.yaml"]));
    expect(stdout).toContain("the work of one@1 is not committed: a merge is under way in");
  });
});

describe("perdure merge", () => {
  it("moves the branch forward, once, overwrites nothing, and lets `clean` remove the run", async () => {
    await completed();
    const branch = await branchName();
    expect((await project.run(["clean"])).stdout).toContain("has 2 commits that no other branch");

    project.write("readme", "local\n");
    const refused = await project.run(["merge"]);
    expect(refused.stderr).toContain("commit or stash your changes, then: perdure merge");
    expect(project.read("readme")).toBe("local\n");
    git("stash", "-q");

    const { stdout } = good(await project.run(["merge"]));
    expect(stdout).toMatch(/^Merged perdure\/\w+ \(2 commits\) into main, which is now at \w+\.$/m);
    expect(git("rev-parse", "main")).toBe(git("rev-parse", branch));
    expect(project.read("readme")).toBe("one\ntwo\n");
    expect(good(await project.run(["merge"])).stdout).toContain("main already has the work of run");
    // The command that shows the commits shows them also now.
    const [, ...look] = /look {4}git (.*)/.exec(await project.must(["show"])) ?? [];
    expect(git(...(look[0] ?? "").split(" "), "--stat")).toContain("2 files changed");

    good(await project.run(["clean"]));
    expect(git("branch", "--list", branch)).toBe("");
  });

  it("joins both branches when there are new commits, and announces it", async () => {
    await completed();
    project.write("mine", "mine\n");
    git("add", "mine");
    git("commit", "-qm", "mine");
    const shown = (await project.run(["show"])).stdout;
    expect(shown).toContain("note    main has 1 new commit since the run started");
    expect((await project.run(["merge", "--ff-only"])).exit).not.toBe(0);
    good(await project.run(["merge"]));
    expect(git("rev-list", "--count", "--merges", "main")).toBe("1");
    expect([project.read("mine"), project.read("added")]).toEqual(["mine\n", "2\n"]);
    expect(git("status", "--porcelain")).toBe("");
  });

  it("makes one commit of all, once", async () => {
    await completed();
    good(await project.run(["merge", "--squash"]));
    good(await project.run(["merge", "--squash"]));
    expect(git("rev-list", "--count", "main")).toBe("2");
    expect(project.read("added")).toBe("2\n");
  });

  it("names the files in conflict and changes nothing", async () => {
    await completed();
    project.write("readme", "three\n");
    git("commit", "-qam", "mine");
    const before = git("rev-parse", "main");
    const refused = await project.run(["merge"]);
    expect(refused.exit).not.toBe(0);
    expect(refused.stderr).toMatch(/conflicts with main in readme; nothing changed/);
    expect(refused.stderr).toMatch(/git merge perdure\/\w+/);
    expect([git("rev-parse", "main"), git("status", "--porcelain")]).toEqual([before, ""]);
  });

  it("refuses a run in the project itself", async () => {
    repository(`steps:\n  - { id: one, run: "echo 1 > one" }\n`);
    good(await project.run(["run", "p.yaml"]));
    const refused = await project.run(["merge"]);
    expect(refused.stderr).toContain("has no branch to take: it worked in the project itself");
  });
});

describe("perdure apply", () => {
  it("changes nothing when a file does not fit", async () => {
    await completed();
    project.write("readme", "something else\n");
    const refused = await project.run(["apply"]);
    expect(refused.stderr).toContain("do not fit the files in");
    expect([project.read("readme"), project.exists("added")]).toEqual(["something else\n", false]);
  });
});

/** A stand-in for `gh` that keeps its pull requests in a file, and counts those that it opens. */
function standInForGh(): { readonly PATH: string } {
  fs.mkdirSync(project.path("bin"));
  const opened = project.path("opened");
  const script = `#!/bin/sh
case "$1 $2" in
"pr list") test -e '${opened}' && echo '[{"url":"https://example.org/pr/1"}]' || echo '[]' ;;
"pr create") echo "$*" >> '${opened}'; echo https://example.org/pr/1 ;;
esac
`;
  fs.writeFileSync(project.path("bin", "gh"), script, { mode: 0o755 });
  git("init", "-q", "--bare", "origin");
  git("remote", "add", "origin", project.path("origin"));
  return { PATH: `${project.path("bin")}:${process.env.PATH}` };
}

describe("perdure pr", () => {
  it("pushes the branch and opens a pull request, once, also after gh has failed", async () => {
    await completed();
    const env = standInForGh();
    const gh = project.read("bin", "gh");
    fs.writeFileSync(project.path("bin", "gh"), "#!/bin/sh\necho not logged in >&2; exit 4\n");
    const refused = await project.run(["pr"], { env });
    expect(refused.exit).not.toBe(0);
    expect(refused.stderr).toMatch(/gh pr list: not logged in\n.*perdure pr [0-9a-f]{8}/);

    fs.writeFileSync(project.path("bin", "gh"), gh);
    const first = good(await project.run(["pr", "--title", "A change"], { env }));
    expect(first.stdout).toBe("Opened https://example.org/pr/1\n");
    const again = good(await project.run(["pr"], { env }));
    expect(again.stdout).toBe("The pull request already exists: https://example.org/pr/1\n");
    const branch = await branchName();
    expect(project.read("opened")).toContain(`--head ${branch} --base main --title A change`);
    expect(project.read("opened").trim().split("\n").length).toBe(1);
    expect(git("-C", "origin", "rev-parse", branch)).toBe(git("rev-parse", branch));
  });

  it("names what is missing: a remote, or a program", async () => {
    await completed();
    const none = join(project.dir, "bin");
    fs.mkdirSync(none);
    fs.symlinkSync(execFileSync("which", ["git"], { encoding: "utf8" }).trim(), join(none, "git"));
    const refused = await project.run(["pr"], { env: { PATH: none } });
    expect(refused.stderr).toContain("neither gh (GitHub) nor glab (GitLab) is on the PATH");
  });
});

describe("a kill at any point", () => {
  const BRANCH = "begin\nchange: one\nchange: two";
  const subjects = (name: string): string => git("log", "--reverse", "--format=%s", name);

  /** Runs the program; gives the failpoints that it has passed, and whether it was killed at the last. */
  async function passing(
    words: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<{ readonly points: readonly string[]; readonly isKilled: boolean }> {
    const log = project.path("bin", "failpoints");
    fs.rmSync(log, { force: true });
    const kill = { ...env, PERDURE_FAILPOINT_LOG: log };
    const result = await project.run(words, { env: kill });
    const isKilled = result.signal === "SIGKILL";
    if (!isKilled) good(result);
    const points = fs.existsSync(log) ? fs.readFileSync(log, "utf8").trim().split("\n") : [];
    return { points, isKilled };
  }

  /** A run that dies at a failpoint, `name:n` for the n-th of its name, and is resumed. */
  async function walk(failpoint: string): Promise<void> {
    await project.remove();
    project = new Project();
    repository(`name: change\nworkspace: worktree\nsteps:${STEPS}`);
    const env = { PERDURE_FAILPOINT: failpoint };
    expect((await project.run(["run", "p.yaml"], { env })).signal).toBe("SIGKILL");
    good(await project.run(["resume"]));
    expect(subjects(await branchName())).toBe(BRANCH);
    expect(subjects("main")).toBe("begin");
    const branch = await branchName();
    const files = ["readme", "added"].map((name) => git("show", `${branch}:${name}`));
    expect(files).toEqual(["one\ntwo", "2"]);
    const names = git("ls-tree", "-r", "--name-only", branch).split("\n");
    expect(names).toEqual([".gitignore", "added", "p.yaml", "readme"]);
    expect(git("status", "--porcelain")).toBe("");
    git("fsck", "--no-dangling");
  }

  it("leaves each commit of a run once", async () => {
    const { passed } = await completed();
    const ours = (point: string): boolean => point.startsWith("workspace.work-");
    expect(passed.filter(ours)).toEqual([
      ...["workspace.work-added", "workspace.work-committed"],
      // The commit before has moved HEAD: the step that only looks is looked at.
      "workspace.work-added",
      ...["workspace.work-added", "workspace.work-committed"],
    ]);
    // By name: what else the run writes meanwhile has failpoints of its own, at any time.
    for (const failpoint of ["added:1", "committed:1", "added:2", "added:3", "committed:2"]) {
      await walk(`workspace.work-${failpoint}`);
    }
    // The result of a run that was killed can be taken like any other.
    const env = standInForGh();
    good(await project.run(["pr"], { env }));
    expect(git("-C", "origin", "rev-parse", await branchName())).toBe(
      git("rev-parse", await branchName()),
    );
    good(await project.run(["merge"]));
    expect(git("rev-parse", "main")).toBe(git("rev-parse", await branchName()));
  });

  it("opens each pull request and makes each merge commit once", async () => {
    await completed();
    const env = standInForGh();
    const passed: string[] = [];
    for (const words of [["pr"], ["merge", "--squash"]]) {
      for (let at: number | undefined = 1; at !== undefined; ) {
        const kill = { ...env, PERDURE_FAILPOINT: String(at) };
        const { points, isKilled } = await passing(words, kill);
        if (isKilled) passed.push(...points.slice(-1));
        at = isKilled ? points.length + 1 : undefined;
      }
      // What is done is not done again.
      good(await project.run(words, { env }));
    }
    expect(passed.filter((point) => point.startsWith("take."))).toEqual([
      ...["take.pushed", "take.opened", "take.commit-made", "take.merged"],
    ]);
    const branch = await branchName();
    expect(subjects(branch)).toBe(BRANCH);
    expect(subjects("main")).toBe("begin\nchange");
    expect(git("rev-parse", `${branch}^{tree}`)).toBe(git("rev-parse", "main^{tree}"));
    expect(project.read("opened").trim().split("\n").length).toBe(1);
    expect(git("status", "--porcelain")).toBe("");
    git("fsck", "--no-dangling");
  });
});
