/** Damaged state: every command stops with an error and names the repair, which loses nothing. */
import * as fs from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { KeptProject } from "../rig/kept-project.ts";
import { eventually, PlainProject, type Project, type Result } from "../rig/project.ts";

let project: Project;

/** Each test has a project of its own. */
function inOwnProjects(): void {
  beforeEach(() => {
    project = new PlainProject();
  });
  afterEach(() => project.remove());
}

/** The tests share a run: each begins with all files as they were when it was made. */
function withRun(make: () => Promise<string>): () => string {
  let runId: string;
  let kept: KeptProject;
  beforeAll(async () => {
    project = new PlainProject();
    runId = await make();
    kept = new KeptProject(project);
    await project.remove();
  });
  beforeEach(() => kept.putBack());
  afterEach(() => project.remove());
  afterAll(() => kept.forget());
  return () => runId;
}

const REPAIR = "perdure doctor --repair";

/** A run that failed half way: its first two steps must never run again. */
async function failedRun(): Promise<string> {
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: ${project.effect("one")}
  - id: two
    run: ${project.effect("two")}
  - id: three
    run: |
      test -e '${project.path("flag")}'
      ${project.effect("three")}
`,
  );
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  const [runId = ""] = await project.runIds();
  project.write("flag", "");
  return runId;
}

function database(): string {
  return project.path(".perdure", "state.db");
}

async function refused(args: readonly string[]): Promise<Result> {
  const result = await project.run(args);
  expect(result.exit, args.join(" ") + result.stdout).toBe(1);
  expect(result.stderr, args.join(" ")).toContain(REPAIR);
  expect(result.stderr).not.toContain("internal error");
  return result;
}

/** Doctor finds it, the repair mends it, and the run continues from where it was. */
async function repairedAndResumed(runId: string): Promise<void> {
  await refused(["doctor"]);
  const repaired = await project.run(["doctor", "--repair"]);
  expect(repaired.exit, repaired.stdout + repaired.stderr).toBe(0);
  expect(repaired.stdout).toContain(`✓ run ${runId} restored`);
  expect(repaired.stdout).toContain("The state is intact again. See the runs: perdure list runs");
  expect(checkJournal(database())).toEqual([]);
  const resumed = await project.run(["resume", await project.newestId()]);
  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ one: 1, two: 1, three: 1 });
}

describe("a run that failed halfway", () => {
  const failed = withRun(failedRun);

  it("repairs a truncated journal", async () => {
    fs.truncateSync(database(), Math.floor(fs.statSync(database()).size / 2));
    await refused(["resume"]);
    await refused(["list", "runs"]);
    await repairedAndResumed(failed());
  });

  it("repairs a journal of length zero", async () => {
    fs.truncateSync(database(), 0);
    await refused(["resume"]);
    await refused(["run", "p.yaml"]);
    await repairedAndResumed(failed());
  });

  it("repairs a missing journal instead of starting a new one that would hide the runs", async () => {
    for (const suffix of ["", "-wal", "-shm"]) fs.rmSync(database() + suffix, { force: true });
    for (const args of [["resume"], ["list", "runs"], ["run", "p.yaml"], ["why"]]) {
      const { stderr } = await refused(args);
      expect(stderr).toContain("state.db is missing");
    }
    await repairedAndResumed(failed());
  });

  describe("a flipped bit", () => {
    it("is always noticed, wherever it is", async () => {
      const whole = fs.readFileSync(database());
      const asked = JSON.stringify(await eventsOf(failed()));
      let found = 0;
      for (let from = 40; from < whole.length; from += Math.floor(whole.length / 7)) {
        // Most of a small database is empty: the next byte that holds something.
        const at = whole.findIndex((byte, index) => index >= from && byte !== 0);
        const bytes = Buffer.from(whole);
        bytes[at] = (bytes[at] ?? 0) ^ 0x10;
        fs.writeFileSync(database(), bytes);
        const checked = await project.run(["doctor"]);
        expect(checked.stderr).not.toContain("internal error");
        if (checked.exit !== 0) {
          expect(checked.stderr).toContain(REPAIR);
          const repaired = await project.run(["doctor", "--repair"]);
          expect(repaired.exit, repaired.stdout + repaired.stderr).toBe(0);
          found++;
        }
        expect(JSON.stringify(await eventsOf(failed())), `bit at ${at}`).toBe(asked);
      }
      expect(found).toBeGreaterThan(0);
      expect((await project.run(["resume", await project.newestId()])).exit).toBe(0);
      expect(project.effects()).toEqual({ one: 1, two: 1, three: 1 });
    });

    it("in an event stops the resume before anything runs", async () => {
      const bytes = fs.readFileSync(database());
      const at = bytes.lastIndexOf('"step":"two"');
      expect(at).toBeGreaterThan(0);
      bytes[at + 9] = (bytes[at + 9] ?? 0) ^ 1;
      fs.writeFileSync(database(), bytes);
      await refused(["resume", failed()]);
      expect(project.effects()).toEqual({ one: 1, two: 1 });
      await repairedAndResumed(failed());
    });
  });

  it("leaves a journal of a newer version alone", async () => {
    const journal = new DatabaseSync(database());
    journal.exec("PRAGMA user_version = 99");
    journal.close();
    for (const args of [
      ["resume"],
      ["list"],
      ["run", "p.yaml"],
      ["doctor"],
      ["doctor", "--repair"],
    ]) {
      const result = await project.run(args);
      expect(result.exit, args.join(" ")).toBe(1);
      expect(result.stderr).toContain("a newer perdure wrote it. Upgrade perdure to use it.");
      expect(result.stderr).toContain("next: use the newer perdure that wrote it");
    }
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  });
});

/** Everything that a journal has of a run. */
async function eventsOf(runId: string): Promise<unknown> {
  const journal = await openSqliteJournal(database(), { mode: "read-only" });
  try {
    const { events, plans } = await journal.log.load(runId);
    return [events, ...plans];
  } finally {
    await journal.close();
  }
}

describe("a run that was killed", () => {
  inOwnProjects();

  it("repairs a torn last line of the events file, and reports nothing false about it", async () => {
    const hold = project.hold("one");
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: |
      ${hold.command}
      ${project.effect("one")}
`,
    );
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    const [runId = ""] = await project.runIds();
    const file = project.path(".perdure", "runs", runId, "events.jsonl");
    // The files are written while the step is already at work.
    const reported = (): boolean =>
      fs.existsSync(file) && fs.readFileSync(file, "utf8").endsWith("}\n");
    await eventually("the second copy is written", reported);
    await running.kill("SIGKILL");
    fs.truncateSync(file, fs.statSync(file).size - 5);
    await hold.release();

    const resumed = await project.run(["resume"]);

    expect(resumed.exit, resumed.stderr).toBe(0);
    expect(resumed.stderr).toBe("");
    expect(project.effects()).toEqual({ one: 1 });
    const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
    const seqs = lines.map((line) => (JSON.parse(line) as { seq: number }).seq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    expect(await project.must(["doctor", "--repair"])).toContain("✓ nothing is broken");
  });

  it("does not repair the journal of a living run", async () => {
    const hold = project.hold("one");
    project.write("p.yaml", `steps:\n  - id: one\n    run: ${hold.command}\n`);
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    const [runId = ""] = await project.runIds();
    const bytes = fs.readFileSync(database());
    fs.writeFileSync(database(), bytes.fill(0, 0, 100));

    const result = await project.run(["doctor", "--repair"]);

    expect(result.exit).toBe(7);
    expect(result.stderr).toContain(`Process ${running.pid} is working on run ${runId}`);
    expect(result.stderr).toContain(`next: kill ${running.pid}, then: perdure doctor --repair`);
  });
});

describe("a journal that lost its newest events", () => {
  const killed = withRun(killedRun);

  /** A run that was killed in its second step, with its commits still in the -wal; one before it. */
  async function killedRun(): Promise<string> {
    project.write("first.yaml", `steps:\n  - id: a\n    run: ${project.effect("one")}\n`);
    await project.must(["run", "first.yaml"]);
    fs.copyFileSync(database(), project.path("backup"));
    fs.rmSync(project.path("effects"));
    const hold = project.hold("two");
    project.write(
      "p.yaml",
      `steps:
  - id: one
    run: ${project.effect("one")}
  - id: two
    run: |
      ${hold.command}
      ${project.effect("two")}
`,
    );
    const running = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await running.printed("▶ two started");
    const [runId = ""] = await project.runIds();
    const copy = project.path(".perdure", "runs", runId, "events.jsonl");
    await eventually("the second copy has the start of two", () =>
      fs.readFileSync(copy, "utf8").includes('"step":"two"'),
    );
    await running.kill("SIGKILL");
    await hold.release();
    await eventually("the step ends", () => project.stepProcesses().length === 0);
    return runId;
  }

  const COMMANDS = [["list"], ["why"], ["resume"], ["run", "p.yaml"]];

  async function refusedBy(commands: readonly string[][], runId: string): Promise<void> {
    for (const args of [...commands, ["why", runId]]) {
      const { stderr } = await refused(args);
      expect(stderr, args.join(" ")).toContain("has lost its newest events");
    }
    await refused(["doctor"]);
    const repaired = await project.run(["doctor", "--repair"]);
    expect(repaired.stdout, repaired.stderr).toContain(`✓ run ${runId} restored: events 1 to `);
    expect(await project.must(["doctor"])).toContain("✓ the journal is intact");
    const resumed = await project.run(["resume"]);
    expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  }

  it("because its -wal file was removed is refused by every command until it is repaired", async () => {
    expect(fs.statSync(`${database()}-wal`).size).toBeGreaterThan(0);
    for (const suffix of ["-wal", "-shm"]) fs.rmSync(database() + suffix);
    await refusedBy(COMMANDS, killed());
  });

  it("because an older copy was put back is refused, too", async () => {
    for (const suffix of ["-wal", "-shm"]) fs.rmSync(database() + suffix);
    fs.copyFileSync(project.path("backup"), database());
    await refusedBy([["resume"]], killed());
  });

  it("is found by doctor from the second copies alone", async () => {
    for (const suffix of ["-wal", "-shm", "-newest"]) fs.rmSync(database() + suffix);
    const { stdout } = await refused(["doctor"]);
    expect(stdout).toMatch(/✗ run \S+: Run \S+ has 0 events, and its second copy \d+\./);
  });
});

describe("damage during a run", () => {
  inOwnProjects();

  const ways: Record<string, { damage: () => void; says: string }> = {
    "the journal is overwritten": {
      damage: () => fs.writeFileSync(database(), Buffer.alloc(fs.statSync(database()).size, 0x21)),
      says: "state.db: the file is damaged",
    },
    "the journal is truncated": {
      damage: () => fs.truncateSync(database(), 512),
      says: "state.db was truncated while this process was using it",
    },
    "its -wal is removed": {
      damage: () => fs.rmSync(`${database()}-wal`),
      says: "state.db was removed or replaced while this process was using it",
    },
    "the journal is removed": {
      damage: () => fs.rmSync(database()),
      says: "state.db was removed while run ",
    },
  };

  it.each(Object.entries(ways))(
    "%s: stops the owner with an error",
    async (_name, { damage, says }) => {
      const hold = project.hold("one");
      project.write(
        "p.yaml",
        `steps:
  - id: one
    run: |
      ${hold.command}
      ${project.effect("one")}
  - id: two
    run: ${project.effect("two")}
`,
      );
      const running = project.start(["run", "p.yaml"]);
      await hold.arrived();
      await running.printed("▶ one started");
      damage();
      await hold.release();
      const stopped = await running.ended;
      expect(stopped.exit, stopped.stdout).toBe(1);
      expect(stopped.stderr).toContain(says);
      expect(stopped.stderr).toContain(REPAIR);
      expect(stopped.stdout).not.toContain("completed");
      const repaired = await project.run(["doctor", "--repair"]);
      expect(repaired.exit, repaired.stdout + repaired.stderr).toBe(0);
      const resumed = await project.run(["resume"]);
      expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
      expect(project.effects()).toEqual({ one: 1, two: 1 });
    },
  );

  it("a step removes .perdure: reports that everything is lost, and how to start again", async () => {
    // Without its wrapper: that one would wait for a folder to record the exit status in.
    project.write(
      "p.yaml",
      `workspace: here\nsteps:\n  - id: one\n    run: |\n      rm -rf .perdure\n      kill -KILL $PPID $$\n`,
    );
    const { exit, stderr } = await project.run(["run", "p.yaml"]);
    expect(exit).toBe(1);
    expect(stderr).toContain(`${project.path(".perdure")} was removed while run `);
    expect(stderr).toContain("the records of its runs are lost");
    expect(stderr).toContain("next: start again with: perdure run p.yaml");
    expect(stderr).not.toContain("nothing recorded is lost");
    expect(stderr).not.toContain("perdure resume");
  });
});
