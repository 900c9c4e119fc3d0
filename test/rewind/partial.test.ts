/** Interrupted work: shown before it continues, kept or set aside as a person says. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Terminal } from "../rig/terminal.ts";
import { type Kind, type MadeRun, MadeRuns, Repo } from "./rig.ts";

const RUNS = new MadeRuns();

/** A run whose step has written a file and waits; then the runner is stopped, or all is killed. */
function cutOff(kind: Kind, how: "stop" | "kill"): Promise<MadeRun> {
  return RUNS.again(`${kind} ${how}`, async (repo) => {
    const hold = repo.project.hold("b");
    const file = repo.project.path("p.yaml");
    writeFileSync(
      file,
      `name: cut
workspace: ${kind}
steps:
  - id: a
    run: echo a >> log.txt
  - id: b
    run: |
      echo half >> log.txt
      echo new > new.txt
      echo what it said
      test -e '${repo.project.path("go")}' || ${hold.command}
      echo whole >> log.txt
`,
    );
    const program = repo.project.start(["run", file], { cwd: repo.dir });
    await hold.arrived();
    await program.kill(how === "stop" ? "SIGINT" : "SIGKILL");
    if (how === "kill") await repo.project.killSteps();
    writeFileSync(repo.project.path("go"), "");
    return repo.ids()[0] ?? "";
  });
}

const DONE = ["b@1.1 was interrupted: 2 files changed, +2", "  M log.txt  +1", "  A new.txt  +1"];

it.each(["stop", "kill"] as const)("after a %s in a worktree it is set aside", async (how) => {
  const { repo, id } = await cutOff("worktree", how);
  const short = id.slice(0, 8);
  const why = (await repo.must("why", id)).split("\n");
  expect(why.slice(3, 6)).toEqual(DONE);
  expect(why).toContain("  │ what it said");
  const fate = `resume sets it aside and starts again (--recover continue continues it; see perdure diff ${short} b@1.1)`;
  expect(why).toContain(`  ${fate}`);
  expect(await repo.must("resume", id, "--dry-run")).toContain(DONE.join("\n"));
  const resumed = await repo.must("resume", id);
  expect(resumed).toContain(DONE.join("\n"));
  expect(repo.files("worktree", id)).toMatchObject({ "log.txt": "one\na\nhalf\nwhole\n" });
  expect(await repo.must("diff", id, "b@1.1")).toContain("A new.txt");
  expect(await repo.must("timeline", id)).toMatch(/b@1\.2 +restarted .* holds the files before/);
});

it("continues with it when a person says so, and the timeline tells", {}, async () => {
  const { repo, id } = await cutOff("worktree", "stop");
  expect(await repo.must("resume", id, "--recover", "continue")).toContain("resume continues it");
  expect(repo.files("worktree", id)).toMatchObject({ "log.txt": "one\na\nhalf\nhalf\nwhole\n" });
  expect(await repo.must("timeline", id)).toContain("--recover continue");
});

it("in the user's own directory it continues; a restart shows what it overwrites", {}, async () => {
  const { repo, id } = await cutOff("here", "stop");
  writeFileSync(join(repo.dir, "later.txt"), "written by hand\n");
  expect(await repo.must("why", id)).toContain("resume continues it (--recover restart");
  const restarted = await repo.must("resume", id, "--recover", "restart");
  expect(restarted).toContain("  overwrites log.txt\n  removes later.txt\n  removes new.txt\n");
  expect(repo.files("here", id)).toEqual({
    "log.txt": "one\na\nhalf\nwhole\n",
    "new.txt": "new\n",
  });
  const { checkpoints } = JSON.parse(await repo.must("timeline", id, "--json")) as {
    checkpoints: { outcome: string; set_aside: string | null }[];
  };
  const aside = checkpoints.find(({ outcome }) => outcome === "restarted")?.set_aside ?? "";
  await repo.must("rewind", id, aside, "--files", "restore");
  expect(repo.files("here", id)).toMatchObject({ "later.txt": "written by hand\n" });
});

it("what is taken back is continued with", async () => {
  const { repo, id } = await cutOff("worktree", "stop");
  writeFileSync(join(repo.place("worktree", id), "log.txt"), "overwritten\n");
  const refused = await repo.run("rewind", id, "b@1.1");
  const [, snapshot = ""] = /its files alone: perdure rewind \w+ (\w+)/.exec(refused.stderr) ?? [];
  await repo.must("rewind", id, snapshot);
  await repo.must("resume", id);
  expect(repo.files("worktree", id)).toMatchObject({ "log.txt": "one\na\nhalf\nhalf\nwhole\n" });
});

it("asks about each on a terminal", async () => {
  const { repo, id } = await cutOff("worktree", "stop");
  const terminal = new Terminal(repo.project, { columns: 120, rows: 40 });
  onTestFinished(() => terminal.close());
  terminal.perdure(`-C ${repo.dir} resume ${id} --recover ask`);
  await terminal.shows("Continue with it, or restart? [c/r]");
  expect(terminal.text()).toContain(DONE.join("\n"));
  terminal.type("c");
  await terminal.shows("status 0");
  expect(repo.files("worktree", id)).toMatchObject({ "log.txt": "one\na\nhalf\nhalf\nwhole\n" });
  expect(await repo.must("timeline", id)).toContain("b@1: continue");
});

it("changes by others stop a resume until a person has chosen", async () => {
  const repo = new Repo();
  const id = await repo.made("failing", "worktree");
  writeFileSync(repo.project.path("go"), "");
  const foreign = join(repo.place("worktree", id), "foreign.txt");
  writeFileSync(foreign, "foreign\n");
  const refused = await repo.run("resume", id);
  expect(refused.exit).toBe(1);
  expect(refused.stderr).toContain("foreign.txt");
  await repo.must("resume", id, "--files", "restore");
  expect(repo.files("worktree", id)).not.toHaveProperty("foreign.txt");
  expect([...repo.snapshots().keys()].some((ref) => ref.includes("/aside/foreign-"))).toBe(true);
});
