/**
 * Requests to the living owner of a run: retry, rewind, settle and more budget. Each is handled
 * once despite kills (request/Q1), and none affects running work (request/Q2).
 */
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, type Hold, PlainProject, type Program, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

interface Living {
  readonly id: string;
  readonly hold: Hold;
  readonly runner: Program;
}

/** A run of two branches: `a` has ended, `b` waits, and `c` comes after both. */
async function living(a: string, { more = "", head = "" } = {}): Promise<Living> {
  const hold = project.hold("b");
  project.write(
    "p.yaml",
    `${head}steps:
  - { id: a, run: ${JSON.stringify(a)}${more} }
  - id: b
    needs: []
    run: |
      ${project.effect("b")}
      ${hold.command}
  - { id: c, needs: [a, b], run: ${project.effect("c")} }
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  await runner.printed(/a (completed|failed|may or may not)/);
  return { id: (await project.newestId()).slice(0, 8), hold, runner };
}

/** A step that fails until there is a file. */
const failing = (): string => `${project.effect("a")}; test -e ready`;

async function complete({ hold, runner }: Living): Promise<void> {
  await hold.release();
  const { exit, stdout, stderr } = await runner.ended;
  expect(exit, stdout + stderr).toBe(0);
}

/** The events of one type in the newest run. */
async function events(type: string): Promise<readonly object[]> {
  const [id = ""] = await project.runIds();
  const lines = project.read(".perdure", "runs", id, "events.jsonl").trimEnd().split("\n");
  const all = lines.map((line) => JSON.parse(line) as { type: string; data: object });
  return all.filter((event) => event.type === type).map(({ data }) => data);
}

/** Resolves when the inbox holds so many requests. */
async function sent(count: number): Promise<void> {
  await eventually(`${count} requests are in the inbox`, () => {
    const journal = new DatabaseSync(project.path(".perdure", "state.db"), { readOnly: true });
    const row = journal.prepare("SELECT count(*) AS n FROM requests").get() as { n: number };
    journal.close();
    return row.n === count;
  });
}

describe("a retry", () => {
  it("starts a failed step again while another branch runs, and the run completes", async () => {
    const run = await living(failing());
    expect(await project.must(["retry", run.id, "a", "--dry-run"])).toContain("a     run ");
    project.write("ready", "");
    const said = await project.must(["retry", run.id, "a"]);
    expect(said).toContain(`Retrying step a of run ${run.id}, which process ${run.runner.pid} of `);
    await run.runner.printed("a completed");
    const json = await project.must(["resume", run.id, "--budget", "+1h", "--json"]);
    const handled = { schema_version: 1, run_id: await project.newestId(), request: "handled" };
    expect(JSON.parse(json)).toEqual(handled);
    await complete(run);
    // What --dry-run showed was no request: the retry and the budget are all.
    expect(await events("request.handled")).toHaveLength(2);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
    expect(run.runner.stdout).toMatch(/● \S+@\S+ asked to retry a\n/);
  });

  it("of a running step is refused, and the suggested command works", async () => {
    const run = await living(project.effect("a"));
    const refused = await project.run(["retry", run.id, "b"]);
    expect(refused.exit).toBe(7);
    expect(refused.stderr).toContain("error: step b is running, and it would have to run again\n");
    expect(refused.stderr).toContain(`next: perdure stop ${run.id}\n`);
    expect(refused.stderr).toContain(`when it has stopped: perdure retry ${run.id} b\n`);
    await project.must(["stop", run.id]);
    expect((await run.runner.ended).exit).toBe(143);
    const again = project.start(["retry", run.id, "b"]);
    await run.hold.release();
    const { exit, stdout, stderr } = await again.ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ a: 1, b: 2, c: 1 });
  });

  it("asks before it repeats what must not happen twice", async () => {
    const run = await living(project.effect("a"), { more: ", once: true" });
    const refused = await project.run(["retry", run.id, "a"]);
    expect(refused.exit).toBe(2);
    expect(refused.stderr).toContain(`next: perdure retry ${run.id} a --yes\n`);
    await project.must(["retry", run.id, "a", "--yes"]);
    await eventually("a happens again", () => project.effects().a === 2);
    await complete(run);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
  });

  it("restores no files under a running step, and keeps them by default", async () => {
    const head = "workspace: copy\n";
    const run = await living(`${failing()} || { echo x > left; false; }`, { head });
    const refused = await project.run(["retry", run.id, "a", "--files", "restore"]);
    expect(refused.exit).toBe(7);
    expect(refused.stderr).toContain("b is running, and the files would be restored under it");
    const [id = ""] = await project.runIds();
    project.write(`.perdure/runs/${id}/workspace/ready`, "");
    await project.must(["retry", run.id, "a"]);
    await run.runner.printed("a completed");
    await complete(run);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
  });

  it("makes its process the next owner when the owner ends before it", async () => {
    const run = await living(failing());
    await project.must(["stop", run.id, "--after-step"]);
    await run.runner.printed("stopping after the running steps");
    project.write("ready", "");
    const asker = project.start(["retry", run.id, "a"]);
    await sent(2);
    await run.hold.release();
    expect((await run.runner.ended).exit).not.toBe(0);
    const { exit, stdout, stderr } = await asker.ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
    expect(await events("request.handled")).toHaveLength(1);
  });
});

describe("a rewind", () => {
  it("is refused while a step in its part of the graph runs, but works in another branch", async () => {
    const run = await living(project.effect("a"));
    const refused = await project.run(["rewind", run.id, "b"]);
    expect(refused.exit).toBe(7);
    expect(refused.stderr).toContain("error: step b is running, and it would have to run again\n");
    expect(refused.stderr).toContain(`when it has stopped: perdure rewind ${run.id} b\n`);
    const unknown = await project.run(["rewind", run.id, "nobody"]);
    expect(unknown.exit).toBe(2);
    expect(unknown.stderr).toContain("has no step nobody");
    expect(project.effects()).toEqual({ a: 1, b: 1 });
    const said = await project.must(["rewind", run.id, "a"]);
    expect(said).toContain(`Step a runs again in run ${run.id}, which process ${run.runner.pid} `);
    await eventually("a runs again", () => project.effects().a === 2);
    await complete(run);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
  });

  it("restores the files while the run waits for a person", async () => {
    project.write(
      "p.yaml",
      `workspace: directory
steps:
  - { id: a, run: "${project.effect("a")}; echo a >> file; test $(wc -l < file) = 1" }
  - { id: ok, gate: { ask: ship it? } }
  - { id: c, run: ${project.effect("c")} }
`,
    );
    const runner = project.start(["run", "p.yaml", "--stay"]);
    await runner.printed("ok asks: ship it?");
    const id = await project.newestId();
    expect(await project.must(["rewind", id, "a"])).toContain("runs again: a, ok, c\n");
    await runner.printed(/the files were restored[\s\S]*ok asks: ship it\?/);
    await project.must(["answer", id, "ok", "approve"]);
    const { exit, stdout, stderr } = await runner.ended;
    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ a: 2, c: 1 });
  });
});

describe("a verdict", () => {
  const once = ", once: true, outputs: { receipt: receipt }";

  it("settles a step while another branch runs, with the files that its owner finds", async () => {
    const run = await living(`${project.effect("a")}; exit 1`, { more: once });
    const missing = await project.run(["settle", run.id, "a", "done"]);
    expect(missing.exit).toBe(1);
    expect(missing.stderr).toContain("error: step a cannot be settled as done");
    expect(missing.stderr).toContain(`perdure settle ${run.id} a redo`);
    project.write("receipt", "paid");
    const said = await project.must(["settle", run.id, "a", "done"]);
    expect(said).toMatch(/^Step a of run \w+ is settled by \S+@\S+: it happened\.\n/);
    expect(said).toContain(`The run continues: process ${run.runner.pid} of `);
    await complete(run);
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    const certain = await project.run(["settle", run.id, "a", "redo"]);
    expect(certain.exit).toBe(2);
  });

  it("lets a step run again that did not happen", async () => {
    const run = await living(failing(), { more: ", once: true" });
    project.write("ready", "");
    await project.must(["settle", run.id, "a", "redo"]);
    await run.runner.printed("a completed");
    await complete(run);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
  });
});

describe("a request whose owner is killed before it reads it", () => {
  /** Sends a request to an owner that does not read it, and kills the owner and the asker. */
  async function unread(run: Living, args: readonly string[]): Promise<void> {
    run.runner.child.kill("SIGSTOP");
    const asker = project.start(args);
    await sent(1);
    await asker.kill("SIGKILL");
    await run.runner.kill("SIGKILL");
  }

  it("is handled once by the next owner: a retry", async () => {
    const run = await living(failing());
    await unread(run, ["retry", run.id, "a"]);
    project.write("ready", "");
    const next = project.start(["resume", run.id]);
    await next.printed("a completed");
    await next.kill("SIGKILL");
    const last = project.start(["resume", run.id]);
    await complete({ ...run, runner: last });
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
    expect(await events("request.handled")).toHaveLength(1);
    expect(await events("step.granted")).toHaveLength(1);
  });

  it("is handled once by the next owner: a rewind", async () => {
    const run = await living(project.effect("a"));
    await unread(run, ["rewind", run.id, "a"]);
    const next = project.start(["resume", run.id]);
    await next.printed("asked to rewind to a");
    await eventually("a runs again", () => project.effects().a === 2);
    await complete({ ...run, runner: next });
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
    expect(await events("run.rewound")).toHaveLength(1);
  });

  it("is handled once by the next owner: a verdict", async () => {
    const run = await living(`${project.effect("a")}; exit 1`, { more: ", once: true" });
    await unread(run, ["settle", run.id, "a", "done"]);
    await complete({ ...run, runner: project.start(["resume", run.id]) });
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    expect(await events("step.settled")).toHaveLength(1);
  });

  it("is handled once by the next owner: more budget", async () => {
    const run = await living(project.effect("a"), { head: "budget: { time: 1h }\n" });
    await unread(run, ["resume", run.id, "--budget", "+30m"]);
    const next = project.start(["resume", run.id]);
    await next.printed("the budget was raised by 30m");
    await next.kill("SIGKILL");
    await complete({ ...run, runner: project.start(["resume", run.id]) });
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    expect(await events("run.funded")).toEqual([{ added: { timeMs: 1_800_000 } }]);
  });

  it("is still handled when the owner reads it late, and the command says that it is pending", async () => {
    const run = await living(failing());
    run.runner.child.kill("SIGSTOP");
    project.write("ready", "");
    const said = await project.must(["retry", run.id, "a"]);
    expect(said).toMatch(
      /^The request is recorded, but process \d+ of .* has not handled it yet\.\n/,
    );
    run.runner.child.kill("SIGCONT");
    await run.runner.printed("a completed");
    await complete(run);
    expect(project.effects()).toEqual({ a: 2, b: 1, c: 1 });
  });
});
