/**
 * A `.perdure` directory that perdure has not made here: nothing in it is used, and nothing is
 * written through it.
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project, type Result } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

const STRANGER = 4711;
const isRoot = process.geteuid?.() === 0;

let project: Project;
/** Where the attacked person works. */
let clone: string;
beforeEach(() => {
  project = new Project();
  clone = project.path("clone");
  project.write("p.yaml", `steps: [{ id: one, run: ${JSON.stringify(project.effect("one"))} }]\n`);
});
afterEach(() => project.discard());

const run = (cwd: string): Promise<Result> => project.run(["run", project.path("p.yaml")], { cwd });

/** A store of snapshots whose git runs a command for each file that is added. */
function plantStore(state: string): void {
  const store = join(state, "snapshots.git");
  userGit(project.dir, "init", "-q", "--bare", store);
  userGit(store, "config", "filter.evil.clean", project.effect("evil"));
  fs.mkdirSync(join(store, "info"), { recursive: true });
  fs.writeFileSync(join(store, "info", "attributes"), "* filter=evil\n");
  for (const folder of ["refs", "objects"]) fs.writeFileSync(join(store, folder, "keep"), "");
}

/** A repository with a file, in which `plant` may leave what it wants to ship. */
function repository(plant: (root: string) => void): string {
  const origin = project.path("origin");
  fs.mkdirSync(origin);
  fs.writeFileSync(join(origin, "file.txt"), "text\n");
  userGit(origin, "init", "-q", "-b", "main");
  plant(origin);
  userGit(origin, "add", "-A", "-f");
  userGit(origin, "commit", "-q", "-m", "first");
  return origin;
}

const cloned = (origin: string): string => userGit(project.dir, "clone", "-q", origin, clone);

/** The command that a refusal names. */
function nextOf({ stderr }: Result): string {
  return /next: (.*)/.exec(stderr)?.[1] ?? "";
}

describe("a .perdure that came with a repository", () => {
  it("runs no code with any command until git has removed it", async () => {
    cloned(repository((root) => plantStore(join(root, ".perdure"))));
    const refused = await run(clone);
    for (const args of [["list"], ["resume"], ["doctor"]]) {
      const { stderr, exit } = await project.run(args, { cwd: clone });
      expect({ stderr, exit }).toEqual({ stderr: refused.stderr, exit: 1 });
    }
    expect(refused.stderr).toContain(`${clone}/.perdure came with the repository: git tracks`);
    expect(refused.exit).toBe(1);
    expect(project.effects()).toEqual({});

    execFileSync("sh", ["-c", nextOf(refused)]);
    expect((await run(clone)).exit).toBe(0);
    expect(project.effects()).toEqual({ one: 1 });
    expect((await project.run(["list"], { cwd: clone })).stdout).toContain("completed");
  });

  it("is refused under a restrictive umask, too, and in a parent directory", async () => {
    const origin = repository((root) => plantStore(join(root, ".perdure")));
    execFileSync("sh", ["-c", `umask 077; git clone -q '${origin}' '${clone}'`]);
    fs.mkdirSync(join(clone, "sub"));
    const result = await run(join(clone, "sub"));
    expect(result.stderr).toContain("came with the repository");
    expect(project.effects()).toEqual({});
  });

  it("is not written to through links in it", async () => {
    project.write("victim", "mine\n");
    cloned(
      repository((root) => {
        fs.mkdirSync(join(root, ".perdure"));
        fs.symlinkSync(project.path("victim"), join(root, ".perdure", ".gitignore"));
      }),
    );
    expect((await run(clone)).exit).toBe(1);
    expect(project.read("victim")).toBe("mine\n");
  });

  it("is recognised when a pull replaces files that perdure made", async () => {
    const origin = repository(() => undefined);
    cloned(origin);
    expect((await run(clone)).exit).toBe(0);
    plantStore(join(origin, ".perdure"));
    userGit(origin, "add", "-A", "-f");
    userGit(origin, "commit", "-q", "-m", "second");
    userGit(clone, "pull", "-q");

    const refused = await run(clone);
    expect(refused.stderr).toContain("came with the repository");
    expect(project.effects()).toEqual({ one: 1 });
    execFileSync("sh", ["-c", nextOf(refused)]);
    const { stdout } = await project.run(["list"], { cwd: clone });
    expect(stdout).toContain("completed");
  });
});

describe("a .perdure that is or contains a link", () => {
  const made = (link: string, target: string): void => {
    fs.mkdirSync(join(clone, ".perdure"), { recursive: true, mode: 0o700 });
    fs.rmSync(join(clone, ".perdure", link), { recursive: true, force: true });
    fs.symlinkSync(target, join(clone, ".perdure", link));
  };

  it.each([".gitignore", "state.db", "snapshots.git", "runs", "artifacts"])(
    "called %s is refused",
    async (name) => {
      const target = project.path("elsewhere");
      made(name, target);
      const refused = await run(clone);
      const listed = await project.run(["list"], { cwd: clone });
      for (const { stderr } of [refused, listed]) {
        expect(stderr).toContain(`${clone}/.perdure/${name} is a symbolic link`);
      }
      expect(fs.existsSync(target)).toBe(false);
      execFileSync("sh", ["-c", nextOf(refused)]);
      expect((await run(clone)).exit).toBe(0);
    },
  );

  it("is refused, also when the link is broken", async () => {
    fs.mkdirSync(clone);
    for (const target of ["elsewhere", "nowhere"]) {
      if (target === "elsewhere") fs.mkdirSync(project.path(target));
      fs.symlinkSync(project.path(target), join(clone, ".perdure"));
      const result = await run(clone);
      expect(result.stderr).toContain(`${clone}/.perdure is a symbolic link`);
      execFileSync("sh", ["-c", nextOf(result)]);
    }
    expect(fs.readdirSync(project.path("elsewhere"))).toEqual([]);
    expect(project.exists("nowhere")).toBe(false);
    expect((await run(clone)).exit).toBe(0);
  });
});

describe.skipIf(!isRoot)("a .perdure that belongs to another user", () => {
  const plantedIn = (directory: string): string => {
    fs.mkdirSync(directory, { recursive: true });
    const state = join(directory, ".perdure");
    fs.mkdirSync(state, { mode: 0o700 });
    plantStore(state);
    execFileSync("chown", ["-R", `${STRANGER}`, state]);
    return state;
  };

  it("is refused in the directory itself", async () => {
    const state = plantedIn(clone);
    const result = await run(clone);
    expect(result.stderr).toContain(`${state} belongs to user ${STRANGER}, and perdure runs as`);
    expect(project.effects()).toEqual({});
  });

  it("is ignored in a parent directory", async () => {
    plantedIn(clone);
    const below = join(clone, "w");
    fs.mkdirSync(below);
    const listed = await project.run(["show"], { cwd: below });
    expect(listed.stderr).toContain(`(${clone}/.perdure belongs to another user)`);
    expect((await run(below)).exit).toBe(0);
    expect(fs.existsSync(join(below, ".perdure", "state.db"))).toBe(true);
    expect(project.effects()).toEqual({ one: 1 });
  });

  it("is used with sudo by that user", async () => {
    fs.mkdirSync(clone);
    expect((await run(clone)).exit).toBe(0);
    execFileSync("chown", ["-R", `${STRANGER}`, clone]);
    const env = { SUDO_UID: `${STRANGER}` };
    expect((await project.run(["list"], { cwd: clone, env })).exit).toBe(0);
    expect((await project.run(["list"], { cwd: clone })).exit).toBe(1);
  });
});

describe("a .perdure that others may read", () => {
  it("is refused if it was unpacked from an archive, until its user vouches for it", async () => {
    fs.mkdirSync(clone);
    await run(clone);
    const copy = project.path("copy");
    execFileSync("cp", ["-a", clone, copy]);
    execFileSync("chmod", ["-R", "go+rX", copy]);
    const refused = await project.run(["list"], { cwd: copy });
    expect(refused.stderr).toContain("is open to other users, so perdure did not create it");
    execFileSync("sh", ["-c", nextOf(refused).split("yours: ")[1] ?? "false"]);
    expect((await project.run(["list"], { cwd: copy })).stdout).toContain("completed");
  });

  it("is made private if perdure has made it here", async () => {
    fs.mkdirSync(clone);
    await run(clone);
    const state = join(clone, ".perdure");
    fs.chmodSync(state, 0o755);
    expect((await run(clone)).exit).toBe(0);
    expect(fs.statSync(state).mode & 0o777).toBe(0o700);
  });
});

it("uses a .perdure that was moved or copied unchanged", async () => {
  cloned(repository(() => undefined));
  await run(clone);
  const moved = project.path("moved");
  const copy = project.path("copy");
  fs.renameSync(clone, moved);
  execFileSync("cp", ["-a", moved, copy]);
  for (const cwd of [moved, copy]) {
    expect((await project.run(["list"], { cwd })).stdout).toContain("completed");
  }
});
