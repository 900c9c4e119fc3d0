/** Snapshots hold every kind of file, byte for byte, and touch nothing of the user's. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { forgetIndex } from "../../src/workspace/snapshot/index-cache.ts";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { readContent, takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import {
  checkStore,
  dropRefs,
  listRefs,
  packStore,
  readSnapshotFile,
} from "../../src/workspace/snapshot/store.ts";
import {
  contentOf,
  fileAt,
  gitProject,
  objectCount,
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

/** The tree that git makes of a project by itself. */
function treeByGit(project: string): string {
  const index = join(project, ".git", "index-of-test");
  fs.copyFileSync(join(project, ".git", "index"), index);
  const env = { ...process.env, GIT_INDEX_FILE: index };
  execFileSync("git", ["add", "-A"], { cwd: project, env });
  return execFileSync("git", ["write-tree"], { cwd: project, env, encoding: "utf8" }).trim();
}

/** Odd files, each with what makes it. */
const ODD: Readonly<Record<string, (directory: string) => void>> = {
  "a plain file": (d) => write(d, { "plain.txt": "text\n" }),
  "an empty file": (d) => write(d, { empty: "" }),
  "bytes that are not text": (d) => write(d, { blob: Buffer.from([0, 255, 13, 10, 0, 26]) }),
  "line ends of another system": (d) =>
    write(d, { "dos.txt": "a\r\nb\r\n", "mixed.txt": "a\r\nb\n" }),
  "a file that can be run": (d) => {
    write(d, { "run.sh": "#!/bin/sh\n" });
    fs.chmodSync(join(d, "run.sh"), 0o755);
  },
  "links: to a file, to a directory, to nothing": (d) => {
    write(d, { "real/file": "x" });
    fs.symlinkSync("real/file", join(d, "to-file"));
    fs.symlinkSync("real", join(d, "to-directory"));
    fs.symlinkSync("/nowhere/at all", join(d, "to-nothing"));
  },
  "empty directories": (d) => write(d, { "bare/": "", "deep/er/bare/": "", "deep/file": "x" }),
  "a name with a newline": (d) => write(d, { "two\nlines": "x", "tab\there": "y" }),
  "a name that is not UTF-8": (d) => {
    fs.writeFileSync(Buffer.concat([Buffer.from(`${d}/`), Buffer.from([0x66, 0xff, 0xfe])]), "x");
    const directory = Buffer.concat([Buffer.from(`${d}/`), Buffer.from([0x64, 0xe9])]);
    fs.mkdirSync(directory);
    fs.writeFileSync(Buffer.concat([directory, Buffer.from("/in")]), "y");
  },
  "names that look like something else": (d) =>
    write(d, {
      "-rf": "x",
      "--help": "y",
      ":(exclude)all": "z",
      "*": "star",
      "a b": "space",
      '"quoted"': "q",
      "back\\slash": "b",
      "#hash": "h",
      "!bang": "e",
      ünï: "u",
      ".gitmodules": "[submodule]\n",
    }),
  "a .gitattributes that asks for changes": (d) =>
    write(d, {
      ".gitattributes":
        "* text=auto eol=crlf\n*.bin filter=lfs diff=lfs\n*.id ident\n*.u16 working-tree-encoding=UTF-16LE\n",
      "a.bin": "large file\n",
      "b.id": "$Id$\n",
      "c.txt": "x\r\ny\n",
      "d.u16": Buffer.from("h\0i\0"),
    }),
};

describe.each([
  ["in a project with git", (): string => gitProject({ "first.txt": "1\n" })],
  ["in a project without git", (): string => scratch()],
  [
    "in a repository without a commit",
    (): string => {
      const path = scratch();
      userGit(path, "init", "-q");
      return path;
    },
  ],
  [
    "in a repository of the sha256 format",
    (): string => gitProject({ "first.txt": "1\n" }, "--object-format=sha256"),
  ],
])("a snapshot %s", (_, make) => {
  it.each(Object.entries(ODD))("holds %s", async (_name, prepare) => {
    const project = make();
    prepare(project);
    const before = contentOf(project);
    const { store, workspace } = await open(project);
    const { commit, tree } = await takeSnapshot(workspace, MADE);
    wipe(project);
    const restored = await restoreSnapshot(workspace, commit);
    expect(contentOf(project)).toEqual(before);
    expect(restored.exact).toBe(true);
    expect((await takeSnapshot(workspace, MADE)).tree).toBe(tree);
    expect(await checkStore(store)).toEqual([]);
  });

  it("holds all of them at once, with an index or without one", async () => {
    const project = make();
    for (const prepare of Object.values(ODD)) prepare(project);
    const { workspace } = await open(project);
    const first = await takeSnapshot(workspace, MADE);
    const again = await takeSnapshot(workspace, MADE);
    await forgetIndex(workspace);
    const anew = await takeSnapshot((await open(project)).workspace, MADE);
    expect([again.tree, anew.tree]).toEqual([first.tree, first.tree]);
    expect([again.empties, anew.empties]).toEqual([first.empties, first.empties]);
    expect([again.filesRead, anew.filesRead]).toEqual([0, first.filesRead]);
  });
});

describe("what a snapshot leaves out", () => {
  it("is named: large, unreadable, of no kind, with a name that git cannot hold", async () => {
    const project = gitProject({ "first.txt": "1\n" });
    write(project, {
      "git~1": "n",
      "large.bin": Buffer.alloc(2000),
      "small.bin": Buffer.alloc(10),
      "sub/.GIT": "x",
    });
    execFileSync("mkfifo", [join(project, "pipe")]);
    const server = createServer().listen(join(project, "socket"));
    onTestFinished(() => void server.close());
    const { workspace } = await open(project, { fileBytesMax: 1000 });
    const { skipped } = await takeSnapshot(workspace, MADE);
    expect(skipped).toEqual(
      expect.arrayContaining([
        { path: "large.bin", bytes: 2000, why: "too-large" },
        { path: "sub/.GIT", bytes: 1, why: "name" },
        { path: "git~1", bytes: 1, why: "name" },
      ]),
    );
    expect(await fileAt(workspace.store, REF, "small.bin")).toHaveLength(10);
    expect(await fileAt(workspace.store, REF, "large.bin")).toBeUndefined();
  });

  it("is named when a file that was held has grown, or become a pipe", async () => {
    const project = gitProject({ "grows.bin": "small", turns: "x" });
    const { store, workspace } = await open(project, { fileBytesMax: 1000 });
    await takeSnapshot(workspace, MADE);
    write(project, { "grows.bin": Buffer.alloc(1001) });
    fs.rmSync(join(project, "turns"));
    execFileSync("mkfifo", [join(project, "turns")]);
    const { skipped } = await takeSnapshot(workspace, MADE);
    expect(skipped).toEqual([
      { path: "grows.bin", bytes: 1001, why: "too-large" },
      { path: "turns", bytes: 0, why: "not-a-file" },
    ]);
    expect(await fileAt(store, REF, "grows.bin")).toBeUndefined();
  });

  it("is named when we may not read it", async () => {
    const project = scratch();
    write(project, { secret: "x", open: "y" });
    fs.chmodSync(join(project, "secret"), 0o000);
    await asNobody(project, async () => {
      const { workspace } = await open(project);
      const { skipped, filesRead } = await takeSnapshot(workspace, MADE);
      expect(skipped).toEqual([{ path: "secret", bytes: 1, why: "unreadable" }]);
      expect(filesRead).toBe(1);
    });
  });

  it("is what the rules ignore, but not what is tracked or included", async () => {
    const project = gitProject({ ".gitignore": "*.log\n/out/\n.env*\n", "a.txt": "a" });
    write(project, {
      "tracked.log": "t",
      "other.log": "o",
      "out/x": "x",
      ".env": "e",
      ".env.local": "l",
    });
    userGit(project, "add", "-f", "tracked.log");
    fs.writeFileSync(join(project, ".git/info/exclude"), "hidden\n");
    write(project, { hidden: "h" });
    const { store, workspace } = await open(project, { include: [".env"] });
    const { commit } = await takeSnapshot(workspace, MADE);
    const names = storeGit(store, "ls-tree", "-r", "--name-only", commit).trim().split("\n");
    expect(names).toEqual([".env", ".gitignore", "a.txt", "tracked.log"]);
    fs.rmSync(join(project, "tracked.log"));
    await takeSnapshot(workspace, MADE);
    expect(await fileAt(store, REF, "tracked.log")).toBeUndefined();
    write(project, { "tracked.log": "again" });
    await takeSnapshot(workspace, MADE);
    expect(await fileAt(store, REF, "tracked.log")).toBe("again");
  });

  it("follows the rules when they change, as one without an index does", async () => {
    const project = gitProject({ "a.txt": "a" });
    write(project, { "out/x": "x", "out/y": "y" });
    const { store, workspace } = await open(project);
    await takeSnapshot(workspace, MADE);
    write(project, { ".gitignore": "out/\n" });
    const { tree } = await takeSnapshot(workspace, MADE);
    expect(storeGit(store, "ls-tree", "-r", "--name-only", tree)).toBe(".gitignore\na.txt\n");
    fs.writeFileSync(join(project, ".git/info/exclude"), "a.*\n");
    fs.rmSync(join(project, ".gitignore"));
    const second = await takeSnapshot(workspace, MADE);
    fs.rmSync(workspace.indexFile);
    expect((await takeSnapshot(workspace, MADE)).tree).toBe(second.tree);
  });
});

describe("the user's repository", () => {
  it("is the same afterwards: index, HEAD, stash, reflog, refs, settings, files", async () => {
    const project = gitProject({ "a.txt": "a\n", "b.txt": "b\n", ".gitignore": "*.log\n" });
    userGit(project, "config", "core.autocrlf", "true");
    userGit(project, "config", "core.logAllRefUpdates", "always");
    userGit(project, "config", "commit.gpgSign", "true");
    userGit(project, "config", "filter.shout.clean", "tr a-z A-Z");
    write(project, { "a.txt": "stashed\n" });
    userGit(project, "stash");
    write(project, { "a.txt": "staged\n", "new.txt": "new\n", "x.log": "ignored\n" });
    userGit(project, "add", "a.txt");
    write(project, { "a.txt": "edited\n", ".gitattributes": "*.txt filter=shout\n" });
    const trace = join(project, ".git", "hooks-run");
    for (const hook of [
      "pre-commit",
      "post-checkout",
      "reference-transaction",
      "post-index-change",
    ]) {
      write(project, { [`.git/hooks/${hook}`]: `#!/bin/sh\necho ${hook} >> '${trace}'\n` });
      fs.chmodSync(join(project, ".git/hooks", hook), 0o755);
    }
    const { workspace } = await open(project);
    const state = userState(project);
    const files = contentOf(project);
    fs.rmSync(trace, { force: true });
    const { commit } = await takeSnapshot(workspace, MADE);
    expect(String(await readSnapshotFile(workspace.store, commit, "a.txt"))).toBe("edited\n");
    await restoreSnapshot(workspace, commit);
    await packStore(workspace.store);
    expect(fs.existsSync(trace)).toBe(false);
    expect(userState(project)).toEqual(state);
    expect(contentOf(project)).toEqual(files);
  });

  it("may collect its garbage: snapshots stay, and a dropped one does not spoil the next", async () => {
    const project = gitProject({ "a.txt": "a\n" });
    write(project, { "b.txt": "only in a snapshot\n" });
    const { store, workspace } = await open(project);
    const { tree } = await takeSnapshot(workspace, MADE);
    userGit(project, "gc", "-q", "--prune=now");
    expect(await fileAt(store, REF, "b.txt")).toBe("only in a snapshot\n");
    await dropRefs(store, [REF, "refs/perdure/r1/never-was"]);
    expect(await listRefs(store)).toEqual([]);
    userGit(project, "gc", "-q", "--prune=now");
    expect((await takeSnapshot(workspace, MADE)).tree).toBe(tree);
    expect(await fileAt(store, REF, "b.txt")).toBe("only in a snapshot\n");
    expect(await checkStore(store)).toEqual([]);
  });
});

describe("an index", () => {
  it("makes an unchanged tree cost no object, and nothing is read", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 1200 }, (_, n) => [`d${n % 40}/f${n}.txt`, `file ${n}\n`]),
    );
    const project = scratch();
    write(project, files);
    const { store, workspace } = await open(project);
    const first = await takeSnapshot(workspace, { ...MADE, at: 1000 });
    expect(first.filesRead).toBe(1200);
    const before = objectCount(store.gitDir);
    const second = await takeSnapshot(workspace, { ...MADE, at: 1000 });
    expect(second).toEqual({ ...first, filesRead: 0, bytesRead: 0 });
    expect(objectCount(store.gitDir)).toBe(before);
    // So many files at once come as one pack, not as a file each.
    expect(before).toContain("in-pack: 1200");
  });

  it("sees a change that keeps size and time, when another file takes its place", async () => {
    const project = scratch();
    write(project, { "a.txt": "one", "b.txt": "two" });
    const when = new Date("2020-01-01");
    for (const name of ["a.txt", "b.txt"]) fs.utimesSync(join(project, name), when, when);
    const { store, workspace } = await open(project);
    await takeSnapshot(workspace, MADE);
    fs.renameSync(join(project, "b.txt"), join(project, "a.txt"));
    await takeSnapshot(workspace, MADE);
    expect(await fileAt(store, REF, "a.txt")).toBe("two");
  });

  it("sees every change of the same size, however fast they follow", async () => {
    const project = scratch();
    const { store, workspace } = await open(project);
    for (let n = 0; n < 20; n++) {
      write(project, { "a.txt": `number ${n % 10}` });
      await takeSnapshot(workspace, MADE);
      expect(await fileAt(store, REF, "a.txt")).toBe(`number ${n % 10}`);
    }
  });

  /** Each keeps the size of files where it can, and some keep the times of files or directories. */
  const CHANGES: Readonly<Record<string, (directory: string) => void>> = {
    nothing: () => undefined,
    "a content": (d) => write(d, { "d1/f1.txt": "another\n" }),
    "nothing again": () => undefined,
    "a new file": (d) => write(d, { "d2/new.txt": "new\n" }),
    "a file in place of another": (d) => {
      fs.renameSync(join(d, "d2", "new.txt"), join(d, "d2", "f2.txt"));
    },
    "an empty directory": (d) => fs.mkdirSync(join(d, "bare")),
    "a file in a directory that was empty": (d) => write(d, { "bare/first.txt": "first\n" }),
    "a file less": (d) => fs.rmSync(join(d, "d3", "f3.txt")),
    "a mode": (d) => fs.chmodSync(join(d, "d4", "f4.txt"), 0o755),
    "a link in place of a file": (d) => {
      fs.rmSync(join(d, "d5", "f5.txt"));
      fs.symlinkSync("f25.txt", join(d, "d5", "f5.txt"));
    },
    "rules that ignore a held file": (d) => write(d, { ".gitignore": "f6.txt\n" }),
    "a file that is ignored": (d) => write(d, { "d7/f6.txt": "ignored\n" }),
    "a directory less": (d) => fs.rmSync(join(d, "d8"), { recursive: true }),
    "nothing at the end": () => undefined,
  };

  it.each([60, 4_100])("sees what git itself sees, with %i files", async (count) => {
    const names = Array.from({ length: count }, (_, n) => `d${n % 20}/f${n}.txt`);
    const project = gitProject(Object.fromEntries(names.map((name) => [name, `${name}\n`])));
    const past = new Date("2020-01-01");
    for (const name of names) fs.utimesSync(join(project, name), past, past);
    userGit(project, "update-index", "-q", "--refresh");
    const { workspace } = await open(project);
    await takeSnapshot(workspace, MADE);
    for (const [what, change] of Object.entries(CHANGES)) {
      change(project);
      expect((await takeSnapshot(workspace, MADE)).tree, what).toBe(treeByGit(project));
    }
  });

  it("is whole when many snapshots are taken at once, and when it is damaged", async () => {
    const project = gitProject({ "a.txt": "a\n" });
    const { store, workspace } = await open(project);
    const all = await Promise.all(
      Array.from({ length: 6 }, (_, n) => {
        write(project, { [`n${n}.txt`]: `${n}` });
        return takeSnapshot(workspace, { ref: `refs/perdure/r1/${n}`, message: "m" });
      }),
    );
    expect(new Set(all.map(({ tree }) => tree)).size).toBe(1);
    fs.writeFileSync(workspace.indexFile, "garbage");
    expect((await readContent(workspace)).tree).toBe(all[0]?.tree);
    fs.writeFileSync(`${workspace.indexFile}.json`, "{");
    expect((await readContent(workspace)).tree).toBe(all[0]?.tree);
    expect(await checkStore(store)).toEqual([]);
  });

  it("follows files into directories, directories into files and into links", async () => {
    const project = scratch();
    write(project, { a: "file", "b/x": "in b", "c/y": "in c" });
    const { workspace } = await open(project);
    const first = await takeSnapshot(workspace, MADE);
    const then = contentOf(project);
    for (const name of ["a", "b", "c"]) fs.rmSync(join(project, name), { recursive: true });
    write(project, { "a/inner": "in a", b: "file" });
    fs.symlinkSync("a", join(project, "c"));
    write(project, { "a/y": "through the link" });
    const second = await takeSnapshot(workspace, { ...MADE, ref: "refs/perdure/r1/two" });
    const now = contentOf(project);
    await restoreSnapshot(workspace, first.commit);
    expect(contentOf(project)).toEqual(then);
    await restoreSnapshot(workspace, second.commit);
    expect(contentOf(project)).toEqual(now);
  });
});

describe("a file that changes while it is read", () => {
  it("fails no snapshot", async () => {
    const project = scratch();
    write(project, { "still.txt": "still", "busy.log": "x".repeat(40_000) });
    const { store, workspace } = await open(project);
    const busy = join(project, "busy.log");
    let going = true;
    const rewrite = async (): Promise<void> => {
      for (let n = 0; going; n++) {
        await fs.promises.truncate(busy, 0);
        await fs.promises.writeFile(busy, String(n % 10).repeat(40_000));
      }
    };
    const writer = rewrite();
    for (let n = 0; n < 10; n++)
      await takeSnapshot(workspace, { ref: `refs/perdure/r1/${n}`, message: "m" });
    going = false;
    await writer;
    for (let n = 0; n < 10; n++) {
      expect(await fileAt(store, `refs/perdure/r1/${n}`, "still.txt")).toBe("still");
    }
    expect(await checkStore(store)).toEqual([]);
  });
});

/** Root may read everything: then the directory is given to somebody else, whom we become. */
async function asNobody(directory: string, work: () => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) return work();
  execFileSync("chown", ["-R", "12345:12345", directory]);
  process.setegid?.(12345);
  process.seteuid?.(12345);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
