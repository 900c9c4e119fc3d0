/**
 * Killed at its failpoints, then run again: as if nothing had happened. At every ninth or tenth of
 * them; PERDURE_CRASH_ALL=1 kills at all.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { checkStore, hasCommit, listRefs } from "../../src/workspace/snapshot/store.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import {
  contentOf,
  gitProject,
  inEnvironment,
  inProcess,
  killedLoop,
  open,
  scratch,
  userGit,
  userState,
  write,
} from "./rig.ts";
import { workOn } from "./workspace-work.ts";

const REF = "refs/perdure/r1/one";
/** More failpoints than any of these passes. */
const KILLS_MAX = 200;
const FILES = {
  ".gitignore": "*.log\n",
  "a.txt": "a\n",
  "dir/b.txt": "b\n",
  "dir/c.txt": "c\n",
  "x.log": "ignored\n",
};

/**
 * Kills at each failpoint in turn; `prepare` makes the beginning anew, `check` looks after each.
 */
async function walk(
  args: readonly string[],
  {
    prepare,
    check,
    stride = 1,
  }: { prepare?: () => Promise<void> | void; check: () => Promise<void>; stride?: number },
): Promise<number> {
  const step = CRASH_ALL ? 1 : stride;
  for (let n = 1; n <= KILLS_MAX; n += step) {
    await prepare?.();
    const killed = await inProcess(n, ...args);
    if (killed.signal === null) {
      expect(killed, killed.output).toMatchObject({ exit: 0 });
      return n - 1;
    }
    expect(killed.signal).toBe("SIGKILL");
    await workOn(...args);
    await check();
  }
  throw new Error("too many failpoints");
}

describe.each([
  ["with git", 25, (): string => gitProject(FILES)],
  [
    "without git",
    27,
    (): string => {
      const project = scratch();
      write(project, FILES);
      return project;
    },
  ],
])("in a project %s", (_, stride, make) => {
  it("a killed snapshot leaves whole objects, and the next one is right", async () => {
    const project = make();
    const { store, workspace } = await open(project);
    write(project, { "new/file": "n\n", "bare/": "" });
    const { tree } = await takeSnapshot(workspace, { ref: "refs/perdure/r0/whole", message: "m" });
    const state = store.repository === undefined ? {} : userState(project);
    let round = 0;
    const kills = await walk(["snapshot", project, REF], {
      stride,
      // Each kill meets a change; the file goes back before the tree is compared.
      prepare: () => write(project, { "new/file": `round ${round++}\n` }),
      check: async () => {
        expect(await checkStore(store)).toEqual([]);
        for (const { commit } of await listRefs(store))
          expect(await hasCommit(store, commit)).toBe(true);
        write(project, { "new/file": "n\n" });
        expect(await workOn("snapshot", project, REF)).toBe(tree);
      },
    });
    write(project, { "new/file": "n\n" });
    expect(kills).toBeGreaterThanOrEqual(2);
    if (store.repository !== undefined) expect(userState(project)).toEqual(state);
    const left = fs.readdirSync(join(project, ".perdure", "runs", "r1"));
    expect(left.filter((name) => name.includes(".work-"))).toEqual([]);
  });

  it("a killed first snapshot makes its store all the same", async () => {
    const project = make();
    fs.mkdirSync(join(project, ".perdure"));
    await walk(["snapshot", project, REF], {
      stride,
      prepare: () =>
        fs.rmSync(join(project, ".perdure", "snapshots.git"), { recursive: true, force: true }),
      check: async () => {
        expect(await checkStore((await open(project)).store)).toEqual([]);
      },
    });
  });

  it("a killed restore is finished by the next, and removes nothing more", async () => {
    const project = make();
    write(project, { "bare/": "", "tool.sh": "#!/bin/sh\n" });
    fs.chmodSync(join(project, "tool.sh"), 0o755);
    fs.symlinkSync("a.txt", join(project, "link"));
    const { store, workspace } = await open(project);
    const { commit } = await takeSnapshot(workspace, { ref: REF, message: "m" });
    const then = contentOf(project);
    const kills = await walk(["restore", project, commit], {
      stride,
      prepare: () => {
        fs.rmSync(`${workspace.indexFile}.restore`, { force: true });
        fs.rmSync(join(project, "dir"), { recursive: true, force: true });
        fs.rmSync(join(project, "link"), { force: true });
        fs.rmSync(join(project, "tool.sh"), { force: true });
        if (fs.existsSync(join(project, "bare"))) fs.rmdirSync(join(project, "bare"));
        write(project, {
          dir: "a file now\n",
          "a.txt": "changed\n",
          "more/new.txt": "n\n",
          "other-bare/": "",
          "link/inner": "a directory now\n",
          // What these ignore was nobody's business before, and must not become it on the way.
          ".gitignore": "*.log\nout/\n",
          "sub/.gitignore": "*.tmp\n",
          "sub/x.tmp": "t\n",
          "out/built": "o\n",
        });
      },
      check: async () => {
        expect(contentOf(project)).toEqual({
          ...then,
          "sub/x.tmp": "file t\n",
          "out/built": "file o\n",
        });
        expect(await checkStore(store)).toEqual([]);
      },
    });
    expect(kills).toBeGreaterThanOrEqual(15);
  });
});

it("a snapshot or restore killed together with its git, anywhere, spoils nothing", async () => {
  const project = gitProject(FILES);
  const { store, workspace } = await open(project);
  const ref = "refs/perdure/r0/whole";
  const { commit, tree } = await takeSnapshot(workspace, { ref, message: "m" });
  const then = contentOf(project);
  const { status: _before, ...state } = userState(project);
  for (let round = 0; round < 8; round++) {
    await killedLoop(project, commit, round % 4);
    expect(await workOn("restore", project, commit)).toBe("true");
    expect(contentOf(project)).toEqual(then);
    expect(await workOn("snapshot", project, REF)).toBe(tree);
    expect(await checkStore(store)).toEqual([]);
  }
  const { status: _after, ...after } = userState(project);
  expect(after).toEqual(state);
});

it("a killed merge, pack or drop is finished by the next", async () => {
  const project = gitProject(FILES);
  const { store, workspace } = await open(project);
  const take = async (name: string): Promise<string> =>
    (await takeSnapshot(workspace, { ref: `refs/perdure/r1/${name}`, message: name })).commit;
  const base = await take("base");
  write(project, { "dir/b.txt": "theirs\n" });
  const theirs = await take("theirs");
  write(project, { "dir/b.txt": "b\n", "a.txt": "ours\n" });
  const ours = await take("ours");
  const merged = new Set<string>();
  await walk(["merge", project, base, ours, theirs], {
    check: async () => {
      merged.add((await listRefs(store, "refs/perdure/r1/merged"))[0]?.commit ?? "none");
    },
  });
  expect([...merged]).toEqual([expect.stringMatching(/^[0-9a-f]{40}$/)]);
  for (const what of ["pack", "drop"]) {
    await walk([what, project], {
      check: async () => expect(await checkStore(store)).toEqual([]),
    });
  }
  expect(await listRefs(store)).toEqual([]);
});

it("a killed making or removing of a worktree is finished by the next", async () => {
  const project = gitProject({
    ".gitignore": ".env\n.perdure/\n",
    "a.txt": "a\n",
    "b/c.txt": "c\n",
  });
  write(project, { ".env": "secret\n" });
  const base = userGit(project, "rev-parse", "HEAD").trim();
  const path = join(project, ".perdure", "runs", "r1", "tree");
  const whole = {
    ".env": "file secret\n",
    ".gitignore": "file .env\n.perdure/\n",
    "a.txt": "file a\n",
    "b/c.txt": "file c\n",
  };
  const { reflog: _before, ...state } = userState(project);
  const made = await walk(["worktree", project, base], {
    prepare: async () => {
      expect(await workOn("remove-worktree", project)).toBe("removed");
    },
    check: async () => {
      expect(contentOf(path)).toEqual(whole);
      expect(userGit(path, "status", "--porcelain")).toBe("");
      expect(userGit(path, "rev-parse", "--abbrev-ref", "HEAD").trim()).toBe("perdure/r1");
    },
  });
  expect(made).toBeGreaterThanOrEqual(5);
  await walk(["remove-worktree", project], {
    prepare: async () => {
      expect(await workOn("worktree", project, base)).toBe(base);
    },
    check: async () => expect(fs.existsSync(path)).toBe(false),
  });
  const { reflog: _after, ...after } = userState(project);
  expect(after).toEqual(state);
});

it("a machine without git is reported, with the remedy", async () => {
  const project = scratch();
  fs.mkdirSync(join(project, ".perdure"));
  const { exit, output } = await inEnvironment({ PATH: "/nonexistent" }, "snapshot", project, REF);
  expect(exit).toBe(1);
  expect(output).toContain("install git 2.30 or newer");
});
