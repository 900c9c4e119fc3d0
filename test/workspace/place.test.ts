/**
 * Workspaces in every place: below a repository, in a linked worktree, around other repositories.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { askEarly, findRepository, settingsOf } from "../../src/workspace/repository.ts";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { checkStore, openStore } from "../../src/workspace/snapshot/store.ts";
import { openWorkspace } from "../../src/workspace/snapshot/workspace.ts";
import { copyProject, makeDirectory } from "../../src/workspace/worktree/worktree.ts";
import {
  contentOf,
  fileAt,
  gitProject,
  open,
  scratch,
  storeGit,
  userGit,
  userState,
  wipe,
  write,
} from "./rig.ts";

const REF = "refs/perdure/r1/one";
const MADE = { ref: REF, message: "a snapshot" };

describe("an early question to git", () => {
  it("is answered once; then git is asked again", async () => {
    const project = scratch();
    askEarly(project);
    expect(await findRepository(project)).toBeUndefined();
    expect(await settingsOf(project, undefined)).toMatchObject({ convertsLineEnds: false });
    userGit(project, "init", "-q");
    userGit(project, "config", "core.autocrlf", "true");
    expect(await settingsOf(project, undefined)).toMatchObject({ convertsLineEnds: true });
    expect((await findRepository(project))?.topLevel).toBe(project);
  });
});

it("a repository that was found is looked for again when it is gone, or when another is nearer", async () => {
  const top = scratch();
  const inner = join(top, "inner");
  fs.mkdirSync(inner);
  userGit(top, "init", "-q");
  for (let times = 0; times < 2; times++) {
    expect(await findRepository(inner)).toMatchObject({ topLevel: top, objectFormat: "sha1" });
  }
  userGit(inner, "init", "-q");
  expect((await findRepository(inner))?.topLevel).toBe(inner);
  for (const place of [top, inner]) fs.rmSync(join(place, ".git"), { recursive: true });
  expect(await findRepository(inner)).toBeUndefined();
  userGit(top, "init", "-q", "--object-format=sha256");
  expect(await findRepository(inner)).toMatchObject({ topLevel: top, objectFormat: "sha256" });
});

it("two who need the store first at the same time make one", async () => {
  const project = scratch();
  const place = { project, stateDir: join(project, ".perdure") };
  const [one, other] = await Promise.all([openStore(place), openStore(place)]);
  expect(one.gitDir).toBe(other.gitDir);
  expect(fs.readdirSync(place.stateDir)).toEqual(["snapshots.git"]);
});

describe("a workspace", () => {
  it("below the top of a repository holds its own part, under the rules of the whole", async () => {
    const top = gitProject({ ".gitignore": "*.log\n", "app/a.txt": "a", "lib/b.txt": "b" });
    const project = join(top, "app");
    write(project, { "x.log": "ignored from above", "new.txt": "n", "bare/": "" });
    const { store, workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    const names = storeGit(store, "ls-tree", "-r", "--name-only", "--full-tree", commit);
    expect(names).toBe("a.txt\nnew.txt\n");
    const then = contentOf(project);
    fs.rmSync(join(project, "new.txt"));
    fs.rmdirSync(join(project, "bare"));
    write(project, { "a.txt": "changed", "more.txt": "m" });
    write(top, { "lib/b.txt": "not ours" });
    expect(await restoreSnapshot(workspace, commit)).toMatchObject({ exact: true });
    expect(contentOf(project)).toEqual(then);
    expect(fs.readFileSync(join(top, "lib/b.txt"), "utf8")).toBe("not ours");
  });

  it("without a file, below the top of a repository, has an empty snapshot", async () => {
    const top = gitProject({ "a.txt": "a", "app/b.txt": "b" });
    const { store, workspace } = await open(join(top, "app"));
    const full = await takeSnapshot(workspace, MADE);
    fs.rmSync(join(top, "app/b.txt"));
    const empty = await takeSnapshot(workspace, MADE);
    expect(storeGit(store, "ls-tree", empty.commit)).toBe("");
    await restoreSnapshot(workspace, full.commit);
    expect(fs.readFileSync(join(top, "app/b.txt"), "utf8")).toBe("b");
    expect((await restoreSnapshot(workspace, empty.commit)).removed).toEqual(["b.txt"]);
  });

  it("that its repository ignores has a store and rules of its own", async () => {
    const top = gitProject({ ".gitignore": "play/\n" });
    write(top, { "play/x.txt": "x" });
    const { store, workspace } = await open(join(top, "play"));
    expect(store.repository).toBeUndefined();
    await takeSnapshot(workspace, MADE);
    expect(await fileAt(store, REF, "x.txt")).toBe("x");
  });

  it("in a linked worktree touches neither checkout", async () => {
    const main = gitProject({ "a.txt": "a" });
    const linked = join(scratch(), "linked");
    userGit(main, "worktree", "add", "-q", "-b", "side", linked);
    write(linked, { "a.txt": "changed", "new.txt": "n" });
    const { store, workspace } = await open(linked);
    const before = [userState(main), userState(linked)];
    const { head } = await takeSnapshot(workspace, MADE);
    expect(head).toEqual({
      commit: userGit(main, "rev-parse", "side").trim(),
      branch: "refs/heads/side",
    });
    expect([userState(main), userState(linked)]).toEqual(before);
    expect(await checkStore(store)).toEqual([]);
  });

  it("of another kind in the state directory is held by the project's store", async () => {
    const project = gitProject({ ".gitignore": "*.log\n", "a.txt": "a" });
    const path = join(project, ".perdure", "runs", "r1", "files");
    await makeDirectory(path);
    write(path, { "made.txt": "m", "deep/er.txt": "d" });
    const { store, workspace } = await open(project, { path });
    const { commit } = await takeSnapshot(workspace, MADE);
    wipe(path);
    await restoreSnapshot(workspace, commit);
    expect(contentOf(path)).toEqual({ "made.txt": "file m", "deep/er.txt": "file d" });
    expect(store.repository?.topLevel).toBe(project);
  });

  it("keeps its store when git comes later", async () => {
    const project = scratch();
    write(project, { "a.txt": "a" });
    const { commit } = await takeSnapshot((await open(project)).workspace, MADE);
    userGit(project, "init", "-q");
    userGit(project, "add", "-A");
    userGit(project, "commit", "-q", "-m", "first");
    write(project, { "a.txt": "b" });
    const { store, workspace } = await open(project);
    await restoreSnapshot(workspace, commit);
    expect(fs.readFileSync(join(project, "a.txt"), "utf8")).toBe("a");
    expect((await takeSnapshot(workspace, MADE)).head).toBeDefined();
    expect(await checkStore(store)).toEqual([]);
  });

  it("refuses a store that another version wrote", async () => {
    const project = gitProject({ "a.txt": "a" });
    const { store } = await open(project);
    fs.writeFileSync(join(store.gitDir, "perdure.json"), '{"version":1,"format":"sha1"}\n');
    const opening = openStore({ project, stateDir: join(project, ".perdure") });
    await expect(opening).rejects.toMatchObject({ code: "store-unknown" });
  });
});

describe("repositories inside a workspace", () => {
  it("have their files held: a submodule, a clone, one without a commit, one in another", async () => {
    const library = gitProject({ "lib.c": "int x;\n", ".gitignore": "*.o\n" });
    const project = gitProject({ "a.txt": "a" });
    userGit(project, "submodule", "--quiet", "add", library, "sub");
    userGit(project, "commit", "-q", "-m", "with a submodule");
    userGit(project, "clone", "-q", library, "deep/clone");
    userGit(project, "init", "-q", "young");
    userGit(project, "init", "-q", "bare-young");
    userGit(project, "clone", "-q", library, "young/inner");
    write(project, {
      "sub/lib.c": "changed\n",
      "sub/new.c": "new\n",
      "sub/x.o": "ignored\n",
      "sub/bare/": "",
      "young/file": "y",
    });
    const { workspace } = await open(project);
    const first = await takeSnapshot(workspace, MADE);
    const head = userGit(library, "rev-parse", "HEAD").trim();
    expect(first.nested.toSorted((a, b) => (a.path < b.path ? -1 : 1))).toEqual([
      { path: "bare-young", head: undefined },
      { path: "deep/clone", head },
      { path: "sub", head },
      { path: "young", head: undefined },
      { path: "young/inner", head },
    ]);
    const second = await takeSnapshot(workspace, MADE);
    expect([second.tree, second.empties]).toEqual([first.tree, first.empties]);
    const then = contentOf(project);
    write(project, {
      "sub/lib.c": "again\n",
      "sub/x.o": "kept\n",
      "young/file": "z",
      "deep/clone/more": "m",
    });
    fs.rmSync(join(project, "sub/new.c"));
    userGit(join(project, "deep/clone"), "commit", "-q", "--allow-empty", "-m", "moved");
    const restored = await restoreSnapshot(workspace, first.commit);
    expect(restored.nestedMoved).toEqual([
      {
        path: "deep/clone",
        was: head,
        now: userGit(join(project, "deep/clone"), "rev-parse", "HEAD").trim(),
      },
    ]);
    expect(contentOf(project)).toEqual({ ...then, "sub/x.o": "file kept\n" });
  });

  it("are left alone when they are worktrees of the same repository", async () => {
    const project = gitProject({ "a.txt": "a" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    userGit(project, "worktree", "add", "-q", "-b", "side", "other");
    write(project, { "other/work.txt": "somebody's work" });
    const { skipped, empties } = await takeSnapshot(workspace, MADE);
    expect(skipped).toEqual([{ path: "other", bytes: 0, why: "other-worktree" }]);
    expect(empties).toEqual([]);
    await restoreSnapshot(workspace, commit);
    expect(fs.readFileSync(join(project, "other/work.txt"), "utf8")).toBe("somebody's work");
  });
});

describe("a copy of a project", () => {
  it("has everything but .git and .perdure, and is made once", async () => {
    const project = gitProject({ ".gitignore": "node_modules/\n", "a.txt": "a", "bin/tool": "t" });
    fs.chmodSync(join(project, "bin/tool"), 0o755);
    fs.symlinkSync("a.txt", join(project, "link"));
    write(project, { "node_modules/m/x.js": "x", "bare/": "", ".perdure/state": "s" });
    const to = join(project, ".perdure", "runs", "r1", "copy");
    await copyProject({ from: project, to });
    expect(contentOf(to)).toEqual(contentOf(project));
    expect(fs.readdirSync(to)).not.toContain(".git");
    write(to, { "a.txt": "worked on" });
    await copyProject({ from: project, to });
    expect(fs.readFileSync(join(to, "a.txt"), "utf8")).toBe("worked on");
    await expect(makeDirectory(to)).rejects.toMatchObject({ code: "path-taken" });
    const { store } = await open(project);
    const workspace = await openWorkspace(store, {
      path: to,
      indexFile: join(project, ".perdure/copy-index"),
    });
    await takeSnapshot(workspace, MADE);
    expect(await fileAt(store, REF, "a.txt")).toBe("worked on");
    expect(await fileAt(store, REF, "node_modules/m/x.js")).toBeUndefined();
  });
});
