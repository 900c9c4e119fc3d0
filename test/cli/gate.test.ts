/**
 * Gates with the real program: answers that are kept, of which exactly one counts, and no approval
 * without a person.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { KeptProject } from "../rig/kept-project.ts";
import {
  eventually,
  normalised,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";
import { several } from "../rig/several-commands.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const PLAIN = "workspace: { snapshots: false }\n";

function release(gate = 'gate: "Ship it?"'): void {
  const steps = [
    `  - {id: build, run: "${project.effect("build")}"}`,
    `  - id: approve\n    ${gate}`,
    `  - {id: ship, run: "${project.effect("ship")}"}`,
  ];
  project.write("p.yaml", `${PLAIN}name: release\nsteps:\n${steps.join("\n")}\n`);
}

async function idOf(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

/** Runs to the question; gives the run's id. */
async function asked(args: readonly string[] = ["run", "p.yaml"]): Promise<string> {
  const { exit, stdout, stderr } = await project.run(args);
  expect({ exit, stderr }, stdout).toEqual({ exit: 6, stderr: "" });
  return idOf();
}

/** The deadline of the only question. */
function deadlineOf(): { readonly at: number } {
  const asked = events().find(({ type }) => type === "step.asked");
  if (asked?.deadline === undefined) throw new Error("no question has a deadline");
  return asked.deadline;
}

interface StepReport {
  readonly deadline?: { readonly at: number };
  readonly type: string;
  readonly choice?: string;
  readonly text?: string;
  readonly by?: string;
  readonly from?: string;
  readonly reason?: string;
  readonly step?: string;
  readonly scope?: string;
}

/** The events of the only run, from the journal. */
function events(): readonly StepReport[] {
  const database = new DatabaseSync(project.path(".perdure", "state.db"), {
    readOnly: true,
    timeout: 10_000,
  });
  try {
    const rows = database.prepare("SELECT type, data FROM events ORDER BY run, seq").all();
    return rows.map((row) => ({
      type: String(row.type),
      ...(JSON.parse(String(row.data)) as object),
    }));
  } finally {
    database.close();
  }
}

function answers(): readonly StepReport[] {
  return events().filter(({ type }) => type === "step.answered");
}

describe("a gate that nobody can answer here", () => {
  it("ends the runner with 6 and the command that answers; resume says the same", async () => {
    release();
    const run = await project.run(["run", "p.yaml"]);
    expect(run.exit).toBe(6);
    expect(normalised(run.stdout, project).split("\n").slice(-8)).toEqual([
      "✓ build completed in 5ms",
      "◆ approve asks: Ship it? [A] approve, [R] reject",
      '◆ Run 1a2b3c4d (release) waits for a person: approve asks "Ship it?".',
      "  1 of 3 steps completed: build; next: approve.",
      "  Answer: perdure answer 1a2b3c4d approve approve",
      "  Or: perdure answer 1a2b3c4d approve reject",
      "  Then: perdure resume 1a2b3c4d",
      "",
    ]);
    const again = await project.run(["resume"]);
    expect(again.exit).toBe(6);
    expect(again.stdout).toContain("waits for a person");
    expect(project.effects()).toEqual({ build: 1 });
    const [list, json = ""] = await several(project, [["list"], ["list", "--output", "json"]]);
    expect(list).toMatch(/release +waiting/);
    const [row] = JSON.parse(json) as { status: string }[];
    expect(row?.status).toBe("waiting");
  });

  it("shows its question in every view", async () => {
    release('gate: {ask: "Ship it?\\nAll of it?", timeout: 2h, default: reject}');
    const id = await asked();
    const commands = ["show", "timeline", "graph", "report"].map((command) => [command, id]);
    const [answer = "", logs, show, timeline, graph, report] = await several(project, [
      ["answer", id],
      ["logs", id, "approve"],
      ...commands,
    ]);
    expect(normalised(answer, project).split("\n")).toEqual([
      'approve asks: Ship it? (until 2026-01-02 03:04:05 UTC, then "reject")',
      "  All of it?",
      "  [A] approve: perdure answer 1a2b3c4d approve approve",
      "  [R] reject: perdure answer 1a2b3c4d approve reject",
      "",
    ]);
    expect(show).toMatch(/◆ approve +asking .*Ship it\? \[A\] approve/);
    expect(logs).toContain("All of it?");
    expect(timeline).toMatch(/approve@1\.1 +asked .*Ship it\?/);
    expect(graph).toContain("asks: Ship it?");
    expect(report).toContain("Ship it?");
    const open = JSON.parse(await project.must(["answer", id, "--json"])) as object;
    const question = { step: "approve", default: "R", text: "optional", answered: false };
    expect(open).toMatchObject({ questions: [question] });
  });

  it("can be answered without a runner; the next runner continues", async () => {
    release();
    const id = await asked();
    const still = `error: run ${id} has nothing running to stop: it`;
    expect((await project.run(["stop", id])).stderr).toBe(
      `${still} is waiting for a person to answer approve\n` +
        `  next: perdure answer ${id} approve\n`,
    );
    const said = await project.must(["answer", id, "approve", "A", "--text", "well done"]);
    expect(said).toContain(`No process drives the run. Continue it:\n  perdure resume ${id}\n`);
    expect(answers()).toEqual([]);
    expect(await project.must(["why"])).toMatch(
      /now has the answer \(approve: \S+@\S+ answered "approve"/,
    );
    expect((await project.run(["stop", id])).stderr).toBe(
      `${still} has the answer that it waited for, and continues when it is resumed\n` +
        `  next: perdure resume ${id}\n`,
    );
    const late = await project.run(["answer", id, "approve", "reject"]);
    expect(late.exit).toBe(1);
    expect(late.stderr).toMatch(
      /approve was already answered: \S+@\S+ answered "approve" \(command\): well done, on /,
    );
    await project.must(["resume"]);
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
    expect(answers()).toMatchObject([{ choice: "A", text: "well done", from: "command" }]);
    expect((await project.run(["answer", id, "approve", "reject"])).stderr).toContain("already");
    expect(await project.must(["replay"])).toContain("no difference");
  });

  it("fails when it is rejected, and asks again when the run is resumed", async () => {
    release('gate: {ask: "Ship it?", text: required}');
    const id = await asked();
    const bare = await project.run(["answer", id, "approve", "reject"]);
    expect([bare.exit, bare.stderr]).toEqual([
      2,
      `error: approve: this answer needs a comment\n  next: perdure answer ${id} approve\n`,
    ]);
    await project.must(["answer", id, "approve", "reject", "-t", "no tests"]);
    const failed = await project.run(["resume"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toMatch(/it was rejected: \S+ answered "reject": no tests/);
    expect(project.effects()).toEqual({ build: 1 });
    expect((await project.run(["resume", id])).exit).toBe(6);
    await project.must(["answer", id, "approve", "a", "-t", "tests are there"]);
    await project.must(["resume"]);
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
  });

  it("follows the edge of the answer", async () => {
    const edges = '[{to: ship, label: "[S] Ship"}, {to: build, label: "[B] Build again"}]';
    release(`gate: "And now?"\n    edges: ${edges}`);
    const id = await asked();
    await project.must(["answer", id, "approve", "b"]);
    expect((await project.run(["resume"])).exit).toBe(6);
    await project.must(["answer", id, "approve", "Ship"]);
    await project.must(["resume"]);
    expect(project.effects()).toEqual({ build: 2, ship: 1 });
  });

  it("asks in the items of a fan-out, each by its name", async () => {
    const inner = [
      '{id: approve, gate: "Ship ${{ item }}?"}',
      `{id: ship, run: "${project.effect("ship")}"}`,
    ];
    const each = `{id: each, for_each: [x, y], steps: [${inner.join(", ")}]}`;
    project.write("p.yaml", `${PLAIN}steps:\n  - ${each}\n`);
    const id = await asked();
    const unclear = await project.run(["answer", id, "approve", "approve"]);
    expect(unclear.stderr).toContain(
      "approve may be one of each[0]/approve, each[1]/approve: name one",
    );
    await project.must(["answer", id, "each[1]/approve", "approve"]);
    expect((await project.run(["resume"])).exit).toBe(6);
    expect(project.effects()).toEqual({ ship: 1 });
    await project.must(["answer", id, "approve", "approve"]);
    await project.must(["resume"]);
    expect(project.effects()).toEqual({ ship: 2 });
  });

  it("masks a secret in its answer, and keeps the answer as it was given", async () => {
    release();
    const id = await asked();
    const env = { DEPLOY_TOKEN: "hunter2hunter2" };
    const args = ["answer", id, "approve", "A", "-t", "key hunter2hunter2"];
    expect(await project.must(args, { env })).toContain("key [redacted]");
    expect(await project.must(["resume"], { env })).toContain("key [redacted]");
    expect(answers()).toMatchObject([{ text: "key hunter2hunter2" }]);
  });

  it("can be exported and imported, asked or answered", async () => {
    release();
    const id = await asked();
    await project.must(["export", id, "-o", "asked.perdure"]);
    await project.must(["answer", id, "approve", "approve"]);
    await project.must(["export", id, "-o", "answered.perdure"]);
    for (const name of ["asked", "answered"]) {
      const other = new PlainProject();
      try {
        await other.must(["import", project.path(`${name}.perdure`)]);
        if (name === "asked") {
          expect((await other.run(["resume"])).exit).toBe(6);
          await other.must(["answer", id, "approve", "approve"]);
        }
        await other.must(["resume"]);
      } finally {
        await other.remove();
      }
    }
    // Both wrote where the pipeline says: into this project.
    expect(project.effects()).toEqual({ build: 1, ship: 2 });
  });
});

describe("a runner that stays", () => {
  async function staying(): Promise<Program> {
    const program = project.start(["run", "p.yaml", "--stay"]);
    await program.printed("approve asks");
    return program;
  }

  it("continues when a question is answered", async () => {
    release();
    const program = await staying();
    const id = await idOf();
    expect(await project.must(["list"])).toMatch(/release +waiting/);
    expect(await project.must(["answer", id, "approve", "A"])).toContain("The run continues.");
    expect(await program.ended).toMatchObject({ exit: 0, stderr: "" });
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
  });

  it("finds the answer of a command that was killed before its report", async () => {
    release();
    const program = await staying();
    const id = await idOf();
    const log = project.path("failpoints");
    const env = { PERDURE_FAILPOINT_LOG: log, PERDURE_FAILPOINT: "4" };
    const killed = await project.run(["answer", id, "approve", "A"], { env });
    expect(killed.signal).toBe("SIGKILL");
    expect(readFileSync(log, "utf8").trim().split("\n").at(-1)).toBe("answer.recorded");
    expect((await program.ended).exit).toBe(0);
  });

  it("stops after a signal or a request, and the next runner asks again", async () => {
    release();
    const first = await staying();
    expect((await first.kill("SIGTERM")).exit).toBe(143);
    const second = project.start(["resume", "--stay"]);
    await second.printed("resumed");
    await project.must(["stop"]);
    expect((await second.ended).exit).toBe(143);
    const id = await idOf();
    await project.must(["answer", id, "approve", "A"]);
    await project.must(["resume"]);
    expect(events().filter(({ type }) => type === "step.asked")).toHaveLength(1);
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
  });

  it("works in the background, too", async () => {
    release();
    await project.must(["run", "p.yaml", "--detach", "--stay"]);
    const id = await idOf();
    await eventually("it asks", () => events().some(({ type }) => type === "step.asked"));
    await project.must(["answer", id, "approve", "A"]);
    await eventually("it is done", () => events().some(({ type }) => type === "run.completed"));
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
  });

  it("lets other branches continue meanwhile, whatever slots they need", async () => {
    const hold = project.hold("slow");
    const text = [
      "max_parallel: 1",
      "steps:",
      `  - {id: slow, needs: [], run: "${hold.command}"}`,
      `  - {id: queued, needs: [], run: "${project.effect("queued")}"}`,
      '  - {id: approve, needs: [], gate: "Ship it?"}',
    ];
    project.write("p.yaml", `${PLAIN}${text.join("\n")}\n`);
    const program = project.start(["run", "p.yaml"]);
    await program.printed("approve asks");
    await hold.release();
    expect((await program.ended).exit).toBe(6);
    expect(project.effects()).toEqual({ queued: 1 });
  });
});

describe("the deadline of a gate", () => {
  it("makes the default count, and refuses later answers", async () => {
    release('gate: {ask: "Ship it?", timeout: 50ms, default: approve}');
    await project.must(["run", "p.yaml", "--stay"]);
    expect(answers()).toMatchObject([{ choice: "A", from: "timeout" }]);
    const id = await idOf();
    const late = await project.run(["answer", id, "approve", "reject"]);
    expect(late.exit).toBe(1);
    expect(late.stderr).toMatch(
      /answered too late: approve was open until .*; its default "approve"/,
    );
  });

  it("fails the gate without a default, also when there was no runner", async () => {
    release('gate: {ask: "Ship it?", timeout: 1ms}');
    await asked();
    const late = await project.run(["resume"]);
    expect(late.exit).toBe(5);
    expect(late.stdout).toContain("approve failed: nobody answered within 1ms\n");
    expect(events().find(({ type }) => type === "step.failed")).toMatchObject({
      reason: "unanswered",
    });
  });

  it("refuses an answer after the deadline, also when there was no runner", async () => {
    release('gate: {ask: "Ship it?", timeout: 1ms, default: reject}');
    const id = await asked();
    for (const choice of ["approve", "reject"]) {
      const late = await project.run(["answer", id, "approve", choice]);
      expect(late.exit).toBe(1);
      expect(late.stderr).toContain("answered too late: approve was open until ");
      expect(late.stderr).toContain(`its default "reject" counts\n  next: perdure resume ${id}\n`);
    }
    expect((await project.run(["resume", "--auto-approve"])).exit).toBe(3);
    expect(answers()).toMatchObject([{ choice: "R", from: "timeout" }]);
    expect(project.effects()).toEqual({ build: 1 });
  });

  it("does not undo an answer that came in time and that no runner had read", async () => {
    // On a busy machine the answer may come too late: then the next question waits longer.
    let isInTime = false;
    for (let seconds = 1; !isInTime; seconds *= 4) {
      release(`gate: {ask: "Ship it?", timeout: ${seconds}s, default: reject}`);
      await project.run(["run", "p.yaml"]);
      isInTime = (await project.run(["answer", await idOf(), "approve", "approve"])).exit === 0;
      if (!isInTime) await project.must(["clean", "--all", "--force"]);
    }
    const { at } = deadlineOf();
    await eventually("the deadline is over", () => Date.now() > at);
    await project.must(["resume"]);
    expect(answers()).toMatchObject([{ choice: "A", from: "command" }]);
  });

  it("is awaited where the pipeline says so, also after a kill of the runner", async () => {
    const text = [
      "steps:",
      "  - {id: pause, wait: 300ms}",
      `  - {id: until, wait: {until: "2020-01-01T00:00:00Z"}}`,
      `  - {id: after, run: "${project.effect("after")}"}`,
    ];
    project.write("p.yaml", `${PLAIN}${text.join("\n")}\n`);
    const program = project.start(["run", "p.yaml"]);
    await program.printed("pause waits for");
    await program.kill();
    await project.must(["resume"]);
    expect(
      events().filter(({ step, type }) => step === "pause" && type === "step.started"),
    ).toHaveLength(1);
    expect(project.effects()).toEqual({ after: 1 });
  });
});

describe("exactly one answer counts", () => {
  it("of several people who answer at the same time", async () => {
    const items = 4;
    const numbers = Array.from({ length: items }, (_, item) => item);
    const text = [
      "steps:",
      "  - id: each",
      `    for_each: ${JSON.stringify(numbers)}`,
      `    max_parallel: ${items}`,
      "    on_item_failure: continue",
      "    steps:",
      "      - {id: approve, gate: Go?}",
      `      - {id: go, run: "${project.effect("go")}"}`,
    ];
    project.write("p.yaml", `${PLAIN}${text.join("\n")}\n`);
    const id = await asked();
    const winners: string[] = [];
    for (let item = 0; item < items; item++) {
      const words = item % 2 === 0 ? ["approve", "reject"] : ["reject", "approve"];
      const results = await Promise.all(
        words.map((word) => project.run(["answer", id, `each@1.1[${item}]/approve`, word])),
      );
      const won = words.filter((_, index) => results[index]?.exit === 0);
      expect(won, JSON.stringify(results)).toHaveLength(1);
      const loser = results.find(({ exit }) => exit !== 0);
      expect([loser?.exit, loser?.stderr]).toEqual([1, expect.stringContaining("already")]);
      winners.push(won[0] === "approve" ? "A" : "R");
    }
    await project.must(["resume", id]);
    expect(new Map(answers().map(({ scope, choice }) => [scope, choice]))).toEqual(
      new Map(winners.map((choice, item) => [`each@1.1[${item}]/`, choice])),
    );
    expect(answers()).toHaveLength(items);
    expect(project.effects().go ?? 0).toBe(winners.filter((choice) => choice === "A").length);
  });

  it("of a person and the deadline", async () => {
    const seen = new Set<string>();
    for (const timeout of ["1ms", "200ms", "300ms", "1h"]) {
      release(`gate: {ask: "Ship it?", timeout: ${timeout}, default: reject}`);
      const program = project.start(["run", "p.yaml", "--stay", "--json"]);
      await program.printed("step.asked");
      const id = /"run_id":"([^"]+)"/.exec(program.stdout)?.[1] ?? "";
      const answered = await project.run(["answer", id, "approve", "approve"]);
      const { exit } = await program.ended;
      const won = answered.exit === 0;
      seen.add(won ? "person" : "clock");
      expect([exit, answersOf(id)]).toEqual(won ? [0, ["A"]] : [3, ["R"]]);
    }
    expect([...seen].toSorted()).toEqual(["clock", "person"]);
  });

  /** The choices that the journal of a run has. */
  function answersOf(id: string): readonly string[] {
    const file = join(project.dir, ".perdure", "runs", id, "events.jsonl");
    const lines = readFileSync(file, "utf8").trim().split("\n");
    return lines
      .filter((line) => line.includes('"step.answered"'))
      .map((line) => /"choice\\?":\\?"(\w)/.exec(line)?.[1] ?? "?");
  }

  it("also of a command that is killed while it answers", async () => {
    release();
    const id = await asked();
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    for (const nth of [1, 2, 3, 4]) {
      const env = { PERDURE_FAILPOINT: String(nth) };
      const killed: Result = await project.run(["answer", id, "approve", "approve"], { env });
      const again = await project.run(["answer", id, "approve", "reject"]);
      expect(killed.signal, `failpoint ${nth}`).toBe("SIGKILL");
      const expected = again.exit === 1 ? 0 : 3;
      expect((await project.run(["resume", id])).exit, `failpoint ${nth}`).toBe(expected);
      await project.remove();
      kept.putBack();
    }
  });
});

describe("a gate is not approved", () => {
  it("when stdin is closed, or answers yes to everything", async () => {
    release();
    const program = join(import.meta.dirname, "../../bin/perdure.js");
    const shell = `yes approve | "${process.execPath}" "${program}" run p.yaml >/dev/null 2>&1; echo $?`;
    const said = execFileSync("/bin/sh", ["-c", shell], { cwd: project.dir, encoding: "utf8" });
    expect(said).toBe("6\n");
    const closed = `"${process.execPath}" "${program}" resume <&- >/dev/null 2>&1; echo $?`;
    expect(execFileSync("/bin/sh", ["-c", closed], { cwd: project.dir, encoding: "utf8" })).toBe(
      "6\n",
    );
    expect(project.effects()).toEqual({ build: 1 });
    // A resume may say that everything is approved.
    await project.must(["resume", "--auto-approve"]);
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
  });

  it("unless --auto-approve is given, which is reported", async () => {
    release('gate: {ask: "Ship it?", timeout: 1h, default: reject}');
    await project.must(["run", "p.yaml", "--auto-approve"]);
    expect(answers()).toMatchObject([{ choice: "A", from: "auto-approve" }]);
    expect(project.effects()).toEqual({ build: 1, ship: 1 });
    const id = await idOf();
    expect(await project.must(["show", id])).toMatch(/\S+ answered "approve" \(auto-approve\)/);
  });
});
