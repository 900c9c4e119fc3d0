/** Snapshots stay unnoticed: their cost, what they leave out, and what they never change. */
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";
import {
  kilobytes,
  snapshotFile,
  snapshotNames,
  userGit,
  userState,
  write,
} from "../workspace/rig.ts";

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

function withGit(files: Readonly<Record<string, string>> = { "a.txt": "a\n" }): void {
  userGit(project.dir, "init", "-q", "-b", "main");
  write(project.dir, { ".gitignore": ".perdure/\np.yaml\nbin/\n", ...files });
  userGit(project.dir, "add", ".");
  userGit(project.dir, "commit", "-q", "-m", "first");
}

function pipeline(...runs: readonly string[]): void {
  const steps = runs.map((run, at) => `  - { id: s${at}, run: ${JSON.stringify(run)} }`);
  project.write("p.yaml", `name: p\nsteps:\n${steps.join("\n")}\n`);
}

interface Receipt {
  readonly snapshot: { readonly skipped: readonly { path: string; bytes: number; why: string }[] };
}

async function skippedBy(
  step: string,
  as: Parameters<Project["runIds"]>[0] = {},
): Promise<Receipt["snapshot"]["skipped"]> {
  const [id = ""] = await project.runIds(as);
  const text = project.read(".perdure", "runs", id, "receipts", `${step}-shell.json`);
  return (JSON.parse(text) as Receipt).snapshot.skipped;
}

/** A git in front of the real one that writes down each of our calls. */
function counted(): { env: Record<string, string>; calls: () => readonly string[] } {
  const log = project.path("bin", "log");
  const script = [
    "#!/bin/bash",
    'dir=$(dirname "$0")',
    'words=$(sed "s/-c [^ ]*//g" <<< "$*")',
    `[ "$PERDURE_STEP" ] || echo $words >> '${log}'`,
    'PATH=${PATH#"$dir":} exec git "$@"',
  ];
  write(project.dir, { "bin/git": `${script.join("\n")}\n`, "bin/log": "" });
  fs.chmodSync(project.path("bin", "git"), 0o755);
  return {
    env: { PATH: `${project.path("bin")}:${process.env.PATH}` },
    calls: () => fs.readFileSync(log, "utf8").split("\n").slice(0, -1),
  };
}

describe("the user's repository", () => {
  it("does not grow, shows nothing of Perdure, and may collect its garbage", async () => {
    withGit();
    write(project.dir, { "a.txt": "changed\n", "b.txt": "only on the disk\n" });
    pipeline("echo c > c.txt", "rm c.txt");
    const before = userState(project.dir);
    await project.must(["run", "p.yaml"]);
    expect(userState(project.dir)).toEqual(before);
    expect(userGit(project.dir, "log", "--all", "--format=%s")).toBe("first\n");
    const mirror = project.path("..", `mirror-${process.pid}.git`);
    userGit(project.dir, "init", "-q", "--bare", mirror);
    userGit(project.dir, "push", "-q", "--mirror", mirror);
    expect(userGit(mirror, "for-each-ref", "--format=%(refname)")).toBe("refs/heads/main\n");
    fs.rmSync(mirror, { recursive: true });
    userGit(project.dir, "checkout", "-q", "--orphan", "other");
    userGit(project.dir, "commit", "-q", "--allow-empty", "-m", "nothing");
    userGit(project.dir, "branch", "-D", "main");
    userGit(project.dir, "reflog", "expire", "--expire=now", "--all");
    userGit(project.dir, "gc", "-q", "--prune=now");
    const [id = ""] = await project.runIds();
    const ref = `refs/perdure/${id}/s0@1.1/after`;
    expect(snapshotFile(project.dir, ref, ".gitignore")).toBe(".perdure/\np.yaml\nbin/\n");
    expect(snapshotFile(project.dir, ref, "c.txt")).toBe("c\n");
  });

  it("shares its clean files by links, so that a first snapshot writes none of them", async () => {
    withGit({ "big.bin": "0123456789abcdef".repeat(100_000) });
    // Not compressible, so that a copy would be seen.
    fs.writeFileSync(project.path("big.bin"), randomBytes(4_000_000));
    userGit(project.dir, "commit", "-qam", "random");
    pipeline("true");
    const alone = kilobytes(project.path(".git"));
    await project.must(["run", "p.yaml"]);
    const both = kilobytes(project.path(".git"), project.path(".perdure"));
    expect(both).toBeLessThan(alone + 2_000);
  });
});

describe("a step that changes nothing", () => {
  it("costs no git process", async () => {
    withGit();
    const { env, calls } = counted();
    pipeline("true");
    await project.must(["run", "p.yaml"], { env });
    const one = calls().length;
    pipeline(...Array.from({ length: 10 }, () => "true"));
    await project.must(["run", "p.yaml"], { env });
    expect(calls().length - one, calls().join("\n")).toBeLessThanOrEqual(one);
  });

  it("has the snapshot of the step before", async () => {
    withGit();
    pipeline("echo b > b.txt", "true", "true");
    await project.must(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    const names = snapshotNames(project.dir);
    const commits = ["s0", "s1", "s2"].map((step) =>
      names.get(`refs/perdure/${id}/${step}@1.1/after`),
    );
    expect(new Set(commits).size).toBe(1);
  });
});

describe("a large untracked file", () => {
  it.each([
    ["with git", withGit],
    ["without git", (): void => undefined],
  ])("is left out and named once, in a project %s", async (_, prepare) => {
    prepare();
    const megabyte = randomBytes(1024 * 1024);
    write(project.dir, {
      "app/node_modules/x/index.js": "x\n",
      "target/debug/out": "o\n",
      "src/main.ts": "m\n",
    });
    fs.mkdirSync(project.path("data"));
    for (let n = 0; n < 120; n++) fs.writeFileSync(project.path("data", `f${n}`), megabyte);
    fs.writeFileSync(project.path("one.bin"), Buffer.alloc(11 * 1024 * 1024, 1));
    pipeline("true", "rm -rf app/node_modules/x; echo n > app/node_modules/new; exit 1");
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    expect((await skippedBy("s0")).map(({ path, why }) => `${path} ${why}`).toSorted()).toEqual([
      "app/node_modules generated",
      "data too-large",
      "one.bin too-large",
      "target generated",
    ]);
    expect(kilobytes(project.path(".perdure"))).toBeLessThan(5_000);
    const [id = ""] = await project.runIds();
    const ref = `refs/perdure/${id}/s0@1.1/after`;
    expect(snapshotFile(project.dir, ref, "src/main.ts")).toBe("m\n");
    // Going back touches nothing of it.
    await project.must(["rewind", id, "s0", "--files", "restore"]);
    expect(project.read("app", "node_modules", "new")).toBe("n\n");
    expect(fs.readdirSync(project.path("data"))).toHaveLength(120);
    expect(project.exists("one.bin") && project.exists("target", "debug", "out")).toBe(true);
  });

  it("is part of a snapshot when it is tracked or included", async () => {
    withGit({ "target/kept.txt": "k\n" });
    write(project.dir, { "node_modules/x/index.js": "x\n" });
    project.write(
      "p.yaml",
      'workspace: { include: ["node_modules/**"] }\nsteps: [{ id: s0, run: "true" }]\n',
    );
    await project.must(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    const ref = `refs/perdure/${id}/s0@1.1/after`;
    expect(snapshotFile(project.dir, ref, "target/kept.txt")).toBe("k\n");
    expect(snapshotFile(project.dir, ref, "node_modules/x/index.js")).toBe("x\n");
  });
});

it("leaves out and names an unreadable directory", async () => {
  const nobody = 65_534;
  if (process.getuid?.() !== 0) throw new Error("the tests of other users need root");
  write(project.dir, { "a.txt": "a\n", "pgdata/base": "b\n", "half/open.txt": "o\n" });
  pipeline("echo s > s.txt; mkdir left; echo l > left/l; chmod 0 left", "cat s.txt > t.txt");
  fs.chmodSync(project.path("pgdata"), 0o700);
  for (const path of [".", "a.txt", "p.yaml", "half", "half/open.txt"]) {
    fs.chownSync(project.path(path), nobody, nobody);
  }
  const env = { HOME: project.dir };
  const as = { uid: nobody, env };
  await project.must(["run", "p.yaml"], as);
  const skipped = await skippedBy("s1", as);
  expect(skipped.map(({ path, why }) => `${path} ${why}`)).toEqual([
    "left unreadable",
    "pgdata unreadable",
  ]);
  expect(project.read("t.txt")).toBe("s\n");
});

it("runs no command from settings that somebody else put into the store", async () => {
  pipeline("echo b > b.txt");
  await project.must(["run", "p.yaml"]);
  fs.rmSync(project.path(".perdure", "snapshots.git"), { recursive: true });
  const proof = project.path("proof");
  const store = ".perdure/snapshots.git";
  write(project.dir, {
    "a.txt": "a\n",
    [`${store}/HEAD`]: "ref: refs/heads/x\n",
    [`${store}/config`]: `[core]\n\tbare = true\n\thooksPath = ${project.path("hooks")}\n[filter "evil"]\n\tclean = touch ${proof}; cat\n`,
    [`${store}/info/attributes`]: "* filter=evil\n",
    [`${store}/info/grafts`]: "x\n",
    [`${store}/hooks/post-index-change`]: `#!/bin/sh\ntouch ${proof}\n`,
    [`${store}/commondir`]: project.path("elsewhere"),
    [`${store}/objects/info/alternates`]: project.path("elsewhere"),
    [`${store}/refs/x`]: "",
    [`${store}/perdure.json`]: '{"version":2,"objects":"private","format":"sha1"}\n',
    "elsewhere/config": `[filter "evil"]\n\tclean = touch ${proof}; cat\n`,
  });
  fs.chmodSync(project.path(store, "hooks", "post-index-change"), 0o755);
  await project.must(["run", "p.yaml"]);
  expect(fs.existsSync(proof)).toBe(false);
  expect(project.exists(store, "hooks") || project.exists(store, "commondir")).toBe(false);
  expect(project.exists(store, "objects", "info", "alternates")).toBe(false);
});

it("changes no file in a merge that somebody else writes meanwhile", async () => {
  withGit();
  const hold = project.hold("own");
  project.write(
    "p.yaml",
    `
steps:
  - { id: own, needs: [], workspace: own, run: "echo own > own.txt; ${hold.command}" }
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  let written = 0;
  let going = true;
  const writing = (async (): Promise<void> => {
    for (; going; written++) {
      await fs.promises.writeFile(project.path(`theirs-${written}`), `${written}\n`);
      await fs.promises.appendFile(project.path("a.txt"), `${written}\n`);
    }
  })();
  await hold.release();
  const { exit, stdout, stderr } = await runner.ended;
  going = false;
  await writing;
  expect(exit, stdout + stderr).toBe(0);
  expect(project.read("own.txt")).toBe("own\n");
  const missing = Array.from({ length: written }, (_, n) => n).filter(
    (n) => !project.exists(`theirs-${n}`) || project.read(`theirs-${n}`) !== `${n}\n`,
  );
  expect(missing).toEqual([]);
  const lines = Array.from({ length: written }, (_, n) => `${n}\n`).join("");
  expect(project.read("a.txt")).toBe(`a\n${lines}`);
});
