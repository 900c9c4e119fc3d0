/**
 * Every command of the help on a run of a fleet: it works, or it is refused with what to do instead. And
 * what belongs to the edges of such commands: runs that no worker has yet, and copies that nobody needs.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";
import { initGit } from "./fleet-project.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
  initGit(fleet.dir);
});
afterAll(() => fleet.end());

/** Commands that are not about a run, or that other tests of this folder show. */
const ELSEWHERE = [
  // They are about pipelines, this machine, or the fleet as a whole.
  ...["init", "demo", "validate", "prices", "completion", "service", "doctor", "import", "run"],
  ...["submit", "schedules", "worker", "workers", "store", "push", "pull", "clean"],
  // Servers: anywhere.test.ts.
  ...["ui", "mcp"],
];

/** A command, its exit status, and what it prints. RUN is the run. */
type Row = readonly [words: string, exit: number, printed: string];

/** The run has a step whose effect is uncertain. */
const UNCERTAIN: readonly Row[] = [
  ["list", 0, "RUN"],
  ["inbox", 0, "pay"],
  ["show RUN", 0, "pay"],
  ["why RUN", 0, "perdure settle RUN pay"],
  ["logs RUN build", 0, "building"],
  ["explain RUN build", 0, "build"],
  ["timeline RUN", 0, "build"],
  ["diff RUN build", 0, "built.txt"],
  ["graph RUN", 0, "build"],
  ["report RUN", 0, "build"],
  ["cost", 0, "table"],
  ["replay RUN", 0, "no difference"],
  ["notify RUN", 0, ""],
  ["attach RUN", 3, "perdure settle RUN pay"],
  ["export RUN -o run.perdure", 0, "Exported"],
  ["merge RUN", 0, "Merged"],
  ["apply RUN", 0, "already"],
  ["pr RUN --base main", 1, "gh"],
  ["open RUN talk", 1, "perdure pull RUN"],
  ["stop RUN", 1, "perdure why RUN"],
  ["say RUN talk Hello", 0, "recorded"],
  ["settle RUN pay done", 0, "The run continues"],
];

/** The run asks a question. */
const ASKING: readonly Row[] = [
  ["answer RUN", 0, "Go?"],
  ["stop RUN", 1, "perdure answer RUN ask"],
  ["answer RUN ask approve", 0, "continues"],
];

/** The run has completed. */
const COMPLETED: readonly Row[] = [
  ["resume RUN", 2, "perdure show RUN"],
  ["resume RUN --files keep", 1, "perdure pull RUN"],
  ["skip RUN ask", 2, "perdure show RUN"],
  ["stop RUN", 1, "nothing running"],
  ["rewind RUN ask --dry-run", 0, "ask"],
  ["fork RUN --at ask", 0, "forked"],
  ["retry RUN ask", 0, "ask"],
];

test("each command of the help works on a run of a fleet, or suggests another command", async () => {
  await fleet.worker("table", "--labels", "table");
  const runId = await fleet.submitted(`
name: table
requires: [table]
workspace: { kind: worktree }
steps:
  - { id: build, run: "echo building; echo built > built.txt" }
  - { id: talk, agent: stand-in, prompt: Hello. }
  - { id: pay, run: exit 1, once: true }
  - { id: ask, gate: "Go?" }
`);
  const short = runId.slice(0, 8);
  const check = async (rows: readonly Row[]): Promise<void> => {
    const results: Row[] = [];
    for (const [words] of rows) {
      const { exit, stdout, stderr } = await fleet.run(words.replace("RUN", short).split(" "));
      results.push([words, exit ?? -1, (stdout + stderr).replaceAll(short, "RUN")]);
    }
    expect(results).toEqual(
      rows.map(([words, exit, printed]) => [words, exit, expect.stringContaining(printed)]),
    );
  };
  await fleet.reached(runId, "step.uncertain");
  await check(UNCERTAIN);
  await fleet.reached(runId, "step.asked");
  await check(ASKING);
  await fleet.reached(runId, "run.completed");
  await check(COMPLETED);
  await fleet.reached(runId, "step.asked", 2);
  const [help = ""] = (await fleet.must(["--help"])).split("Examples:");
  const commands = [...help.matchAll(/^ {2}([a-z]+)(?: .*)? {2,}\S/gm)].map(([, name]) => name);
  const shown = [...UNCERTAIN, ...ASKING, ...COMPLETED].map(([words]) => words.split(" ")[0]);
  expect(commands.length).toBeGreaterThan(40);
  expect(new Set(commands)).toEqual(new Set([...shown, ...ELSEWHERE]));
});

describe("stop", () => {
  const flow = (name: string): string => `
requires: [later]
steps: [{ id: only, run: "${fleet.effect(`later-${name}`)}" }]
`;

  test("T5: stops a run before a worker takes it; resume continues it", async () => {
    const [stopped, resumed, waiting] = [
      await fleet.submitted(flow("stopped")),
      await fleet.submitted(flow("resumed")),
      await fleet.submitted(`
requires: [later]
steps: [{ id: wait, wait: 1h }, { id: only, run: "${fleet.effect("later-waiting")}" }]
`),
    ];
    expect(await fleet.must(["stop", stopped, "--after-step"])).toContain("No worker drives run");
    expect(await fleet.document("stop", resumed)).toMatchObject({ outcome: "asked", steps: [] });
    await fleet.must(["resume", resumed]);
    await fleet.worker("later", "--labels", "later");
    await fleet.reached(stopped, "run.stopped");
    await fleet.reached(resumed, "run.completed");
    expect(fleet.effectsOf("later")).toEqual({ resumed: 1 });
    expect((await fleet.counts(stopped))["step.started"]).toBeUndefined();
    expect((await fleet.run(["stop", stopped])).exit).toBe(1);
    // A run that waits for a time has no owner either.
    await fleet.reached(waiting, "step.started");
    await fleet.must(["stop", waiting]);
    await fleet.reached(waiting, "run.stopped");
    await fleet.must(["resume", stopped]);
    await fleet.reached(stopped, "run.completed");
    expect(fleet.effectsOf("later")).toEqual({ resumed: 1, stopped: 1 });
  });
});

/** Makes files look as if nobody had touched them for so many days. */
function age(days: number, ...files: readonly string[]): void {
  const then = new Date(Date.now() - days * 24 * 3_600_000);
  for (const file of files) fs.utimesSync(file, then, then);
}

describe("copies and directories", () => {
  test("K1, K2: a worker removes directories that are in the store, and unused mirrors", async () => {
    const remote = `${fleet.dir}-remote`;
    userGit(fleet.dir, "clone", "-q", "--bare", fleet.dir, remote);
    userGit(fleet.dir, "remote", "add", "origin", `file://${remote}`);
    userGit(fleet.dir, "fetch", "-q", "origin");
    const worker = await fleet.worker("disk", "--labels", "disk");
    const flow = "requires: [disk]\nworkspace: worktree\nsteps: [{ id: only, run: echo only }]";
    const [old, young, lost] = [
      await fleet.submitted(flow),
      await fleet.submitted(flow),
      await fleet.submitted(flow),
    ];
    for (const runId of [old, young, lost]) await fleet.reached(runId, "run.completed");
    userGit(fleet.dir, "remote", "remove", "origin");
    const at = (runId: string, ...parts: readonly string[]): string =>
      join(worker.directory, "runs", runId, ...parts);
    await eventually("all are marked", () =>
      [old, young, lost].every((runId) => fs.existsSync(at(runId, "stored.json"))),
    );
    await worker.supervisor.kill("SIGTERM");
    const mirrors = join(worker.directory, "repositories");
    const [mirror = ""] = fs.readdirSync(mirrors);
    age(2, at(old, "stored.json"), at(lost, "stored.json"));
    age(40, join(mirrors, mirror, "perdure-fetched"));
    // As after a kill between the two halves of a removal, and after a lease that was lost.
    fs.cpSync(at(old), `${at("half")}.removed`, { recursive: true });
    fs.rmSync(at(lost, "owner.json"));
    await fleet.worker("disk", "--labels", "disk");
    await eventually("the old directory is gone", () => {
      const names = fs.readdirSync(join(worker.directory, "runs")).sort();
      return names.join() === [young, lost].sort().join() && fs.readdirSync(mirrors).length === 0;
    });
    // A run whose directory is gone continues from the store.
    await fleet.must(["retry", old, "only"]);
    await fleet.reached(old, "run.completed", 2);
    fs.rmSync(remote, { recursive: true });
  });

  test("C1: clean removes the copies of runs, and a later command fetches them again", async () => {
    await fleet.worker("copies", "--labels", "copies");
    const runId = await fleet.submitted(`
requires: [copies]
workspace: { kind: directory }
steps: [{ id: only, run: "echo printed; echo kept > kept.txt" }]
`);
    await fleet.reached(runId, "run.completed");
    const look = async (): Promise<void> => {
      expect(await fleet.must(["logs", runId, "only"])).toContain("printed");
      expect(await fleet.must(["diff", runId, "only"])).toContain("kept.txt");
    };
    await look();
    const [key = ""] = fs.readdirSync(join(fleet.stateHome, "perdure", "fleet"));
    const copies = join(fleet.stateHome, "perdure", "fleet", key, ".perdure");
    expect(await fleet.must(["clean", "--older-than", "1d"])).not.toContain(runId.slice(0, 8));
    for (let nth = 1; ; nth++) {
      const { signal, exit, stdout, stderr } = await fleet.run(["clean"], {
        env: { PERDURE_FAILPOINT: String(nth) },
      });
      await look();
      if (signal === "SIGKILL") continue;
      expect([exit, stderr]).toEqual([0, ""]);
      expect(nth).toBeGreaterThan(2);
      expect(stdout).toContain(copies);
      break;
    }
    await fleet.must(["clean"]);
    expect(fs.existsSync(join(copies, "runs", runId))).toBe(false);
    expect(fs.existsSync(join(copies, "snapshots.git"))).toBe(false);
  });
});
