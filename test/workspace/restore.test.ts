/** A snapshot that is put back, and what is never touched by it. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { planRestore, shownPlan } from "../../src/workspace/snapshot/restore-plan.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { WorkspaceError } from "../../src/workspace/workspace-error.ts";
import { contentOf, gitProject, open, scratch, userState, write } from "./rig.ts";

const MADE = { ref: "refs/perdure/r1/one", message: "a snapshot" };

describe("restoring", () => {
  it("says before and after what it adds, changes and removes, and does just that", async () => {
    const project = gitProject({ "same.txt": "=", "changed.txt": "old", "gone.txt": "was here" });
    write(project, { "bare/": "" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    const then = contentOf(project);
    const { ino } = fs.statSync(join(project, "same.txt"));
    write(project, { "changed.txt": "new", "more/new.txt": "x", "other-bare/deep/": "" });
    fs.rmSync(join(project, "gone.txt"));
    fs.rmdirSync(join(project, "bare"));
    const plan = shownPlan(await planRestore(workspace, commit));
    expect(plan).toEqual({
      added: ["gone.txt"],
      changed: ["changed.txt"],
      removed: ["more/new.txt"],
      left: [],
      unsaved: [],
      blocked: [],
    });
    const restored = await restoreSnapshot(workspace, commit);
    expect(restored).toEqual({ ...plan, exact: true, nestedMoved: [] });
    expect(contentOf(project)).toEqual(then);
    expect(fs.statSync(join(project, "same.txt")).ino).toBe(ino);
  });

  it("leaves index, HEAD, stash and branches as they are", async () => {
    const project = gitProject({ "a.txt": "a" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    write(project, { "a.txt": "b", "new.txt": "n" });
    const { status: _before, ...state } = userState(project);
    await restoreSnapshot(workspace, commit);
    const { status: _after, ...after } = userState(project);
    expect(after).toEqual(state);
  });

  it("keeps permissions that are not its business, and restores the one to run", async () => {
    const project = scratch();
    write(project, { secret: "one", tool: "two" });
    fs.chmodSync(join(project, "secret"), 0o600);
    fs.chmodSync(join(project, "tool"), 0o750);
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    write(project, { secret: "changed" });
    fs.chmodSync(join(project, "tool"), 0o640);
    await restoreSnapshot(workspace, commit);
    expect(fs.statSync(join(project, "secret")).mode & 0o777).toBe(0o600);
    expect(fs.statSync(join(project, "tool")).mode & 0o777).toBe(0o750);
  });

  it("never removes what is ignored, skipped, or outside", async () => {
    const project = gitProject({ ".gitignore": "*.log\nnode_modules/\n", "a.txt": "a" });
    const { workspace } = await open(project, { fileBytesMax: 1000 });
    const { commit } = await takeSnapshot(workspace, MADE);
    const kept = {
      "x.log": "log",
      "node_modules/m/index.js": "js",
      "large.bin": "L".repeat(2000),
      "dir/y.log": "beside a file that goes",
    };
    write(project, { ...kept, "dir/goes.txt": "g", "a.txt": "b" });
    expect((await restoreSnapshot(workspace, commit)).removed).toEqual(["dir/goes.txt"]);
    for (const [name, text] of Object.entries(kept)) {
      expect(fs.readFileSync(join(project, name), "utf8")).toBe(text);
    }
    expect(fs.existsSync(join(project, ".perdure", "snapshots.git"))).toBe(true);
  });

  it("never removes what the snapshot's own rules ignored", async () => {
    const project = gitProject({ ".gitignore": ".env\n", "a.txt": "a" });
    write(project, { ".env": "secret" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    fs.rmSync(join(project, ".gitignore"));
    write(project, { "new.txt": "n" });
    const restored = await restoreSnapshot(workspace, commit);
    expect(restored).toMatchObject({ removed: ["new.txt"], left: [".env"], exact: true });
    expect(fs.readFileSync(join(project, ".env"), "utf8")).toBe("secret");
  });

  it("says so when what was ignored until now is left", async () => {
    const project = gitProject({ "a.txt": "a" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    write(project, { ".gitignore": "out/\n", "out/x": "x" });
    const restored = await restoreSnapshot(workspace, commit);
    expect(restored).toMatchObject({ removed: [".gitignore"], left: ["out/x"], exact: false });
    write(project, { "new.txt": "made since" });
    const again = await restoreSnapshot(workspace, commit);
    expect(again).toMatchObject({ removed: ["new.txt"], left: ["out/x"] });
    expect(fs.readFileSync(join(project, "out/x"), "utf8")).toBe("x");
    // Once a snapshot has it, it can be brought back, so it may go.
    await takeSnapshot(workspace, { ...MADE, ref: "refs/perdure/r1/two" });
    const exact = await restoreSnapshot(workspace, commit);
    expect(exact).toMatchObject({ removed: ["out/x"], exact: true });
  });

  it("leaves a file alone that was too large to be held then", async () => {
    const project = scratch();
    write(project, { "data.bin": "L".repeat(2000) });
    const { workspace } = await open(project, { fileBytesMax: 1000 });
    const { commit } = await takeSnapshot(workspace, MADE);
    write(project, { "data.bin": "small now" });
    expect(await restoreSnapshot(workspace, commit)).toMatchObject({
      removed: [],
      left: ["data.bin"],
    });
    expect(fs.readFileSync(join(project, "data.bin"), "utf8")).toBe("small now");
  });

  it("refuses, with nothing changed, when something that is in no snapshot stands in the way", async () => {
    const project = gitProject({ ".gitignore": "*.log\n", thing: "a file", "b.txt": "b" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    fs.rmSync(join(project, "thing"));
    write(project, { "thing/kept.log": "log", "b.txt": "changed" });
    const before = contentOf(project);
    const error = await restoreSnapshot(workspace, commit).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(WorkspaceError);
    expect(error).toMatchObject({
      code: "blocked",
      message: expect.stringContaining("thing/kept.log"),
    });
    expect(contentOf(project)).toEqual(before);
  });

  it("names a file that it overwrites and no snapshot of now would hold", async () => {
    const project = gitProject({ "a.txt": "then" });
    const { workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, MADE);
    fs.writeFileSync(join(project, ".git/info/exclude"), "new.txt\na.txt\n");
    // Untracked and ignored by now.
    fs.rmSync(join(project, ".git/index"));
    write(project, { "a.txt": "now" });
    expect(await restoreSnapshot(workspace, commit)).toMatchObject({ unsaved: ["a.txt"] });
    expect(fs.readFileSync(join(project, "a.txt"), "utf8")).toBe("then");
  });

  it("fails in words when there is no such snapshot", async () => {
    const { workspace } = await open(scratch());
    const error = await restoreSnapshot(workspace, "0".repeat(40)).catch((one: unknown) => one);
    expect(error).toMatchObject({ code: "snapshot-missing" });
  });
});
