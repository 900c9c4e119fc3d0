/**
 * What people do on the page: each action on a run that is owned, waits, failed, was interrupted or has
 * completed. Effects are counted, and the journal says who acted.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENDPOINTS } from "../../src/web/endpoints.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { PATIENCE_MS } from "../rig/patience.ts";
import { eventually, type Hold, Project } from "../rig/project.ts";
import { Api } from "./api.ts";

let project: Project;
let dashboard: Dashboard;
let api: Api;
let key: string;
let hold: Hold;

beforeAll(async () => {
  project = new Project();
  hold = project.hold("step");
  project.write(
    "ask.yaml",
    `
input: { type: object, properties: { who: { type: string } }, required: [who] }
steps:
  - { id: first, run: ${JSON.stringify(project.effect("first"))} }
  - { id: ask, gate: 'Ship it, \${{ input.who }}?' }
  - { id: ship, run: ${JSON.stringify(project.effect("ship"))} }
`,
  );
  project.write(
    "held.yaml",
    `
steps:
  - { id: before, run: ${JSON.stringify(project.effect("before"))} }
  - { id: held, run: ${JSON.stringify(`${project.effect("held")}; ${hold.command}`)} }
  - { id: bad, run: ${JSON.stringify(`${project.effect("bad")}; test -f ok`)} }
  - { id: after, run: ${JSON.stringify(project.effect("after"))} }
`,
  );
  dashboard = await Dashboard.start(project);
  api = await Api.of(dashboard);
  // A project without a run is listed: its first run can be started from the page.
  const { projects } = await api.must("/api/projects");
  expect(projects).toMatchObject([{ directory: project.dir, current: true, problem: null }]);
  key = projects[0].project;
  expect(await api.must(`/api/projects/${key}/pipelines`)).toMatchObject({ project: key });
});

afterAll(async () => {
  await project?.remove();
});

const OVER = ["waiting", "interrupted", "completed", "failed"];

/** Waits until a run has a status, and until the runner of a run that does not go on has left it. */
async function reached(run: string, status: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let now = await api.must(`/api/runs/${run}/show`);
  const isThere = (): boolean =>
    now.status === status && (!OVER.includes(status) || now.owner?.alive !== true);
  while (!isThere() && performance.now() < deadline) {
    now = await api.must(`/api/runs/${run}/show`);
  }
  expect(now.status).toBe(status);
  expect(isThere()).toBe(true);
}

/** The question of a stage of a pipeline, when it asks. */
async function asked(path: string, stage: string): Promise<{ id: string; type: string }> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const [question] = (await api.must(`${path}/questions`)).questions;
    if (question?.stage === stage) return question;
    if (performance.now() > deadline) throw new Error(`${stage} does not ask`);
  }
}

async function start(pipeline: string, input?: unknown): Promise<string> {
  const body = { project: key, pipeline, ...(input === undefined ? {} : { input }) };
  return (await api.done("/api/runs", body)).run_id;
}

/** The last event of a type. */
async function eventOf(run: string, type: string): Promise<Awaited<ReturnType<Api["must"]>>> {
  const { events } = await api.must(`/api/runs/${run}/events`);
  return events.findLast((event: { readonly type: string }) => event.type === type);
}

function effect(name: string): number {
  return project.effects()[name] ?? 0;
}

describe("a run that waits", () => {
  it("starts from a form, and of two answers at once one counts", async () => {
    const shipped = effect("ship");
    const run = await start("ask.yaml", { who: "ann" });
    await reached(run, "waiting");
    const { questions } = await api.must(`/api/runs/${run}/questions`);
    expect(questions).toMatchObject([{ question: "Ship it, ann?" }]);
    const nothing = await api.post(`/api/runs/${run}/answer`, { choice: "approve" });
    expect(nothing.status).toBe(400);
    const answer = { step: "ask", choice: "approve" };
    const both = await Promise.all([
      api.post(`/api/runs/${run}/answer`, answer),
      api.post(`/api/runs/${run}/answer`, { attempt: "ask@1.1", choice: "A" }),
    ]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 409]));
    expect(both.map(({ json }) => json.error?.code)).toContain("already-answered");
    await reached(run, "completed");
    expect(effect("ship")).toBe(shipped + 1);
    const { events } = await api.must(`/api/runs/${run}/events`);
    const given = events.find(({ type }: { type: string }) => type === "step.answered");
    expect(given.by).toMatch(/ with dashboard$/);
    for (const [path, body] of [
      ["answer", answer],
      ["stop", { mode: "now" }],
      ["skip", { step: "ship" }],
      ["settle", { step: "ship", as: "done" }],
    ] as const) {
      expect((await api.post(`/api/runs/${run}/${path}`, body)).status).toBe(409);
    }
  });

  it("refuses an input and a body that do not fit", async () => {
    const wrong = await api.post("/api/runs", { project: key, pipeline: "ask.yaml", input: {} });
    expect(wrong).toMatchObject({ status: 400, json: { error: { code: "bad-input" } } });
    expect((await api.post("/api/runs", { project: key })).status).toBe(400);
    const more = { project: key, pipeline: "ask.yaml", shell: "rm" };
    expect((await api.post("/api/runs", more)).status).toBe(400);
    expect((await api.post("/api/runs", { project: "no", pipeline: "x" })).status).toBe(404);
  });

  it("starts with a limit, or not at all", async () => {
    const before = await project.runIds();
    const body = { project: key, pipeline: "ask.yaml", input: { who: "ann" } };
    const unclear = await api.post("/api/runs", { ...body, budget: "five dollars" });
    expect(unclear).toMatchObject({ status: 400, json: { error: { code: "bad-option" } } });
    expect(await project.runIds()).toEqual(before);
    const { run_id: run } = await api.done("/api/runs", { ...body, budget: "30m" });
    const funded = await eventOf(run, "run.funded");
    expect(funded.added).toEqual({ time_ms: 1_800_000 });
  });
});

describe("a run that a process drives", () => {
  it("takes requests, is interrupted with its runner, and outlives the server", async () => {
    const run = await start("held.yaml");
    await hold.arrived();
    const path = `/api/runs/${run}`;
    const running = await api.post(`${path}/retry`, { step: "held" });
    expect(running.json.error?.code).toBe("step-running");
    expect(await api.done(`${path}/skip`, { step: "after" })).toMatchObject({ request: "handled" });
    const added = await api.done(`${path}/budget`, { time: "30m" });
    expect(added).toMatchObject({ request: "handled" });
    const { events } = await api.must(`${path}/events`);
    const handled = events.filter(({ type }: { type: string }) => type === "request.handled");
    expect(handled.length).toBe(3);
    for (const { by } of handled) expect(by).toMatch(/ with dashboard$/);

    const { owner } = await api.must(`${path}/show`);
    process.kill(owner.pid, "SIGKILL");
    await reached(run, "interrupted");
    expect((await api.done(`${path}/resume`, { dry_run: true })).dry_run).toBe(true);
    await api.done(`${path}/resume`, {});
    const { owner: next } = await api.must(`${path}/show`);
    expect(next).toMatchObject({ alive: true });
    expect(next.pid).not.toBe(owner.pid);

    const { port } = dashboard;
    await dashboard.program.kill();
    await hold.release();
    await eventually("the run fails without the server", () => effect("bad") === 1);
    dashboard = await Dashboard.start(project, { port });
    api = await Api.of(dashboard);
    await reached(run, "failed");
    expect(project.effects()).toMatchObject({ before: 1, held: 1, bad: 1 });
    expect(effect("after")).toBe(0);

    const preview = await api.done(`${path}/retry`, { step: "bad", dry_run: true });
    expect(preview.preview.runs_again).toContain("bad");
    expect(effect("bad")).toBe(1);
    project.write("ok", "");
    await api.done(`${path}/retry`, { step: "bad" });
    await reached(run, "completed");
    expect(project.effects()).toMatchObject({ before: 1, held: 1, bad: 2 });
    expect(effect("after")).toBe(0);
  });

  it("stops, rewinds and forks after a preview, and the journal names the person each time", async () => {
    const run = await start("held.yaml");
    await hold.arrived();
    const path = `/api/runs/${run}`;
    await api.done(`${path}/stop`, { mode: "now" });
    await reached(run, "interrupted");
    const stopping = await eventOf(run, "run.stopping");
    expect(stopping.reason.by).toMatch(/ with dashboard\)$/);
    // The process in the background belongs to the person who started it from the page.
    expect((await eventOf(run, "run.opened")).owner).toMatchObject({ through: "dashboard" });
    const { preview } = await api.done(`${path}/rewind`, { to: "before", dry_run: true });
    expect(preview.runs_again).toEqual(["before", "held", "bad", "after"]);
    const before = effect("before");
    const fork = await api.done(`${path}/fork`, { at: "held", dry_run: true });
    expect(fork.preview).toMatchObject({ kept: ["before"], runs_again: ["held", "bad", "after"] });
    const forked = await api.done(`${path}/fork`, { at: "held", start: true });
    expect(forked.run_id).not.toBe(run);
    await hold.arrived();
    await hold.release();
    await reached(forked.run_id, "completed");
    expect(effect("before")).toBe(before);
    expect((await eventOf(forked.run_id, "run.forked")).by).toMatch(/ with dashboard$/);
    await api.done(`${path}/rewind`, { to: "before" });
    const rewinding = await eventOf(run, "run.opened");
    expect(rewinding).toMatchObject({ epoch: 2, owner: { through: "dashboard" } });
    const { steps } = await api.must(`${path}/show`);
    expect(steps.map(({ status }: { status: string }) => status)).toEqual(
      Array.from({ length: 4 }, () => "pending"),
    );
  });
});

describe("the attractor addresses", () => {
  const DOT = (command: string): string => `digraph g {
  start [shape=Mdiamond]; exit [shape=Msquare];
  tool [shape=parallelogram, tool_command="${command}"];
  gate [shape=hexagon, label="Go on?"];
  start -> tool -> gate;
  gate -> exit [label="[Y] Yes"];
  gate -> tool [label="[N] No"];
}`;

  it("submit a pipeline, stream its events, and answer its question", async () => {
    const { id } = await api.done("/pipelines", { dot_source: DOT("echo hi") });
    await reached(id, "waiting");
    const path = `/pipelines/${id}`;
    expect(await api.must(path)).toMatchObject({ status: "waiting", current_node: "tool" });
    const { questions } = await api.must(`${path}/questions`);
    expect(questions).toMatchObject([
      { text: "Go on?", type: "YES_NO", options: [{ key: "Y" }, { key: "N" }], stage: "gate" },
    ]);
    const question = encodeURIComponent(questions[0].id);
    await api.done(`${path}/questions/${question}/answer`, { value: "Y" });
    await reached(id, "completed");
    const names: string[] = [];
    let middle = "";
    for await (const { event, id: at } of api.stream(`${path}/events`)) {
      names.push(event);
      if (event === "InterviewStarted") middle = at;
    }
    expect(names[0]).toBe("PipelineStarted");
    expect(names.at(-1)).toBe("PipelineCompleted");
    const rest: string[] = [];
    for await (const { event } of api.stream(`${path}/events`, middle)) rest.push(event);
    expect(rest).toEqual(names.slice(names.indexOf("InterviewStarted") + 1));
    expect((await api.must(`${path}/checkpoint`)).completed_nodes).toContain("gate");
    expect((await api.must(`${path}/context`)).context).toMatchObject({ outcome: "success" });
    const graph = await dashboard.fetch(`${path}/graph`);
    expect(await graph.text()).toContain("<svg");
    const wrong = await api.post("/pipelines", { dot_source: "digraph {" });
    expect(wrong).toMatchObject({ status: 400, json: { error: { code: "invalid-pipeline" } } });
  });

  it("know what may be the answer, and take words where words are wanted", async () => {
    const asks = "ask [shape=hexagon, mode=freeform]; sure [shape=hexagon]";
    const ends = "start [shape=Mdiamond]; exit [shape=Msquare]";
    const { id } = await api.done("/pipelines", {
      dot_source: `digraph g { ${ends}; ${asks}; start -> ask -> sure -> exit }`,
    });
    const path = `/pipelines/${id}`;
    const types: string[] = [];
    const answers = { ask: { text: "the blue one" }, sure: { value: "exit" } };
    for (const [stage, answer] of Object.entries(answers)) {
      const question = await asked(path, stage);
      types.push(question.type);
      await api.done(`${path}/questions/${encodeURIComponent(question.id)}/answer`, answer);
    }
    await reached(id, "completed");
    expect(types).toEqual(["FREEFORM", "CONFIRMATION"]);
    expect((await api.must(`${path}/context`)).context).toMatchObject({
      "human.gate.text": "the blue one",
    });
  });

  it("cancel a pipeline that runs", async () => {
    const { id } = await api.done("/pipelines", { dot_source: DOT(`cat '${hold.path}'`) });
    await hold.arrived();
    expect(await api.done(`/pipelines/${id}/cancel`, {})).toMatchObject({ outcome: "asked" });
    await reached(id, "interrupted");
  });
});

describe("--read-only", () => {
  it("refuses every address that changes something", async () => {
    const only = await Dashboard.start(project, { args: ["--read-only"] });
    const run = await project.newestId();
    const posts = Object.values(ENDPOINTS).filter(({ method }) => method === "POST");
    expect(posts.length).toBeGreaterThan(10);
    for (const { path } of posts) {
      const address = path.replace(":run", run).replace(":question", "ask@1.1");
      const headers = { "content-type": "application/json" };
      const response = await only.fetch(address, { method: "POST", headers, body: "{}" });
      expect([address, response.status]).toEqual([address, 403]);
    }
    await only.end();
  });
});
