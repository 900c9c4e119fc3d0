/**
 * `--json` of every command, from the real program, in many states of a run: each document and each
 * event fits the published schema, and stdout has nothing else (view/J1).
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { COMMANDS } from "../../src/view/json/documents.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { helps } from "../rig/help.ts";
import { stateless, text } from "../rig/model/reply.ts";
import { faultsOf, valuesIn } from "../rig/printed-json.ts";
import { PlainProject, type Program, type Project, type StartOptions } from "../rig/project.ts";
import { several } from "../rig/several-commands.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

type Document = Readonly<Record<string, unknown>>;

/** What `perdure ARGS --json` prints, checked against the schema of the command. */
async function printed(
  args: readonly string[],
  options: StartOptions & { readonly exit?: number } = {},
): Promise<readonly Document[]> {
  const { exit = 0, ...start } = options;
  const result = await project.run([...args, "--json"], start);
  expect(result.exit, `${args.join(" ")}: ${result.stdout}${result.stderr}`).toBe(exit);
  return checked(args, result.stdout);
}

/** The commands whose documents were checked. */
const seen = new Set<string>();

function checked(args: readonly string[], stdout: string): readonly Document[] {
  if (stdout !== "") seen.add(args[0] ?? "");
  const values = stdout === "" ? [] : valuesIn(stdout);
  for (const value of values) {
    const faults = faultsOf(args[0] ?? "", value);
    expect(faults, `${args.join(" ")}: ${JSON.stringify(value)}`).toEqual([]);
  }
  return values as readonly Document[];
}

/** The only document of a command. */
async function document(...words: Parameters<typeof printed>): Promise<Document> {
  const [only, ...others] = await printed(...words);
  expect(others).toEqual([]);
  return only ?? {};
}

/** What some commands print with `--json`, in one process; they only read. */
async function together(
  ...commands: readonly (readonly string[])[]
): Promise<readonly (readonly Document[])[]> {
  const texts = await several(
    project,
    commands.map((command) => [...command, "--json"]),
  );
  return commands.map((command, index) => checked(command, texts[index] ?? ""));
}

/** The same, in a process for each of them. */
async function apart(
  ...commands: readonly (readonly string[])[]
): Promise<readonly (readonly Document[])[]> {
  const all: (readonly Document[])[] = [];
  for (const command of commands) all.push(await printed(command));
  return all;
}

/** The commands that read something of the newest run, whatever its state is; gives what `why` says. */
async function readAll(step: string, print = together): Promise<Document> {
  const id = await project.newestId();
  const about = { run_id: id, schema_version: 1 };
  const [logs = [], ...documents] = await print(
    ["logs", id],
    ...["why", "show", "report", "timeline", "answer"].map((command) => [command, id]),
    ["explain", id, step],
    ["replay", id],
    ["list"],
    ["graph", id],
    ["resume", id, "--dry-run"],
  );
  for (const line of logs) expect(line).toMatchObject(about);
  expect(documents).toMatchObject([
    ...Array.from({ length: 5 }, () => [about]),
    [{ ...about, step }],
    [{ ...about, difference: null }],
    [{ runs: [{ run_id: id }] }],
    [{}],
    [{}],
  ]);
  return documents[0]?.[0] ?? {};
}

/** The events of the newest run, as `attach` prints them. */
async function events(exit = 0): Promise<readonly Document[]> {
  const lines = await printed(["attach", await project.newestId()], { exit });
  expect(lines.map(({ sequence }) => sequence)).toEqual(lines.map((_, index) => index + 1));
  return lines;
}

async function killed(runner: Program): Promise<void> {
  await runner.kill();
  await project.killSteps();
}

const FANS = `name: fans
workspace: here
input: { type: object, properties: { who: { type: string } } }
steps:
  - id: make
    run: echo 1 > made; echo '{"n":1}' >> "$PERDURE_CONTEXT"; echo hello
    outputs: { made: made }
  - id: each
    for_each: { in: [a, b] }
    steps: [{ id: one, run: echo "$PERDURE_ITEM" }]
  - id: maybe
    when: "false"
    run: "true"
  - id: loop
    loop: { until: results.turn.exit == 0, max_iterations: 3 }
    steps: [{ id: turn, run: "true" }]
`;

describe("a run that", () => {
  it("completed, with a fan-out, outputs and a skipped step", async () => {
    project.write("p.yaml", FANS);
    const lines = await printed(["run", "p.yaml", "-i", "who=ann"]);
    expect(lines.at(-1)).toMatchObject({ type: "run.completed", schema_version: 1 });
    await readAll("make", apart);
    expect(await events()).toEqual(lines);
    const id = await project.newestId();
    expect((await document(["diff", id, "make", "--patch"])).files).not.toEqual([]);
    const words = [
      ["resume", id],
      ["report", id, "--with-output"],
      ["notify", id],
    ];
    expect(await together(...words, ["service", "status"])).toMatchObject([
      [{ run_id: id, status: "completed" }],
      [{ run_id: id }],
      [{ run_id: id, schema_version: 1, sent: 0, unsent: 0 }],
      [{}],
    ]);
  });

  it("failed at a check, and is retried", async () => {
    project.write(
      "p.yaml",
      `name: bad
workspace: here
steps:
  - { id: a, run: echo made > made }
  - { id: b, run: "true", check: "echo because; test -e flag", retry: { attempts: 2 } }
`,
    );
    const lines = await printed(["run", "p.yaml"], { exit: 3 });
    expect(lines.at(-1)).toMatchObject({ type: "run.failed" });
    expect((await readAll("b")).check_output).not.toEqual([]);
    const id = await project.newestId();
    const plans = await together(
      ...["retry", "rewind"].map((command) => [command, id, "b", "--dry-run"]),
    );
    expect(plans).toMatchObject([[{}], [{}]]);
    expect(await document(["rewind", id, "b"])).toMatchObject({ runs_again: ["b"], request: null });
    const into = project.path("copy");
    expect(await document(["rewind", id, "a@1.1", "--into", into])).toMatchObject({ into });
    await printed(["resume", id], { exit: 3 });
    expect(await document(["skip", id, "b"])).toMatchObject({ step: "b", request: "handled" });
    project.write("flag", "");
    await printed(["retry", id, "a"]);
    project.write("p.yaml", `${project.read("p.yaml")}  - { id: c, run: "true" }\n`);
    const plan = await document(["resume", id, "--update", "--dry-run"]);
    expect(plan).toMatchObject({ run_id: id, stops_first: [] });
    await printed(["resume", id, "--update", "--yes"]);
  });

  it("waits for a person", async () => {
    project.write(
      "p.yaml",
      `steps: [{ id: ask, gate: { ask: "Ship it?", timeout: 2h, default: reject } }]\n`,
    );
    await printed(["run", "p.yaml"], { exit: 6 });
    await readAll("ask");
    await events(6);
    const id = await project.newestId();
    expect(await together(["inbox"], ["doctor"], ["answer", id])).toMatchObject([
      [{}],
      [{}],
      [{ questions: [{ step: "ask", attempt: 1, answered: false }] }],
    ]);
    const answer = await document(["answer", id, "ask", "approve", "-t", "well"]);
    expect(answer).toMatchObject({ step: "ask", choice: "A", text: "well", continues: false });
    await printed(["resume", id]);
  });

  it("was interrupted, and is stopped, forked, exported, imported and cleaned", async () => {
    const hold = project.hold("b");
    project.write(
      "p.yaml",
      `workspace: here
steps:
  - { id: a, run: echo 1 > a }
  - id: b
    run: |
      ${hold.command}
`,
    );
    const runner = project.start(["run", "p.yaml", "--json"]);
    await hold.arrived();
    const id = await project.newestId();
    await document(["show", id]);
    const refused = await document(["resume", id], { exit: 7 });
    expect(refused).toMatchObject({ error: { code: "run-owned" } });
    expect(await document(["resume", id, "--budget", "+1h"])).toMatchObject({ request: "handled" });
    await killed(runner);
    checked(["run"], runner.stdout);
    expect((await readAll("a")).status).toBe("interrupted");
    const { error } = await document(["stop", id], { exit: 1 });
    expect(error).toMatchObject({ code: "nothing-to-stop" });
    await document(["fork", id, "--at", "b", "--dry-run"]);
    const fork = await document(["fork", id, "--at", "b"]);
    expect(fork).toMatchObject({ forked_from: { run_id: id } });
    const file = project.path("run.perdure");
    expect(await document(["export", id, "-o", file])).toMatchObject({ run_id: id, file });
    const there = new PlainProject();
    const imported = await document(["import", file, "--into", there.dir]);
    expect(imported).toMatchObject({ run_id: id, known: false });
    const moved = await printed(["attach", id], { cwd: there.dir });
    expect(moved.map(({ type }) => type)).toContain("run.moved");
    await there.remove();
    const [forked, cleaned] = await together(
      ["attach", String(fork.run_id)],
      ["clean", "--all", "--dry-run"],
    );
    expect(forked?.map(({ type }) => type)).toContain("run.forked");
    expect(cleaned).toMatchObject([{ dry_run: true }]);
    expect(await document(["clean", "--all", "--force"])).toMatchObject({ dry_run: false });
    await document(["show", id]);
  });

  it("runs in the background, and is asked to stop", async () => {
    const hold = project.hold("a");
    project.write("p.yaml", `steps:\n  - id: a\n    run: |\n      ${hold.command}\n`);
    const detached = await document(["run", "p.yaml", "--detach"]);
    expect(detached).toMatchObject({ alive: true });
    await hold.arrived();
    const watcher = project.start(["attach", "--json"]);
    await watcher.printed("step.started");
    expect(await document(["stop"])).toMatchObject({ outcome: "asked", mode: "now" });
    checked(["attach"], (await watcher.ended).stdout);
    expect((await readAll("a")).status).toBe("interrupted");
  });

  it("has an effect that must happen once", async () => {
    const hold = project.hold("push");
    project.write(
      "p.yaml",
      `steps:\n  - id: push\n    once: true\n    run: |\n      ${hold.command}\n`,
    );
    const runner = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await killed(runner);
    const id = await project.newestId();
    await printed(["resume", id], { exit: 3 });
    await readAll("push");
    const settled = await document(["settle", id, "push", "done"]);
    expect(settled).toMatchObject({ step: "push", verdict: "done", request: "handled" });
    await printed(["resume", id]);
    expect((await document(["show", id])).steps).toMatchObject([{ status: "completed" }]);
  });

  it("is a DOT pipeline", async () => {
    const fixture = resolve(import.meta.dirname, "../fixtures/dot/smoke.dot");
    fs.copyFileSync(fixture, project.path("p.dot"));
    expect(await together(["validate", "p.dot"], ["graph", "p.dot"])).toMatchObject([[{}], [{}]]);
    const result = await project.run(["run", "p.dot", "--simulate", "all", "--json"]);
    const lines = checked(["run"], result.stdout);
    const started = lines.find(({ type }) => type === "step.started");
    await readAll(String(started?.step));
  });
});

describe("a worktree run", () => {
  function git(...args: readonly string[]): void {
    const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
    execFileSync("git", args, { cwd: project.dir, env, stdio: "pipe" });
  }

  it("is merged, applied and opened as a pull request", async () => {
    git("init", "-q", "-b", "main");
    git("config", "user.name", "Ann");
    git("config", "user.email", "ann@example.org");
    project.write("p.yaml", "workspace: worktree\nsteps: [{ id: a, run: echo 1 > a }]\n");
    project.write(".gitignore", "bin\norigin\n");
    git("add", ".");
    git("commit", "-qm", "begin");
    git("init", "-q", "--bare", "origin");
    git("remote", "add", "origin", project.path("origin"));
    fs.mkdirSync(project.path("bin"));
    const gh =
      '#!/bin/sh\ncase "$2" in list) echo "[]";; *) echo https://example.org/pr/1;; esac\n';
    fs.writeFileSync(project.path("bin", "gh"), gh, { mode: 0o755 });
    const PATH = `${project.path("bin")}:${process.env.PATH}`;

    await printed(["run", "p.yaml"]);
    await readAll("a");
    const opened = await document(["pr"], { env: { PATH } });
    expect(opened).toMatchObject({ url: "https://example.org/pr/1", is_new: true });
    expect(await document(["apply"])).toMatchObject({ files: 1 });
    fs.rmSync(project.path("a"));
    expect(await document(["merge"])).toMatchObject({ outcome: "merged", target: "main" });
    expect(await document(["merge"])).toMatchObject({ outcome: "already" });
  });
});

describe("agents", () => {
  it("show a run with an agent, a message for it, and what it used", async () => {
    const claude = await FakeClaude.open(stateless(text("Done.")));
    try {
      project = claude;
      const env = claude.environment;
      project.write("p.yaml", "steps: [{ id: work, agent: claude, prompt: Do it. }]\n");
      await document(["doctor", "p.yaml"], { env });
      await printed(["run", "p.yaml"], { env });
      await readAll("work");
      expect(await document(["cost", "--by", "day,model"])).toMatchObject({ by: ["day", "model"] });
      const id = await project.newestId();
      const said = await document(["say", id, "work", "Do it again."]);
      expect(said).toMatchObject({ step: "work", delivery: "when-run-again" });
      const shown = await document(["show", id]);
      expect(shown).toMatchObject({ spent: { turns: 1 }, messages: [{ step: "work" }] });
      await printed(["retry", id, "work"], { env });
      await events();
    } finally {
      await claude.close();
    }
  });
});

describe("without a run", () => {
  it("prints files, prices, and the state of the machine", async () => {
    project.write("wrong.yaml", "steps: [{ id: one, rum: ls }]\n");
    const { files } = await document(["validate", "wrong.yaml"], { exit: 4 });
    expect(files).toMatchObject([{ valid: false, steps: null }]);
    const refused = await document(["run", "wrong.yaml"], { exit: 4 });
    expect(refused).toMatchObject({ error: { code: "invalid-pipeline", diagnostics: [{}, {}] } });
    await document(["prices"]);
    expect(await document(["doctor"])).toMatchObject({ state: null });
    expect(await document(["list"])).toEqual({ schema_version: 1, runs: [] });
  });

  it("reports and repairs a damaged journal", async () => {
    project.write("p.yaml", "steps: [{ id: a, run: ls }]\n");
    await project.must(["run", "p.yaml"]);
    expect(await document(["doctor", "--repair"])).toMatchObject({ outcome: "healthy" });
    fs.truncateSync(project.path(".perdure", "state.db"), 4_096);
    for (const name of ["state.db-wal", "state.db-shm"]) {
      fs.rmSync(project.path(".perdure", name), { force: true });
    }
    expect((await document(["doctor"], { exit: 1 })).problems).not.toEqual([]);
    const repaired = await document(["doctor", "--repair"]);
    expect(repaired).toMatchObject({ outcome: "repaired", runs: [{ restored: {} }] });
  });

  it("prints every error in one form: a refusal, a wrong option, an unknown command", async () => {
    project.write("p.yaml", "steps: [{ id: a, run: ls }]\n");
    await project.must(["run", "p.yaml"]);
    const { error } = await document(["show", "00000000"], { exit: 2 });
    expect(error).toMatchObject({
      code: "unknown-run",
      next: [{ command: "perdure list runs" }],
    });
    for (const args of [["show", "--bogus"], ["validate"]]) {
      const wrong = await project.run([...args, "--json"]);
      expect([wrong.exit, wrong.stderr]).toEqual([2, ""]);
      expect(checked(args, wrong.stdout)).toMatchObject([{ error: { code: "usage" } }]);
    }
    // With a store, test/fleet checks what these print.
    for (const args of [
      ["submit", "release.yaml"],
      ["workers"],
      ["schedules"],
      ["store", "init"],
      ["push", "abcd"],
      ["pull", "abcd"],
    ]) {
      project.write("release.yaml", "steps: [{id: only, run: echo hi}]");
      const refused = await project.run([...args, "--json"]);
      expect(checked(args, refused.stdout)).toMatchObject([{ error: { code: "no-store" } }]);
    }
    const unknown = await project.run(["bogus", "--json"]);
    expect(faultsOf("error", JSON.parse(unknown.stdout))).toEqual([]);
  });
});

it("prints the file that init wrote", async () => {
  expect(await document(["init", "fix"])).toMatchObject({ file: "pipelines/fix.yaml" });
});

it("is an option of a command if and only if it has a schema", async () => {
  const help = await project.must(["--help"]);
  const names = [...help.matchAll(/^ {2}(\w+)\b(?! run| resume)/gm)].map(([, name = ""]) => name);
  const commands = [...new Set(names)].filter((name) => name !== "perdure");
  const known = helps();
  const withJson = commands.filter((name) =>
    known.get(name === "list" ? "list runs" : name)?.includes(" --json "),
  );
  expect(withJson.sort()).toEqual(Object.keys(COMMANDS).sort());
  // The tests above have printed and checked each of them.
  expect([...seen].sort()).toEqual(withJson);
});
