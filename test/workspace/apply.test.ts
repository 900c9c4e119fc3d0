/** Applying the difference between two snapshots to a directory in which somebody else works. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { applyChanges } from "../../src/workspace/snapshot/apply.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import type { Workspace } from "../../src/workspace/snapshot/workspace.ts";
import { contentOf, gitProject, inProcess, open, scratch, write } from "./rig.ts";
import { workOn } from "./workspace-work.ts";

const FILES = {
  ".gitignore": "*.log\n",
  "a.txt": "a\n",
  "dir/b.txt": "b\n",
  "dir/c.txt": "c\n",
  "gone.txt": "g\n",
};

async function take(workspace: Workspace, name: string): Promise<string> {
  const taken = await takeSnapshot(workspace, { ref: `refs/perdure/r1/${name}`, message: name });
  return taken.commit;
}

/** Two snapshots and a directory that stands at the first again. */
async function twoSnapshots(project: string): Promise<{
  workspace: Workspace;
  from: string;
  to: string;
  then: Readonly<Record<string, string>>;
}> {
  write(project, { "bare/": "" });
  const { workspace } = await open(project);
  const from = await take(workspace, "from");
  fs.rmSync(join(project, "gone.txt"));
  fs.rmdirSync(join(project, "bare"));
  write(project, { "a.txt": "changed\n", "new/deep.txt": "n\n", "other-bare/": "", tool: "#!\n" });
  fs.chmodSync(join(project, "tool"), 0o755);
  fs.rmSync(join(project, "dir"), { recursive: true });
  fs.symlinkSync("a.txt", join(project, "dir"));
  const to = await take(workspace, "to");
  const then = contentOf(project);
  expect(await applyChanges(workspace, { from: to, to: from })).toEqual({ changedMeanwhile: [] });
  return { workspace, from, to, then };
}

describe("applying changes", () => {
  it("leads from one snapshot to the other and back, and again does nothing", async () => {
    const project = gitProject(FILES);
    const { workspace, from, to, then } = await twoSnapshots(project);
    expect(contentOf(project)).toMatchObject({ "dir/b.txt": "file b\n", bare: "empty directory" });
    for (let times = 0; times < 2; times++) {
      expect(await applyChanges(workspace, { from, to })).toEqual({ changedMeanwhile: [] });
      expect(contentOf(project)).toEqual(then);
    }
  });

  it("touches no other path: neither new files nor those that others changed", async () => {
    const project = gitProject({ ...FILES, "theirs.txt": "t\n" });
    const { workspace, from, to } = await twoSnapshots(project);
    write(project, { "theirs.txt": "written meanwhile\n", "made.txt": "m\n", "x.log": "l\n" });
    const inode = fs.statSync(join(project, "theirs.txt")).ino;
    expect(await applyChanges(workspace, { from, to })).toEqual({ changedMeanwhile: [] });
    expect(contentOf(project)).toMatchObject({
      "a.txt": "file changed\n",
      "theirs.txt": "file written meanwhile\n",
      "made.txt": "file m\n",
      "x.log": "file l\n",
    });
    expect(fs.statSync(join(project, "theirs.txt")).ino).toBe(inode);
  });

  it("leaves and names what changed meanwhile: overwritten, removed, made, retyped", async () => {
    const project = gitProject(FILES);
    const { workspace, from, to } = await twoSnapshots(project);
    write(project, {
      "a.txt": "by the user\n",
      "gone.txt": "still needed\n",
      "new/deep.txt": "mine\n",
      "dir/b.txt": "mine too\n",
      "tool/": "",
      "tool/inner": "i\n",
    });
    const before = contentOf(project);
    const { changedMeanwhile } = await applyChanges(workspace, { from, to });
    const named = ["a.txt", "dir", "dir/b.txt", "gone.txt", "new/deep.txt", "tool"];
    expect(changedMeanwhile.toSorted()).toEqual(named);
    const { "dir/c.txt": _c, bare: _b, ...kept } = before;
    expect(contentOf(project)).toMatchObject(kept);
  });

  it("writes nothing through a link that took the place of a directory", async () => {
    const outside = scratch();
    const project = gitProject({ "d/a.txt": "a\n" });
    const { workspace } = await open(project);
    const from = await take(workspace, "from");
    write(project, { "d/a.txt": "b\n", "d/new.txt": "n\n" });
    const to = await take(workspace, "to");
    fs.rmSync(join(project, "d"), { recursive: true });
    fs.symlinkSync(outside, join(project, "d"));
    const { changedMeanwhile } = await applyChanges(workspace, { from, to });
    expect(changedMeanwhile.toSorted()).toEqual(["d/a.txt", "d/new.txt"]);
    expect(fs.readdirSync(outside)).toEqual([]);
  });

  it("moves what is in the way aside when it has a directory for that", async () => {
    const project = gitProject(FILES);
    const { workspace, from, to, then } = await twoSnapshots(project);
    write(project, { "a.txt": "by the user\n", "new/deep.txt": "mine\n" });
    const aside = join(scratch(), "aside");
    const applied = await applyChanges(workspace, { from, to, aside });
    expect(applied).toEqual({ changedMeanwhile: [] });
    expect(contentOf(project)).toEqual(then);
    const kept = Object.values(contentOf(aside)).toSorted();
    expect(kept).toEqual(["file by the user\n", "file mine\n"]);
  });

  it("never removes what was ignored or left out at the other snapshot", async () => {
    const project = gitProject({ ".gitignore": "*.log\nout/\n", "a.txt": "a\n" });
    write(project, { "out/built": "o\n", "node_modules/x/index.js": "x\n" });
    const { workspace } = await open(project);
    const to = await take(workspace, "to");
    write(project, { ".gitignore": "*.log\n" });
    const from = await take(workspace, "from");
    await applyChanges(workspace, { from, to });
    expect(contentOf(project)).toMatchObject({
      "out/built": "file o\n",
      "node_modules/x/index.js": "file x\n",
      ".gitignore": "file *.log\nout/\n",
    });
  });

  it("killed anywhere is finished by the next", async () => {
    const project = gitProject(FILES);
    const { workspace, from, to, then } = await twoSnapshots(project);
    for (let n = 1; ; n++) {
      const killed = await inProcess(n, "apply", project, from, to);
      expect(await workOn("apply", project, from, to)).toBe("[]");
      expect(contentOf(project)).toEqual(then);
      if (killed.signal === null) break;
      await applyChanges(workspace, { from: to, to: from });
    }
  });

  it("loses no line of a file that somebody appends to all the time", async () => {
    const project = gitProject({ "log.txt": "", "a.txt": "a\n" });
    const { workspace } = await open(project);
    const from = await take(workspace, "from");
    write(project, { "log.txt": "by a step\n", "a.txt": "b\n" });
    const to = await take(workspace, "to");
    await applyChanges(workspace, { from: to, to: from });
    let lines = 0;
    let going = true;
    const writing = (async (): Promise<void> => {
      for (; going; lines++) await fs.promises.appendFile(join(project, "log.txt"), `${lines}\n`);
    })();
    while (lines < 5) await new Promise((go) => setImmediate(go));
    for (let round = 0; round < 20; round++) {
      expect((await applyChanges(workspace, { from, to })).changedMeanwhile).toEqual(["log.txt"]);
    }
    going = false;
    await writing;
    const expected = Array.from({ length: lines }, (_, n) => `${n}\n`).join("");
    expect(fs.readFileSync(join(project, "log.txt"), "utf8")).toBe(expected);
  });
});
