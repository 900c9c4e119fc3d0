/** Worktrees: made, looked at in every state, repaired, removed. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findRepository, type Repository } from "../../src/workspace/repository.ts";
import { headWith } from "../../src/workspace/snapshot/details.ts";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { returnCommit, type SnapshotStore } from "../../src/workspace/snapshot/store.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/snapshot/workspace.ts";
import { moveHead } from "../../src/workspace/worktree/own-worktree.ts";
import {
  createWorktree,
  removeWorktree,
  repairWorktree,
  stateOfWorktree,
  type WorktreeState,
} from "../../src/workspace/worktree/worktree.ts";
import { contentOf, gitProject, open, scratch, userGit, userState, write } from "./rig.ts";

const BRANCH = "perdure/1a2b3c4d";
const REF = "refs/perdure/r1/one";

class Rig {
  readonly project = gitProject({ ".gitignore": ".env\nnode_modules/\n", "a.txt": "a\n" });
  readonly path = join(this.project, ".perdure", "runs", "r1", "tree");
  readonly base = userGit(this.project, "rev-parse", "HEAD").trim();
  repository!: Repository;
  store!: SnapshotStore;

  async start(): Promise<this> {
    this.store = (await open(this.project)).store;
    const repository = await findRepository(this.project);
    if (repository === undefined) throw new Error("no repository");
    this.repository = repository;
    return this;
  }

  get place(): Parameters<typeof removeWorktree>[0] {
    return { repository: this.repository, path: this.path, branch: BRANCH };
  }

  async create(): Promise<void> {
    await createWorktree({ ...this.place, base: "HEAD", include: [".env"] });
  }

  async workspace(): Promise<Workspace> {
    const indexFile = join(this.project, ".perdure", "runs", "r1", "index");
    return openWorkspace(this.store, { path: this.path, indexFile, include: [".env"] });
  }

  /** A worktree with a commit, a changed file and a snapshot of both. */
  async worked(): Promise<{ workspace: Workspace; commit: string; tip: string }> {
    await this.create();
    write(this.path, { "done.txt": "committed\n" });
    userGit(this.path, "add", "-A");
    userGit(this.path, "commit", "-q", "-m", "work");
    write(this.path, { "a.txt": "changed\n", "new.txt": "n\n" });
    const workspace = await this.workspace();
    const { commit } = await takeSnapshot(workspace, { ref: REF, message: "m" });
    return { workspace, commit, tip: userGit(this.path, "rev-parse", "HEAD").trim() };
  }

  async state(): Promise<WorktreeState> {
    const { project, path } = this;
    return stateOfWorktree({ project, path, branch: BRANCH, mayBeHalfMade: false });
  }
}

describe("a worktree", () => {
  it("is made from a commit, on its branch, with the ignored files that are named", async () => {
    const rig = await new Rig().start();
    write(rig.project, { ".env": "secret", "node_modules/m.js": "m", "a.txt": "not committed" });
    const trace = join(rig.project, ".git", "hook-ran");
    write(rig.project, { ".git/hooks/post-checkout": `#!/bin/sh\ntouch '${trace}'\n` });
    fs.chmodSync(join(rig.project, ".git/hooks/post-checkout"), 0o755);
    const { refs: _refs, ...state } = userState(rig.project);
    await rig.create();
    expect(userGit(rig.path, "rev-parse", "HEAD", BRANCH)).toBe(`${rig.base}\n${rig.base}\n`);
    expect(contentOf(rig.path)).toEqual({
      ".env": "file secret",
      ".gitignore": "file .env\nnode_modules/\n",
      "a.txt": "file a\n",
    });
    expect(userGit(rig.path, "status", "--porcelain")).toBe("");
    const { refs: _after, ...after } = userState(rig.project);
    expect({ ...after, reflog: "" }).toEqual({ ...state, reflog: "" });
    expect(fs.existsSync(trace)).toBe(false);
    expect(await rig.state()).toEqual({ status: "there" });
  });

  it("is made although a power failure has emptied the entry of another one", async () => {
    const rig = await new Rig().start();
    const other = join(scratch(), "other-tree");
    userGit(rig.project, "worktree", "add", "-q", "-b", "other", other);
    const entry = join(rig.project, ".git", "worktrees", "other-tree");
    fs.writeFileSync(join(entry, "commondir"), "");
    expect(() => userGit(rig.project, "branch", "--list")).toThrow("failed to read");
    await rig.create();
    expect(userGit(rig.path, "status", "--porcelain")).toBe("");
    expect(userGit(rig.project, "branch", "--list")).toContain("other");
  });

  it("that is there already is left as it is", async () => {
    const rig = await new Rig().start();
    const { tip } = await rig.worked();
    const before = contentOf(rig.path);
    await rig.create();
    expect(contentOf(rig.path)).toEqual(before);
    expect(userGit(rig.project, "rev-parse", BRANCH).trim()).toBe(tip);
  });

  it("that was killed while git made it is made anew, locked or without its .git", async () => {
    const rig = await new Rig().start();
    for (const [lock, torn] of [
      [true, false],
      [false, true],
      [true, true],
    ]) {
      const flags = lock === true ? ["--lock"] : [];
      userGit(rig.project, "worktree", "add", "-q", ...flags, "-b", BRANCH, rig.path);
      fs.rmSync(join(rig.path, "a.txt"));
      if (torn === true) fs.rmSync(join(rig.path, ".git"));
      await rig.create();
      expect(fs.readFileSync(join(rig.path, "a.txt"), "utf8")).toBe("a\n");
      expect(await rig.state()).toEqual({ status: "there" });
      await removeWorktree(rig.place);
    }
  });

  it("is refused where something else stands, on a branch of others, or without a commit", async () => {
    const rig = await new Rig().start();
    write(rig.path, { "mine.txt": "x" });
    await expect(rig.create()).rejects.toMatchObject({ code: "path-taken" });
    fs.rmSync(rig.path, { recursive: true });
    userGit(rig.project, "commit", "-q", "--allow-empty", "-m", "second");
    userGit(rig.project, "branch", BRANCH, rig.base);
    await expect(rig.create()).rejects.toMatchObject({ code: "branch-taken" });
    const young = scratch();
    userGit(young, "init", "-q");
    const repository = await findRepository(young);
    if (repository === undefined) throw new Error("no repository");
    const place = { repository, path: join(young, "tree"), branch: BRANCH };
    await expect(createWorktree({ ...place, base: "HEAD" })).rejects.toMatchObject({
      code: "snapshot-missing",
    });
  });
});

describe("the state of a worktree", () => {
  const STATES: Readonly<Record<WorktreeState["status"], (rig: Rig, tip: string) => void>> = {
    there: () => undefined,
    "directory-gone": ({ path }) => fs.rmSync(path, { recursive: true }),
    "both-gone": ({ project, path }) => {
      fs.rmSync(path, { recursive: true });
      userGit(project, "worktree", "prune");
      userGit(project, "branch", "-q", "-D", BRANCH);
    },
    "branch-held-elsewhere": ({ project, path }) => {
      fs.rmSync(path, { recursive: true });
      userGit(project, "worktree", "prune");
      userGit(project, "worktree", "add", "-q", join(project, "..", `held-${Date.now()}`), BRANCH);
    },
    "not-a-worktree": ({ path }) => {
      fs.rmSync(path, { recursive: true });
      write(path, { "other.txt": "x" });
    },
    "not-a-repository": ({ project }) => fs.rmSync(join(project, ".git"), { recursive: true }),
  };

  it.each(Object.entries(STATES))("is reported: %s", async (status, change) => {
    const rig = await new Rig().start();
    const { tip } = await rig.worked();
    expect(await rig.state()).toEqual({ status: "there" });
    change(rig, tip);
    expect(await rig.state()).toMatchObject({ status });
    const holder = join(rig.project, "..");
    for (const name of fs.readdirSync(holder).filter((one) => one.startsWith("held-"))) {
      fs.rmSync(join(holder, name), { recursive: true, force: true });
    }
  });

  it.each(["directory-gone", "both-gone"] as const)("is repaired: %s", async (status) => {
    const rig = await new Rig().start();
    const { commit, tip } = await rig.worked();
    const before = contentOf(rig.path);
    STATES[status](rig, tip);
    await repairWorktree({ ...rig.place, tip });
    const workspace = await rig.workspace();
    expect(await restoreSnapshot(workspace, commit)).toMatchObject({ exact: true });
    expect(contentOf(rig.path)).toEqual(before);
    expect(await rig.state()).toEqual({ status: "there" });
  });

  it.each([
    ["another branch", ["checkout", "-q", "-b", "elsewhere"]],
    ["no branch", ["checkout", "-q", "--detach"]],
    ["a branch that is gone", ["update-ref", "-d", `refs/heads/${BRANCH}`]],
    ["a branch without the first commit", ["checkout", "-q", "--orphan", "fresh"]],
  ])("is there with %s checked out, and restored with the files", async (_, change) => {
    const rig = await new Rig().start();
    const { commit, tip } = await rig.worked();
    userGit(rig.path, ...change);
    expect(await rig.state()).toEqual({ status: "there" });
    const head = await headWith(rig.store, commit);
    await moveHead(rig.store, rig.path, head ?? { commit, branch: undefined });
    expect(userGit(rig.path, "rev-parse", "HEAD").trim()).toBe(tip);
    userGit(rig.path, "commit", "-q", "--allow-empty", "-m", "goes on");
  });

  it("is mended when git's file in it was cut short", async () => {
    const rig = await new Rig().start();
    await rig.worked();
    fs.writeFileSync(join(rig.path, ".git"), "");
    expect(await rig.state()).toEqual({ status: "there" });
    expect(userGit(rig.path, "log", "--format=%s", "-1").trim()).toBe("work");
  });

  it("keeps the commits of a branch that was deleted, in the snapshot's head", async () => {
    const rig = await new Rig().start();
    const { tip, workspace } = await rig.worked();
    STATES["both-gone"](rig, tip);
    userGit(rig.project, "reflog", "expire", "--expire=now", "--all");
    userGit(rig.project, "gc", "-q", "--prune=now");
    await returnCommit(workspace.store, rig.place.repository, tip);
    await repairWorktree({ ...rig.place, tip });
    expect(fs.readFileSync(join(rig.path, "done.txt"), "utf8")).toBe("committed\n");
  });
});

describe("removing a worktree", () => {
  it("takes the directory and the branch, and nothing else, and may be repeated", async () => {
    const rig = await new Rig().start();
    const { reflog: _log, ...before } = userState(rig.project);
    await rig.create();
    await removeWorktree(rig.place);
    await removeWorktree(rig.place);
    const { reflog: _after, ...after } = userState(rig.project);
    expect(after).toEqual(before);
    expect(fs.existsSync(rig.path)).toBe(false);
    expect(userGit(rig.project, "worktree", "list").trim().split("\n")).toHaveLength(1);
  });

  it("is refused while commits or files are nowhere else, unless forced", async () => {
    const rig = await new Rig().start();
    await rig.worked();
    const options = rig.place;
    await expect(removeWorktree(options)).rejects.toMatchObject({
      code: "work-at-risk",
      message: expect.stringContaining("1 commit that no other branch has"),
    });
    userGit(rig.project, "branch", "kept", BRANCH);
    await expect(removeWorktree(options)).rejects.toMatchObject({
      code: "work-at-risk",
      message: expect.stringContaining("2 changed files"),
    });
    expect(fs.existsSync(join(rig.path, "new.txt"))).toBe(true);
    userGit(rig.project, "branch", "-q", "-D", "kept");
    await removeWorktree({ ...options, force: true });
    expect(fs.existsSync(rig.path)).toBe(false);
  });

  it("can be undone from a snapshot that stays, with the commits and the files", async () => {
    const rig = await new Rig().start();
    const { commit, tip, workspace } = await rig.worked();
    const before = contentOf(rig.path);
    await removeWorktree({ ...rig.place, force: true });
    userGit(rig.project, "gc", "-q", "--prune=now");
    await returnCommit(workspace.store, rig.place.repository, tip);
    await repairWorktree({ ...rig.place, tip });
    await restoreSnapshot(await rig.workspace(), commit);
    expect(contentOf(rig.path)).toEqual(before);
  });

  it("refuses a branch that somebody has checked out elsewhere", async () => {
    const rig = await new Rig().start();
    await rig.create();
    userGit(rig.path, "checkout", "-q", "--detach");
    const other = join(scratch(), "other");
    userGit(rig.project, "worktree", "add", "-q", other, BRANCH);
    await expect(removeWorktree(rig.place)).rejects.toMatchObject({ code: "branch-taken" });
    expect(fs.existsSync(other)).toBe(true);
  });
});
