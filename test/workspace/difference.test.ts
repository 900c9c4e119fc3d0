/** Differences, patches, merges and bundles of snapshots. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readBundle, writeBundle } from "../../src/workspace/snapshot/bundle.ts";
import { readSnapshot } from "../../src/workspace/snapshot/details.ts";
import { differences, patchBetween } from "../../src/workspace/snapshot/difference.ts";
import { mergeSnapshots } from "../../src/workspace/snapshot/merge.ts";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { checkStore, hasCommit, listRefs, packStore } from "../../src/workspace/snapshot/store.ts";
import type { Workspace } from "../../src/workspace/snapshot/workspace.ts";
import { contentOf, gitProject, open, scratch, userGit, userState, wipe, write } from "./rig.ts";

const LINES = Array.from({ length: 20 }, (_, n) => `line ${n}\n`);

async function snapshot(workspace: Workspace, name: string): Promise<string> {
  const ref = `refs/perdure/r1/${name}`;
  return (await takeSnapshot(workspace, { ref, message: name, at: 1_000_000_000_000 })).commit;
}

describe("differences", () => {
  it("tell added, changed, removed, renamed, retyped and binary files apart", async () => {
    const project = gitProject({
      "changed.txt": LINES.join(""),
      "gone.txt": "g\n",
      "moved.txt": LINES.toReversed().join(""),
      "turns.txt": "t\n",
      "pic.png": Buffer.from([0, 1, 2]),
    });
    const { store, workspace } = await open(project);
    const from = await snapshot(workspace, "from");
    write(project, {
      "changed.txt": LINES.slice(1).join(""),
      "new\nline": "n\n",
      "pic.png": Buffer.from([0, 9]),
    });
    fs.rmSync(join(project, "gone.txt"));
    fs.mkdirSync(join(project, "to"));
    fs.renameSync(join(project, "moved.txt"), join(project, "to/here.txt"));
    fs.rmSync(join(project, "turns.txt"));
    fs.symlinkSync("changed.txt", join(project, "turns.txt"));
    const plain = { from: undefined, binary: false, added: 0, removed: 0 };
    const expected = [
      { ...plain, path: "changed.txt", status: "changed", removed: 1 },
      { ...plain, path: "gone.txt", status: "removed", removed: 1 },
      { ...plain, path: "new\nline", status: "added", added: 1 },
      { ...plain, path: "pic.png", status: "changed", binary: true },
      { ...plain, path: "to/here.txt", from: "moved.txt", status: "renamed" },
      { ...plain, path: "turns.txt", status: "retyped", added: 1, removed: 1 },
    ];
    expect(await differences(store, from, workspace)).toEqual(expected);
    const to = await snapshot(workspace, "to");
    expect(await differences(store, from, to)).toEqual(expected);
    expect(await differences(store, to, workspace)).toEqual([]);
    const patch = await patchBetween(store, from, to, { paths: ["changed.txt"] });
    expect(patch).toEqual({ text: expect.stringContaining("\n-line 0\n line 1\n"), cut: false });
    expect(patch.text).not.toContain("gone.txt");
    const short = await patchBetween(store, from, to, { bytesMax: 50 });
    expect(short.cut).toBe(true);
    expect(short.text).toHaveLength(50);
  });
});

describe("a merge", () => {
  const OPTIONS = { ref: "refs/perdure/r1/merged", message: "merged", at: 1_000_000_000_000 };

  it("joins what two workspaces changed, the same way each time, and touches no file", async () => {
    const project = gitProject({ "a.txt": LINES.join(""), "b.txt": "b\n", "c.txt": "c\n" });
    write(project, { "bare-one/": "", "bare-two/": "" });
    const { store, workspace } = await open(project);
    const base = await snapshot(workspace, "base");
    write(project, { "a.txt": `first\n${LINES.join("")}`, "bare-new/": "" });
    fs.rmSync(join(project, "c.txt"));
    fs.rmdirSync(join(project, "bare-one"));
    const theirs = await snapshot(workspace, "theirs");
    await restoreSnapshot(workspace, base);
    write(project, { "a.txt": `${LINES.join("")}last\n`, "d.txt": "d\n" });
    const ours = await snapshot(workspace, "ours");
    const before = [contentOf(project), userState(project)];
    const merged = await mergeSnapshots(store, { base, ours, theirs, ...OPTIONS });
    expect(await mergeSnapshots(store, { base, ours, theirs, ...OPTIONS })).toEqual(merged);
    expect([contentOf(project), userState(project)]).toEqual(before);
    if (merged.status !== "merged") throw new Error("conflicts");
    expect((await readSnapshot(store, merged.commit)).parents).toEqual([ours, theirs]);
    await restoreSnapshot(workspace, merged.commit);
    expect(contentOf(project)).toEqual({
      "a.txt": `file first\n${LINES.join("")}last\n`,
      "b.txt": "file b\n",
      "d.txt": "file d\n",
      "bare-two": "empty directory",
      "bare-new": "empty directory",
    });
  });

  it("tells every conflict with its kind, and names no snapshot", async () => {
    const project = gitProject({ "a.txt": "a\n", "b.txt": "b\n", "p.bin": Buffer.from([0, 1]) });
    const { store, workspace } = await open(project);
    const base = await snapshot(workspace, "base");
    write(project, {
      "a.txt": "theirs\n",
      "b.txt": "changed\n",
      "new.txt": "t\n",
      "p.bin": Buffer.from([0, 2]),
    });
    const theirs = await snapshot(workspace, "theirs");
    await restoreSnapshot(workspace, base);
    write(project, { "a.txt": "ours\n", "new.txt": "o\n", "p.bin": Buffer.from([0, 3]) });
    fs.rmSync(join(project, "b.txt"));
    const ours = await snapshot(workspace, "ours");
    const result = await mergeSnapshots(store, { base, ours, theirs, ...OPTIONS });
    expect(result).toMatchObject({
      status: "conflicts",
      conflicts: expect.arrayContaining([
        { path: "a.txt", kind: "contents" },
        { path: "b.txt", kind: "modify/delete" },
        { path: "new.txt", kind: "contents" },
        { path: "p.bin", kind: expect.stringMatching(/binary|contents/) },
      ]),
    });
    expect(await listRefs(store, OPTIONS.ref)).toEqual([]);
  });
});

describe("a bundle", () => {
  it.each([
    ["with git", (): string => gitProject({ "a.txt": "a\n" })],
    ["without git", (): string => scratch()],
  ])("carries snapshots of a project %s to another place", async (_, make) => {
    const project = make();
    write(project, { "b.txt": "b\n", "bare/": "" });
    const { store, workspace } = await open(project);
    await snapshot(workspace, "one");
    write(project, { "b.txt": "changed\n" });
    await snapshot(workspace, "two");
    await packStore(store);
    const file = join(scratch(), "run.bundle");
    const refs = await listRefs(store, "refs/perdure/r1/");
    expect(await writeBundle(store, { refs, file })).toBe(true);
    expect(refs.map(({ ref }) => ref)).toEqual(["refs/perdure/r1/one", "refs/perdure/r1/two"]);
    for (const there of [gitProject({ "other.txt": "o\n" }), scratch()]) {
      const other = await open(there);
      expect(await readBundle(other.store, file)).toEqual(refs);
      expect(await listRefs(other.store)).toEqual(refs);
      wipe(there);
      await restoreSnapshot(other.workspace, refs[0]?.commit ?? "");
      expect(contentOf(there)).toMatchObject({ "b.txt": "file b\n", bare: "empty directory" });
      expect(await checkStore(other.store)).toEqual([]);
    }
  });

  it("with the commits of a branch is refused where what they stand on is missing", async () => {
    const project = gitProject({ "a.txt": "a\n" });
    const base = userGit(project, "rev-parse", "HEAD").trim();
    const copy = scratch();
    userGit(copy, "clone", "-q", project, ".");
    userGit(project, "commit", "-q", "--allow-empty", "-m", "second");
    const { store, workspace } = await open(project);
    await snapshot(workspace, "one");
    const file = join(scratch(), "heads.bundle");
    const refs = await listRefs(store, "refs/perdure-heads/r1/");
    expect(await writeBundle(store, { refs, file, without: [base] })).toBe(true);
    const all = refs.map(({ commit }) => commit);
    expect(await writeBundle(store, { refs, file: `${file}.2`, without: all })).toBe(false);
    const clone = await open(copy);
    await readBundle(clone.store, file);
    expect(await hasCommit(clone.store, refs[0]?.commit ?? "")).toBe(true);
    const stranger = await open(gitProject({ "x.txt": "x\n" }));
    await expect(readBundle(stranger.store, file)).rejects.toMatchObject({ code: "bundle-broken" });
  });

  it("that is damaged is refused in words", async () => {
    const { store } = await open(scratch());
    const file = join(scratch(), "bad.bundle");
    fs.writeFileSync(file, "not a bundle");
    await expect(readBundle(store, file)).rejects.toMatchObject({ code: "bundle-broken" });
  });
});
