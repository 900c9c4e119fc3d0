/**
 * A run of a fleet, seen and steered from a directory that has nothing but the address of the store;
 * and runs that move between a project and the fleet, with kills at each point of the move.
 */
import * as fs from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Lease } from "../../src/journal/leases.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { AgentClient } from "../mcp/agent-client.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { eventually, PlainProject } from "../rig/project.ts";
import { initGit } from "./fleet-project.ts";
import { Fleet } from "./worker-rig.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await Fleet.open();
});
afterAll(() => fleet.end());

const WALK_MS = 300_000;

/** A directory with nothing but the address, in the variable or in the configuration. */
class Elsewhere extends PlainProject {
  override get own(): Readonly<Record<string, string>> {
    return { ...super.own, PERDURE_STORE: fleet.url };
  }

  async document(...words: readonly string[]): Promise<Readonly<Record<string, unknown>>> {
    return JSON.parse(await this.must([...words, "--json"])) as Record<string, unknown>;
  }
}

let elsewhere: Elsewhere;
afterEach(() => elsewhere.discard());

describe("the runs of a fleet", () => {
  test("can be read and steered from any machine", { timeout: WALK_MS }, async () => {
    elsewhere = new Elsewhere();
    const hold = fleet.hold("anywhere");
    await fleet.worker("anywhere", "--labels", "anywhere");
    const sent = fleet.path("sent");
    const runId = await fleet.submitted(`
name: seen
requires: [anywhere]
workspace: {kind: directory}
notify: [{on: [waiting, failed, completed], run: 'echo "$PERDURE_NOTIFY_ON" >> ${sent}'}]
steps:
  - { id: one, run: "echo hello; echo kept > kept.txt; ${fleet.effect("anywhere-one")}" }
  - { id: ask, gate: "Continue?" }
  - { id: held, run: "echo begun; ${fleet.effect("anywhere-held")}; ${hold.command}; echo ended" }
  - { id: bad, run: "test -e '${fleet.path("anywhere-fixed")}'; ${fleet.effect("anywhere-bad")}" }
`);
    await fleet.reached(runId, "step.asked");
    expect(await elsewhere.document("list")).toMatchObject({
      runs: [{ run_id: runId, status: "waiting" }],
    });
    expect(await elsewhere.must(["logs", runId])).toContain("hello");
    expect(await elsewhere.must(["inbox"])).toContain("Continue?");
    // The other ones that read, such as `timeline`, are in commands.test.ts.
    for (const word of ["why", "report", "show"]) {
      expect((await elsewhere.run([word])).exit, word).toBe(0);
    }
    expect(await elsewhere.must(["answer", runId, "ask", "approve"])).toContain("continues");
    await hold.arrived();
    await elsewhere.must(["rewind", runId, "held", "--into", elsewhere.path("files")]);
    expect(elsewhere.read("files", "kept.txt")).toBe("kept\n");
    const follower = elsewhere.start(["logs", runId, "-f"]);
    const watcher = elsewhere.start(["attach", runId]);
    await follower.printed("begun");
    await watcher.printed("begun");
    await hold.release();
    await follower.printed("ended");
    await watcher.printed("failed");
    expect((await watcher.ended).exit).toBe(3);
    await fleet.reached(runId, "run.failed");
    // Nothing of it is in this directory.
    expect(fs.readdirSync(elsewhere.dir)).toEqual(["files"]);

    const fork = await elsewhere.document("fork", runId, "--at", "bad");
    expect((await elsewhere.run(["skip", runId, "bad"])).stdout).toContain("continues");
    await fleet.reached(runId, "run.completed");
    fleet.write("anywhere-fixed", "");
    await elsewhere.must(["resume", String(fork.run_id)]);
    await fleet.reached(String(fork.run_id), "run.completed");
    const again = hold.arrived();
    await elsewhere.must(["retry", String(fork.run_id), "held"]);
    await again;
    const { stdout } = await elsewhere.run(["stop", String(fork.run_id)]);
    expect(stdout).toContain("a worker on");
    await fleet.reached(String(fork.run_id), "run.stopped");
    expect(fleet.effectsOf("anywhere")).toEqual({ one: 1, held: 2, bad: 1 });
    await eventually("the notices are delivered", () => {
      const lines = fs.existsSync(sent) ? fs.readFileSync(sent, "utf8").split("\n") : [];
      return ["waiting", "failed", "completed"].every((moment) => lines.includes(moment));
    });

    await elsewhere.must(["pull", String(fork.run_id)]);
    const shown = await elsewhere.document("show", String(fork.run_id));
    expect(shown).toMatchObject({ cwd: elsewhere.dir });
  });

  test("are found by a store in the configuration, also by agents and the dashboard", async () => {
    elsewhere = new Elsewhere();
    await fleet.worker("configured", "--labels", "configured");
    const runId = await fleet.submitted(`
requires: [configured]
steps: [{ id: ask, gate: "Go?" }, { id: only, run: "${fleet.effect("configured-only")}" }]
`);
    await fleet.reached(runId, "step.asked");
    elsewhere.write("perdure.yaml", `store: ${fleet.url}\n`);
    const unset = { env: { PERDURE_STORE: undefined as unknown as string } };
    expect(await elsewhere.must(["list"], unset)).toContain(runId.slice(0, 8));
    const empty = { env: { PERDURE_STORE: "" } };
    expect(await elsewhere.must(["list"], empty)).not.toContain(runId.slice(0, 8));
    const agent = await AgentClient.connect(elsewhere, { env: { PERDURE_STORE: fleet.url } });
    expect(await agent.call("list_runs")).toMatchObject({
      runs: expect.arrayContaining([expect.objectContaining({ run_id: runId })]),
    });
    const dashboard = await Dashboard.start(elsewhere);
    const shown = await dashboard.fetch(`/api/runs/${runId}`);
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining("Go?")]);
    const given = { run: runId, step: "ask", choice: "approve" };
    expect(await agent.call("answer_question", given)).toMatchObject({ continues: true });
    await fleet.reached(runId, "run.completed");
    await agent.close();
    const again = await dashboard.fetch(`/api/runs/${runId}/retry`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ step: "only" }),
    });
    expect(again.status, await again.text()).toBe(200);
    await fleet.reached(runId, "run.completed", 2);
    expect(fleet.effectsOf("configured")).toEqual({ only: 2 });
  });
});

describe("push and pull", () => {
  /** Two gates between three effects. */
  const flow = (label: string): string => `
name: travel
requires: [${label}]
workspace: worktree
steps:
  - { id: one, run: "echo 1 >> a.txt; ${fleet.effect(`${label}-one`)}" }
  - { id: ask, gate: "Go?" }
  - { id: two, run: "echo 2 >> a.txt; ${fleet.effect(`${label}-two`)}" }
  - { id: more, gate: "Go on?" }
  - { id: three, run: "echo 3 >> a.txt; ${fleet.effect(`${label}-three`)}" }
`;

  /** The number of places that could drive a run now: never more than one. */
  async function owners(runId: string): Promise<number> {
    const here = await openSqliteJournal(elsewhere.path(".perdure", "state.db"), {
      mode: "read-only",
    });
    const isFree = (lease: Lease | undefined): boolean => lease?.owner?.place === undefined;
    let count = 0;
    for (const { log, leases } of [here, fleet.journal]) {
      const isThere = (await log.resolve(runId)).includes(runId);
      if (isThere && isFree(await leases.of(runId))) count++;
    }
    await here.close();
    return count;
  }

  /** Moves a run, or is killed at a failpoint; gives the failpoints that were passed. */
  async function moved(
    verb: string,
    runId: string,
    place?: string,
  ): Promise<{ readonly isKilled: boolean; readonly passed: readonly string[] }> {
    const log = `${elsewhere.dir}-failpoints`;
    fs.rmSync(log, { force: true });
    const env = { PERDURE_FAILPOINT_LOG: log, ...(place && { PERDURE_FAILPOINT: place }) };
    let result = await elsewhere.run([verb, runId], { env });
    // A worker looks once more whether the run wants something.
    while (result.exit === 7) result = await elsewhere.run([verb, runId], { env });
    const passed = fs.readFileSync(log, "utf8").split("\n").slice(0, -1);
    const isKilled = place !== undefined && result.signal === "SIGKILL";
    if (!isKilled) expect(result.exit, result.stderr).toBe(0);
    return { isKilled, passed };
  }

  /**
   * Moves a run, by commands that are killed at these failpoints, one after the other, and one that is
   * not; gives the failpoints that none of them has passed.
   */
  async function movedAtLast(
    verb: string,
    runId: string,
    places: readonly string[],
  ): Promise<readonly string[]> {
    for (const [index, place] of places.entries()) {
      const { isKilled } = await moved(verb, runId, place);
      const where = `${verb} killed at ${place}`;
      expect(await owners(runId), where).toBeLessThanOrEqual(1);
      if (!isKilled) return places.slice(index);
    }
    await elsewhere.must([verb, runId]);
    expect(await owners(runId), `${verb} after kills`).toBe(1);
    return [];
  }

  /** The names of the failpoints among those that were passed. */
  function namesOf(passed: readonly string[], ours: RegExp): readonly string[] {
    return [...new Set(passed.filter((name) => ours.test(name)))].map((name) => `${name}:1`);
  }

  /** The runs in this directory. */
  async function local(): Promise<readonly string[]> {
    return elsewhere.exists(".perdure", "state.db") ? elsewhere.runIds() : [];
  }

  async function started(): Promise<string> {
    const before = new Set(await local());
    expect((await elsewhere.run(["run", "p.yaml", "--beside"])).exit).toBe(6);
    return (await local()).find((id) => !before.has(id)) ?? "";
  }

  test("move a run although they are killed again and again; every effect happens once", {
    timeout: WALK_MS,
  }, async () => {
    elsewhere = new Elsewhere();
    initGit(elsewhere.dir);
    elsewhere.write("p.yaml", flow("moves"));
    await fleet.worker("moves", "--labels", "moves");
    const first = await started();
    let push = namesOf((await moved("push", first)).passed, /^push\./);
    await elsewhere.must(["answer", first, "ask", "approve"]);
    await fleet.reached(first, "step.asked", 2);
    let pull = namesOf((await moved("pull", first)).passed, /^(pull|import)\./);
    expect([push.length, pull.length]).toEqual([3, 6]);
    // It can go there again, with what has happened here.
    await elsewhere.must(["push", first]);
    await fleet.reached(first, "run.moved", 3);
    await moved("pull", first);
    await elsewhere.must(["answer", first, "more", "approve"]);
    expect((await elsewhere.run(["resume", first])).exit).toBe(0);
    expect((await elsewhere.run(["merge", first])).exit).toBe(0);
    expect(elsewhere.read("a.txt")).toBe("a\n1\n2\n3\n");
    for (let runs = 2; push.length + pull.length > 0; runs++) {
      expect(runs, `never killed at ${[...push, ...pull].join()}`).toBeLessThan(9);
      const runId = await started();
      push = await movedAtLast("push", runId, push);
      await elsewhere.must(["answer", runId, "ask", "approve"]);
      await fleet.reached(runId, "step.asked", 2);
      pull = await movedAtLast("pull", runId, pull);
      await elsewhere.must(["answer", runId, "more", "approve"]);
      const { exit, stderr } = await elsewhere.run(["resume", runId, "--beside"]);
      expect(exit, stderr).toBe(0);
      expect(fleet.effectsOf("moves")).toEqual({ one: runs, two: runs, three: runs });
    }
  });

  test("refuse a run that a process drives, and suggest to stop it", async () => {
    elsewhere = new Elsewhere();
    const hold = fleet.hold("driven");
    elsewhere.write("p.yaml", `steps: [{ id: held, run: "${hold.command}" }]`);
    const owner = elsewhere.start(["run", "p.yaml"]);
    await hold.arrived();
    const [runId = ""] = await local();
    const refused = await elsewhere.run(["push", runId]);
    expect([refused.exit, refused.stderr]).toEqual([
      7,
      expect.stringContaining(`perdure stop ${runId.slice(0, 8)}`),
    ]);
    await elsewhere.must(["stop", runId]);
    await owner.ended;
    await elsewhere.must(["push", runId]);
    const there = await elsewhere.run(["resume", runId], { env: { PERDURE_STORE: "" } });
    expect([there.exit, there.stderr]).toEqual([7, expect.stringContaining("perdure pull")]);
  });
});
