/** An agent with the official SDK drives runs of the real program, while processes are killed. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it, type TestContext } from "vitest";
import { eventually, PlainProject, Project } from "../rig/project.ts";
import { AgentClient } from "./agent-client.ts";

/** A new project, and agents for it; all of it ends with the test. */
function newSite(
  { onTestFinished }: TestContext,
  project: Project = new PlainProject(),
): {
  readonly project: Project;
  readonly connect: (options?: Parameters<typeof AgentClient.connect>[1]) => Promise<AgentClient>;
} {
  const agents: AgentClient[] = [];
  onTestFinished(async () => {
    for (const agent of agents) await agent.close();
    await project.remove();
  });
  const connect = async (
    options?: Parameters<typeof AgentClient.connect>[1],
  ): Promise<AgentClient> => {
    const agent = await AgentClient.connect(project, options);
    agents.push(agent);
    return agent;
  };
  return { project, connect };
}

/** The people that the events of a run name. */
async function authors(project: Project, run: unknown): Promise<readonly string[]> {
  const printed = await project.must(["attach", String(run), "--json"]);
  const lines = printed.trim().split("\n");
  return lines.flatMap((line) => (JSON.parse(line) as { readonly by?: string }).by ?? []);
}

it.concurrent("starts, watches, resumes and answers a run; killed processes lose nothing", async (test) => {
  const { project, connect } = newSite(test);
  const work = project.hold("work");
  project.write("notes.md", "Ready, says s3cret-word.\n");
  project.write(
    "release.yaml",
    `# Releases after an approval.
name: release
secrets: [RELEASE_KEY]
input: { type: object, properties: { version: { type: string } }, required: [version] }
steps:
  - { id: build, run: "echo $RELEASE_KEY; ${project.effect("built")}" }
  - { id: work, run: "${work.command} && ${project.effect("worked")}" }
  - { id: approve, gate: { ask: "Release \${{ input.version }}?", show: [notes.md] } }
  - { id: ship, run: "${project.effect("shipped")}" }
`,
  );
  const env = { RELEASE_KEY: "s3cret-word" };
  const first = await connect({ env });
  expect(await first.call("list_runs")).toEqual({ schema_version: 1, runs: [] });

  const missing = await first.refused("start_run", { pipeline: "release" });
  expect(missing).toMatchObject({ code: "bad-input" });
  const input = { version: "1.2" };
  const started = await first.call("start_run", { pipeline: "release", input });
  const run = String(started.run_id);
  await work.arrived();
  expect(await first.call("wait_for_run", { run, seconds: 0 })).toMatchObject({
    status: "running",
  });
  expect(await first.call("list_pipelines")).toMatchObject({
    pipelines: [{ name: "release.yaml", description: "Releases after an approval." }],
  });

  // The runner belongs to nobody: first the server is killed, then the runner itself.
  process.kill(first.pid, "SIGKILL");
  const second = await connect({ env });
  expect(await second.call("wait_for_run", { run, seconds: 0 })).toMatchObject({
    status: "running",
  });
  process.kill(Number(started.pid), "SIGKILL");
  expect(await second.wait(run)).toMatchObject({ status: "interrupted" });
  const resumed = await second.call("resume_run", { run });
  expect(resumed).toMatchObject({ run_id: run, alive: true });
  const owned = await second.refused("resume_run", { run });
  expect(owned).toMatchObject({ code: "run-owned" });
  expect(owned.next[0]?.command).toMatch(/^perdure /);

  const reported = second.nextProgress();
  const waiting = second.wait(run);
  expect(await reported).toContain("running");
  await work.release();
  expect(await waiting).toMatchObject({ status: "waiting" });
  await eventually("the end of the step is reported", () =>
    second.progress.join("\n").includes("work completed"),
  );
  const logs = await second.call("read_logs", { run, from: 0, lines: 1 });
  expect(logs).toMatchObject({ lines: [{ step: "build", line: "[redacted]" }], next: 1 });
  const { questions } = await second.call("list_questions");
  expect(questions).toMatchObject([
    { run_id: run, step: "approve", question: "Release 1.2?", material: [{ name: "notes.md" }] },
  ]);
  expect(JSON.stringify(questions)).not.toContain("s3cret-word");

  const choice = { run, step: "approve", choice: "approve", text: "go" };
  expect(await second.refused("answer_question", { ...choice, choice: "maybe" })).toMatchObject({
    code: "bad-answer",
  });
  const answered = await second.call("answer_question", choice);
  expect(answered).toMatchObject({ step: "approve", text: "go", continues: true });
  expect(answered.by).toMatch(/^\S+@\S+ with test-client$/);
  expect(await second.wait(run)).toMatchObject({ status: "completed" });
  expect(await second.refused("answer_question", choice)).toMatchObject({
    code: "already-answered",
  });
  expect(project.effects()).toEqual({ built: 1, worked: 1, shipped: 1 });
  expect(await authors(project, run)).toContain(answered.by);
  expect(second.problems).toEqual([]);
});

it.concurrent("changes runs that nobody drives, and says who did it", async (test) => {
  const { project, connect } = newSite(test, new Project());
  project.write(
    "flaky.yaml",
    `name: flaky
steps:
  - { id: one, run: "${project.effect("one")}" }
  - { id: two, run: "${project.effect("two")}; test -e fixed" }
  - { id: three, run: "${project.effect("three")}" }
`,
  );
  const agent = await connect({ args: ["-C", project.dir, "mcp"] });
  const { run_id: run } = await agent.call("start_run", { pipeline: "flaky.yaml" });
  expect(await agent.wait(run)).toMatchObject({ status: "failed" });
  expect(await agent.call("why", { run })).toMatchObject({ status: "failed" });
  expect(await agent.refused("retry_step", { run, step: "four" })).toMatchObject({
    code: "unknown-step",
  });

  project.write("fixed", "");
  const preview = await agent.call("retry_step", { run, step: "two", dry_run: true });
  expect(preview).toMatchObject({ dry_run: true, request: null });
  expect(project.effects()).toEqual({ one: 1, two: 1 });
  const retried = await agent.call("retry_step", { run, step: "two" });
  expect(retried).toMatchObject({ dry_run: false, request: "handled" });
  expect(await agent.wait(run)).toMatchObject({ status: "completed" });
  expect(project.effects()).toEqual({ one: 1, two: 2, three: 1 });
  expect((await authors(project, run)).at(-1)).toMatch(/ with test-client$/);

  const rewound = await agent.call("rewind_run", { run, to: "three" });
  expect(rewound).toMatchObject({ runs_again: ["three"], request: null });
  expect(await agent.call("skip_step", { run, step: "three" })).toMatchObject({ step: "three" });
  expect(await agent.wait(run)).toMatchObject({ status: "completed" });

  const fork = { run, at: "three", start: true };
  expect(await agent.call("fork_run", { ...fork, dry_run: true })).toMatchObject({ run_id: null });
  const { run_id: forked } = await agent.call("fork_run", fork);
  expect(await agent.wait(forked)).toMatchObject({ status: "completed" });
  expect(project.effects()).toEqual({ one: 1, two: 2, three: 2 });
  const shown = await agent.call("show_run", { run: String(forked).slice(0, 8) });
  expect(shown).toMatchObject({ forked_from: { run_id: run } });

  for (const name of ["timeline", "report", "show_run"]) await agent.call(name, { run });
  const { patch } = await agent.call("diff", { run, from: "two", patch: true });
  expect(patch).toContain("+two");
  expect(await agent.refused("send_message", { run, step: "two", text: "hi" })).toMatchObject({
    code: "unknown-step",
  });
  expect(await agent.refused("stop_run", { run })).toMatchObject({ code: "nothing-to-stop" });
  expect(await agent.call("add_budget", { run, amount: "+5m" })).toMatchObject({
    request: "handled",
  });
  const { resources } = await agent.client.listResources();
  expect(resources.map(({ uri }) => uri)).toContain(`perdure://runs/${String(run)}`);
  const uri = `perdure://runs/${String(run)}/report`;
  const { contents } = await agent.client.readResource({ uri });
  expect(contents[0]).toMatchObject({ uri, mimeType: "text/markdown" });
  expect(agent.problems).toEqual([]);
});

it.concurrent("reaches the owner of a run, and settles effects", async (test) => {
  const { project, connect } = newSite(test);
  const hold = project.hold("work");
  project.write(
    "effects.yaml",
    `name: effects
steps:
  - { id: work, run: "${hold.command}; ${project.effect("worked")}" }
  - { id: publish, run: "${project.effect("published")}; exit 1", once: true }
  - { id: announce, run: "echo \${{ env.NEWS }}; ${project.effect("announced")}" }
`,
  );
  const agent = await connect({ env: { NEWS: "new" } });
  const missing = await (await connect()).refused("start_run", { pipeline: "effects" });
  expect(missing.code).toBe("missing-variables");
  const { run_id: run } = await agent.call("start_run", { pipeline: "effects" });
  await hold.arrived();
  expect(await agent.call("add_budget", { run, amount: "+5m" })).toMatchObject({
    request: "handled",
  });
  expect(await agent.refused("add_budget", { run, amount: "much" })).toMatchObject({
    code: "bad-option",
  });
  expect(await agent.call("stop_run", { run, mode: "after-step" })).toMatchObject({
    outcome: "asked",
  });
  await hold.release();
  expect(await agent.wait(run)).toMatchObject({ status: "interrupted" });
  await agent.call("resume_run", { run });
  expect(await agent.wait(run)).toMatchObject({ status: "failed" });
  const { uncertain } = await agent.call("list_questions");
  expect(uncertain).toMatchObject([{ run_id: run, step: "publish" }]);
  const settled = await agent.call("settle", { run, step: "publish", verdict: "done" });
  expect(settled).toMatchObject({ verdict: "done", request: "handled" });
  expect(await agent.wait(run)).toMatchObject({ status: "completed" });
  expect(project.effects()).toEqual({ worked: 1, published: 1, announced: 1 });
  const people = (await authors(project, run)).filter((by) => by.includes("test-client"));
  expect(people.length).toBeGreaterThanOrEqual(2);
});

it.concurrent("reads the variables of the project anew for each run; has documented tools", async (test) => {
  const { project, connect } = newSite(test);
  const pipeline = project.write(
    "greet.yaml",
    'env_file: [names.env]\nsteps:\n  - { id: greet, run: "echo $WHO" }\n',
  );
  const agent = await connect();
  for (const who of ["ann", "bob"]) {
    project.write("names.env", `WHO=${who}\n`);
    const { run_id: run } = await agent.call("start_run", { pipeline });
    await agent.wait(run);
    expect(await agent.call("read_logs", { run })).toMatchObject({ lines: [{ line: who }] });
  }
  const page = readFileSync(resolve(import.meta.dirname, "../../docs/MCP.md"), "utf8");
  const names = await agent.toolNames();
  expect(names).toContain("start_run");
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});

it.concurrent("offers only tools that look with --read-only", async (test) => {
  const agent = await newSite(test).connect({ args: ["mcp", "--read-only"] });
  const { tools } = await agent.client.listTools();
  expect(tools.map(({ name }) => name)).toContain("show_run");
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint)).toBe(true);
  await expect(
    agent.client.callTool({ name: "start_run", arguments: { pipeline: "a.yaml" } }),
  ).rejects.toThrow(/start_run/);
});
