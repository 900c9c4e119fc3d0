/**
 * The result of a run that stays in the fleet, taken on another machine that has only a clone of the
 * repository and the address of the store; with kills at each point.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PlainProject } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";
import { initGit } from "./fleet-project.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
let runId: string;
const clones: Clone[] = [];
beforeAll(async () => {
  fleet = await Fleet.open();
  initGit(fleet.dir);
  fs.mkdirSync(fleet.path("part"));
  fs.writeFileSync(fleet.path("part", "b.txt"), "b\n");
  userGit(fleet.dir, "add", "part");
  userGit(fleet.dir, "commit", "-q", "-m", "second");
  await fleet.worker("take");
  runId = await failedRun();
});
afterAll(async () => {
  for (const clone of clones) await clone.discard();
  await fleet.end();
});

/** Another machine: a clone of the repository, and the address of the store. */
class Clone extends PlainProject {
  static make(): Clone {
    const clone = new Clone();
    clones.push(clone);
    userGit(fleet.dir, "clone", "-q", fleet.dir, clone.dir);
    return clone;
  }

  override get own(): Readonly<Record<string, string>> {
    return { ...super.own, PERDURE_STORE: fleet.url };
  }

  git(...words: readonly string[]): string {
    return userGit(this.dir, ...words).trim();
  }

  /** Types a command again and again, killed one failpoint later each time, until nothing kills it. */
  async killed(...words: readonly string[]): Promise<{ kills: number; stdout: string }> {
    for (let nth = 1; ; nth++) {
      const { signal, exit, stdout, stderr } = await this.run(words, {
        env: { PERDURE_FAILPOINT: String(nth) },
      });
      if (signal === "SIGKILL") continue;
      expect(exit, stderr).toBe(0);
      return { kills: nth - 1, stdout };
    }
  }
}

/** A run of a project inside of the repository: one commit, and a file that no commit has. */
async function failedRun(): Promise<string> {
  fs.writeFileSync(
    fleet.path("part", "p.yaml"),
    `name: taken
workspace: { kind: worktree }
steps:
  - { id: one, run: "echo one >> ../a.txt; echo one > one.txt; ${fleet.effect("take-one")}" }
  - { id: two, run: "echo loose > loose.txt; rm b.txt; test -e '${fleet.path("mended")}'" }
`,
  );
  const submitted = await fleet.must(["-C", fleet.path("part"), "submit", "p.yaml", "--json"]);
  const { run_id: id } = JSON.parse(submitted) as { readonly run_id: string };
  await fleet.reached(id, "run.failed");
  return id;
}

test("merge, apply, pr and export take the result from the store, and the run stays in the fleet", async () => {
  const events = (await fleet.events(runId)).length;
  const clone = Clone.make();
  const merged = await clone.killed("merge", runId);
  expect(merged.kills).toBeGreaterThan(0);
  expect(clone.git("log", "-1", "--format=%s")).toContain("taken: one");
  expect(clone.read("a.txt")).toBe("a\none\n");
  expect(clone.git("status", "--porcelain")).toBe("");
  expect(clone.git("branch", "--format=%(refname:short)")).toBe("main");
  expect(await clone.must(["merge", runId])).toContain("already");

  expect(await clone.must(["apply", runId])).toContain("Changed 2 files");
  expect(clone.git("status", "--porcelain")).toBe("D part/b.txt\n?? part/loose.txt");
  expect(await clone.must(["apply", runId])).toContain("already");

  const other = Clone.make();
  const squashed = await other.must(["merge", runId, "--squash"]);
  expect(squashed).toContain("Not merged: 2 files in the fleet");
  expect((await fleet.events(runId)).length).toBe(events);
});

test("pr pushes the branch and opens one pull request although it is killed again and again", async () => {
  const clone = Clone.make();
  const remote = `${clone.dir}-remote`;
  userGit(fleet.dir, "clone", "-q", "--bare", fleet.dir, remote);
  clone.git("remote", "set-url", "origin", remote);
  const bin = `${clone.dir}-bin`;
  fs.mkdirSync(bin);
  const opened = join(bin, "opened");
  fs.writeFileSync(
    join(bin, "gh"),
    `#!/bin/sh
if [ "$2" = list ]; then test -e '${opened}' && echo '[{"url":"https://host/1"}]' || echo '[]'
else echo opened >> '${opened}'; echo https://host/1; fi
`,
    { mode: 0o755 },
  );
  const env = { PATH: `${bin}:${process.env.PATH ?? ""}` };
  clone.git("config", "user.name", "ann");
  const { exit, stdout, stderr } = await clone.run(["pr", runId], { env });
  expect(exit, stderr).toBe(0);
  expect(stdout).toContain("https://host/1");
  const branch = `perdure/${runId.slice(0, 8)}`;
  expect(userGit(remote, "log", "-1", "--format=%s", branch)).toContain("taken: one");
  expect(await clone.must(["pr", runId], { env })).toContain("already");
  expect(fs.readFileSync(opened, "utf8")).toBe("opened\n");
  for (const path of [remote, bin]) fs.rmSync(path, { recursive: true });
});

test("export writes a file from which another machine continues, and the run stays in the fleet", async () => {
  const clone = Clone.make();
  await clone.must(["export", runId, "-o", "run.perdure"]);
  const env = { PERDURE_STORE: "" };
  const there = ["-C", clone.path("part")];
  await clone.must(["import", "run.perdure", "--into", "part"], { env });
  fleet.write("mended", "");
  const resumed = await clone.run([...there, "resume", runId], { env });
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  await clone.must([...there, "merge", runId], { env });
  expect(clone.read("a.txt")).toBe("a\none\n");
  expect(clone.read("part", "loose.txt")).toBe("loose\n");
  expect((await fleet.events(runId)).at(-1)?.type).toBe("run.failed");
});

test("a directory outside of the repository is refused with what to do", async () => {
  const bare = new Clone();
  clones.push(bare);
  for (const verb of ["merge", "apply", "pr"]) {
    const refused = await bare.run([verb, runId]);
    expect([refused.exit, refused.stderr]).toEqual([
      1,
      expect.stringContaining("in a clone of its repository"),
    ]);
  }
  initGit(bare.dir);
  bare.git("commit", "-q", "--amend", "-m", "another history");
  expect((await bare.run(["merge", runId])).stderr).toContain("in a clone of its repository");
});
