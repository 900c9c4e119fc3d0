/** Where the repository of a run comes from on another machine: from its remote, or from the store. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAbout } from "../../src/app/fleet/ship.ts";
import { textOf } from "../../src/app/fleet/stored-parts.ts";
import type { ArchivedRun } from "../../src/app/transfer/run-parts.ts";
import { userGit } from "../workspace/rig.ts";
import { FleetProject, initGit } from "./fleet-project.ts";

let fleet: FleetProject;
let remote: string;
beforeEach(() => {
  fleet = new FleetProject();
  remote = `${fleet.dir}-remote.git`;
  initGit(fleet.dir);
  fleet.write(
    "p.yaml",
    `name: base
workspace: { kind: worktree, base: main }
steps:
  - { id: one, run: "git log --format=%s > log.txt; git remote get-url origin >> log.txt || true" }
`,
  );
});
afterEach(async () => {
  await fleet.remove();
  fs.rmSync(remote, { recursive: true, force: true });
});

function pushTo(address: string): void {
  userGit(fleet.dir, "clone", "-q", "--bare", fleet.dir, remote);
  userGit(fleet.dir, "remote", "add", "origin", address);
  userGit(fleet.dir, "fetch", "-q", "origin");
}

async function aboutOf(id: string): Promise<ArchivedRun> {
  const { files, blobs } = await fleet.store();
  const stored = (await files.changedSince(id, 0)).files.find(({ path }) => path === "about.json");
  if (stored === undefined) throw new Error("the store has no description");
  return parseAbout(await textOf(blobs, stored));
}

async function logAt(id: string): Promise<readonly string[]> {
  const { stdout, stderr } = await fleet.driven("one", id);
  expect(stdout, stderr).toBe("completed\n");
  const path = fleet.at("one", id, ".perdure", "runs", id, "workspace", "log.txt");
  return fs.readFileSync(path, "utf8").trim().split("\n");
}

describe("the commit that a run starts from", () => {
  it("is fetched from the remote; what the remote lacks is stored with the run", async () => {
    pushTo(`file://${remote}`);
    const base = userGit(fleet.dir, "rev-parse", "HEAD").trim();
    userGit(fleet.dir, "commit", "-q", "--allow-empty", "-m", "only here");
    const id = await fleet.submitted();
    expect(await aboutOf(id)).toMatchObject({
      base: [base],
      repository: { branch: "refs/heads/main" },
    });
    expect(await logAt(id)).toEqual(["only here", "first", `file://${remote}`]);
    // A machine that cannot read the remote any more needs the run's own commits only.
    expect(userGit(fleet.at("one", id), "rev-parse", "origin/main").trim()).toBe(base);
  });

  it("is fetched once for all runs of a worker, and their repositories do not depend on each other", async () => {
    pushTo(`file://${remote}`);
    const [first, second] = [await fleet.submitted(), await fleet.submitted()];
    expect(await logAt(first)).toEqual(["first", `file://${remote}`]);
    // Without the remote, another run of the same commit starts all the same.
    fs.renameSync(remote, `${remote}.away`);
    expect(await logAt(second)).toEqual(["first", `file://${remote}`]);
    fs.renameSync(`${remote}.away`, remote);
    userGit(fleet.dir, "commit", "-q", "--allow-empty", "-m", "second");
    userGit(fleet.dir, "push", "-q", "origin", "main");
    const third = await fleet.submitted();
    // A fetch that was killed leaves its lock; its mirror is made again.
    const mirrors = join(fleet.home("one"), "repositories");
    const [mirror = ""] = fs.readdirSync(mirrors);
    fs.rmSync(join(mirrors, mirror, "perdure-fetched"));
    fs.writeFileSync(join(mirrors, mirror, "HEAD.lock"), "");
    expect(await logAt(third)).toEqual(["second", "first", `file://${remote}`]);
    fs.rmSync(mirrors, { recursive: true });
    for (const id of [first, second, third]) userGit(fleet.at("one", id), "fsck", "--strict");
  });

  it("causes a failure with a remedy when it has disappeared from the remote", async () => {
    pushTo(`file://${remote}`);
    const id = await fleet.submitted();
    fs.rmSync(remote, { recursive: true });
    const gone = await fleet.driven("one", id);
    expect(gone.exit).toBe(1);
    expect(gone.stderr).toContain("cannot be fetched from file://");
    userGit(fleet.dir, "init", "-q", "--bare", remote);
    const other = await fleet.driven("one", id);
    expect(other.stderr).toContain("it is not there any more");
    const remedy = /push it there again \(git (.*)NAME\)/.exec(other.stderr)?.[1] ?? "";
    userGit(fleet.dir, ...`${remedy}again`.split(" "));
    expect(await logAt(id)).toEqual(["first", `file://${remote}`]);
  });

  it("is stored with the run without a remote, with a remote on this machine, or on request", async () => {
    pushTo(remote);
    const near = await fleet.submitted();
    expect((await aboutOf(near)).base).toEqual([]);
    userGit(fleet.dir, "remote", "set-url", "origin", `file://${remote}`);
    const asked = await fleet.submitted({ withBase: true });
    fs.rmSync(remote, { recursive: true });
    expect(await logAt(near)).toEqual(["first"]);
    expect(await logAt(asked)).toEqual(["first", `file://${remote}`]);
  });

  it("is described by its remote without the password in the address", async () => {
    userGit(fleet.dir, "remote", "add", "origin", "https://me:hidden-token@git.invalid/x.git");
    userGit(fleet.dir, "update-ref", "refs/remotes/origin/main", "HEAD");
    const id = await fleet.submitted();
    expect((await aboutOf(id)).repository?.remote).toBe("https://git.invalid/x.git");
    const files = fs.readdirSync(fleet.storePath, { recursive: true, withFileTypes: true });
    for (const entry of files.filter((one) => one.isFile())) {
      const bytes = fs.readFileSync(join(entry.parentPath, entry.name));
      expect(bytes.includes("hidden-token"), entry.name).toBe(false);
    }
  });
});
