/** `perdure clean`: what it removes, what it keeps and why, and what is left after a kill. */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { KeptProject } from "../rig/kept-project.ts";
import { Project } from "../rig/project.ts";
import { kilobytes, snapshotNames, userGit, userState } from "../workspace/rig.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

const PLAIN = "workspace: { snapshots: false }";

function withGit(): void {
  userGit(project.dir, "init", "-q", "-b", "main");
  project.write(".gitignore", ".perdure/\n");
  project.write("a.txt", "a\n");
  userGit(project.dir, "add", ".gitignore", "a.txt");
  userGit(project.dir, "commit", "-q", "-m", "first");
}

/** A run whose only step does this; gives its id. */
async function run(work: string, { workspace = PLAIN, name = "p" } = {}): Promise<string> {
  project.write(
    `${name}.yaml`,
    `name: ${name}
${workspace}
steps:
  - id: one
    run: |
      echo "\${PERDURE_RUN_ID}" > "$PERDURE_OUTPUT_ID"; echo same > "$PERDURE_OUTPUT_SAME"
      ${work}
    outputs: { id: "\${{ run.id }}.id", same: same }
`,
  );
  await project.run(["run", `${name}.yaml`]);
  const [id = ""] = await project.runIds();
  return id;
}

/** The ids of runs whose files are there. */
function folders(): readonly string[] {
  return fs.readdirSync(project.path(".perdure", "runs")).toSorted();
}

function artifacts(): readonly string[] {
  return fs
    .globSync(project.path(".perdure", "artifacts", "*", "*"))
    .map((path) => fs.readFileSync(path, "utf8").trim())
    .toSorted();
}

function refs(): string {
  return [...snapshotNames(project.dir).keys()].join("\n");
}

function lines(text: string): readonly string[] {
  return text.trim().split("\n");
}

describe("chooses runs", () => {
  it("by state, by age, by number and by size, with their own artifacts", async () => {
    const good = await run("true");
    const bad = await run("false", { name: "bad" });
    const big = await run('head -c 300000 /dev/zero > "$PERDURE_ATTEMPT_DIR/zeros"');
    const short = (id: string): string => id.slice(0, 8);
    const would = async (...args: readonly string[]): Promise<readonly string[]> => {
      const said = lines(await project.must(["clean", "--dry-run", ...args]));
      return said.filter((line) => line.includes("would remove")).map((line) => line.slice(0, 8));
    };
    expect(await would()).toEqual([big, good].map(short));
    expect(await would("--status", "failed")).toEqual([short(bad)]);
    expect(await would("--status", "completed,failed")).toEqual([big, bad, good].map(short));
    expect(await would("--all", "--keep-last", "1")).toEqual([bad, good].map(short));
    expect(await would("--all", "--keep-last", "3")).toEqual([]);
    expect(await would("--all", "--max-size", "250KB")).toEqual([big, bad, good].map(short));
    expect(await would("--all", "--max-size", "1GB")).toEqual([]);
    expect(await would("--older-than", "1d")).toEqual([]);
    expect(folders()).toEqual([good, bad, big].toSorted());
    expect(await project.must(["clean", "--dry-run", big])).toMatch(/Total: (29|3\d)\d\.\d KB/);

    const refusals: readonly (readonly [readonly string[], string])[] = [
      [["--status", "done"], '--status takes completed, failed, interrupted, waiting, not "done"'],
      [["--keep-last", "-1"], '--keep-last takes a whole number, not "-1"'],
      [["--max-size", "big"], '--max-size takes a size such as 500MB or 2GB, not "big"'],
    ];
    for (const [args, message] of refusals) {
      const { exit, stderr } = await project.run(["clean", ...args]);
      expect({ exit, stderr }).toEqual({ exit: 2, stderr: `error: ${message}\n` });
    }

    // What goes with a run is what no other run names.
    expect(artifacts()).toEqual([good, big, "same"].toSorted());
    await project.must(["clean", good]);
    expect(folders()).toEqual([bad, big].toSorted());
    expect(artifacts()).toEqual([big, "same"].toSorted());
    await project.must(["clean", big]);
    expect(artifacts()).toEqual([]);
  });
});

describe("removes", () => {
  it("no artifact while another run is running", async () => {
    const first = await run("true");
    const hold = project.hold("x");
    project.write("held.yaml", `${PLAIN}\nsteps:\n  - { id: one, run: "${hold.command}" }\n`);
    const runner = project.start(["run", "held.yaml"]);
    await hold.arrived();
    expect(await project.must(["clean", "--all"])).toContain("  kept: it is running\n");
    expect(folders()).not.toContain(first);
    expect(artifacts()).toEqual([first, "same"].toSorted());
    await hold.release();
    expect((await runner.ended).exit).toBe(0);
    await project.must(["clean"]);
    expect(artifacts()).toEqual([]);
  });

  it("snapshots, and leaves the user's repository as it was", async () => {
    withGit();
    project.write("a.txt", "stashed\n");
    userGit(project.dir, "stash");
    project.write("a.txt", "staged\n");
    userGit(project.dir, "add", "a.txt");
    project.write("a.txt", "changed\n");
    const id = await run("true", { workspace: "workspace: here" });
    const other = await run("true", { workspace: "workspace: here" });
    const before = userState(project.dir);
    expect(refs()).toContain(`refs/perdure/${id}/`);
    expect(refs()).toContain(`refs/perdure-heads/${id}/`);
    await project.must(["clean", id]);
    expect(refs()).not.toContain(id);
    expect(refs()).toContain(`refs/perdure/${other}/`);
    expect(userState(project.dir)).toEqual(before);
    expect(userGit(project.dir, "fsck", "--no-dangling")).toBe("");
  });
});

describe("a worktree", () => {
  const WORKTREE = { workspace: "workspace: { kind: worktree, commit: never }" };
  const COMMIT = "git -c user.name=x -c user.email=x@x commit -qm work";
  const branches = (): string => userGit(project.dir, "branch", "--format=%(refname:short)");

  it("is kept if its work is nowhere else, unless forced", async () => {
    withGit();
    const id = await run("true", WORKTREE);
    const short = id.slice(0, 8);
    const kept = (what: string): RegExp =>
      new RegExp(`^${short} {2}kept: .*${what}.*or: perdure clean ${short} --force\n`);
    expect(await project.must(["clean"])).toMatch(kept("has 2 changed files that no commit holds"));
    expect(await project.must(["clean", "--dry-run"])).toMatch(kept("no commit holds"));
    const tree = project.path(".perdure", "runs", id, "workspace");
    userGit(tree, "add", "-A");
    userGit(tree, "commit", "-q", "-m", "work");
    expect(await project.must(["clean", id])).toMatch(
      kept("has 1 commit that no other branch has"),
    );
    expect(folders()).toEqual([id]);
    expect((await project.run(["resume", id])).exit).toBe(0);
    await project.must(["clean", id, "--force"]);
    expect(folders()).toEqual([]);
    expect(branches()).toBe("main\n");
    expect(userGit(project.dir, "worktree", "list").trim().split("\n")).toHaveLength(1);
  });

  it("is removed with its branch if its work was merged, unless the branch is checked out", async () => {
    withGit();
    const id = await run(`git add -A; ${COMMIT}`, WORKTREE);
    const branch = `perdure/${id.slice(0, 8)}`;
    const tree = project.path(".perdure", "runs", id, "workspace");
    userGit(tree, "switch", "-q", "--detach");
    userGit(project.dir, "switch", "-q", branch);
    expect(await project.must(["clean", id, "--force"])).toContain(
      `kept: the branch ${branch} is checked out in`,
    );
    expect(folders()).toEqual([id]);
    userGit(project.dir, "switch", "-q", "main");
    userGit(tree, "switch", "-q", branch);

    userGit(project.dir, "merge", "-q", branch);
    const { reflog: _before, ...before } = userState(project.dir);
    expect(await project.must(["clean"])).toContain(`removed ${project.path(".perdure")}`);
    expect(branches()).toBe("main\n");
    expect(refs()).toBe("");
    const { reflog: _after, ...after } = userState(project.dir);
    expect(after).toMatchObject({ status: before.status, index: before.index });
  });

  it("is removed completely by the next clean, wherever the first one was killed", async () => {
    withGit();
    const { reflog: _before, ...before } = userState(project.dir);
    const id = await run("true", WORKTREE);
    fs.rmSync(project.path("p.yaml"));
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    let kills = 0;
    for (let nth = 1; ; nth += CRASH_ALL ? 1 : 3) {
      await project.remove();
      kept.putBack();
      const env = { PERDURE_FAILPOINT: String(nth) };
      const killed = await project.run(["clean", id, "--force"], { env });
      if (killed.signal !== null) {
        kills++;
        expect(checkJournal(project.path(".perdure", "state.db"))).toEqual([]);
        await project.must(["clean", "--all", "--force"]);
      }
      const { reflog: _after, ...after } = userState(project.dir);
      expect(after).toEqual(before);
      expect(folders()).toEqual([]);
      expect(refs()).not.toContain("perdure");
      expect(artifacts()).toEqual([]);
      expect(userGit(project.dir, "fsck", "--no-dangling")).toBe("");
      if (killed.signal === null) break;
    }
    expect(kills).toBeGreaterThan(4);
  });
});

it("frees the disk space of a cleaned run in a project without git", async () => {
  const id = await run("head -c 200000 /dev/urandom > big", { workspace: "workspace: directory" });
  const store = project.path(".perdure", "snapshots.git");
  expect(refs()).toContain(id);
  expect(kilobytes(store)).toBeGreaterThan(200);
  await project.must(["clean"]);
  expect(refs()).toBe("");
  expect(kilobytes(store)).toBeLessThan(100);
  expect(folders()).toEqual([]);
});
