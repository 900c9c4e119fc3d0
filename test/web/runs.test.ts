/** The runs of a machine as the server sends them, in each of their states, and as they change. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";
import type { Api, Streamed } from "./api.ts";
import { type RunIds, SomeRuns } from "./some-runs.ts";

let some: SomeRuns;
beforeAll(async () => {
  some = await SomeRuns.make();
});
afterAll(async () => {
  await some?.remove();
});

type Row = Awaited<ReturnType<Api["must"]>>;

/** Reads a stream until a message fits; gives all messages up to it. */
async function until(
  stream: AsyncIterable<Streamed>,
  fits: (message: Streamed) => boolean,
): Promise<readonly Streamed[]> {
  const found: Streamed[] = [];
  for await (const one of stream) {
    found.push(one);
    if (fits(one)) return found;
  }
  throw new Error(`the stream ended: ${JSON.stringify(found.at(-1))}`);
}

describe("the table of runs", () => {
  it("has the runs of all projects, with the state that counts without a living owner", async () => {
    const { ids, elsewhere } = some;
    const { projects, read_only } = await some.api.must("/api/projects");
    expect(read_only).toBe(false);
    expect(projects).toMatchObject([
      { directory: some.project.dir, current: true, problem: null },
      { directory: some.other.dir, current: false, problem: null },
    ]);
    const { runs, total, by_status, pipelines, next } = await some.api.must("/api/runs");
    const states = new Map(runs.map((row: Row) => [row.run_id, row.status]));
    expect(states).toEqual(
      new Map([
        [ids.running, "running"],
        [elsewhere, "completed"],
        [ids.interrupted, "interrupted"],
        [ids.waiting, "waiting"],
        [ids.failed, "failed"],
        [ids.completed, "completed"],
        [ids.cleaned, "completed"],
      ]),
    );
    expect([...states.keys()]).toEqual(runs.map((row: Row) => row.run_id));
    expect({ total, next }).toEqual({ total: 7, next: null });
    expect(by_status).toEqual({ running: 1, interrupted: 1, waiting: 1, failed: 1, completed: 3 });
    expect(pipelines).toEqual(["asking", "failing", "held", "quick"]);
    const rowOf = (id: string): Row => runs.find((row: Row) => row.run_id === id);
    expect(rowOf(ids.running)).toMatchObject({
      ...{ current_step: "wait", steps_completed: 4, steps_total: 6, project: projects[0].project },
      owner: expect.stringContaining(" on "),
    });
    expect(rowOf(ids.interrupted)).toMatchObject({ current_step: "wait", owner: null });
    expect(rowOf(ids.failed)).toMatchObject({ current_step: "broken" });
    expect(rowOf(ids.waiting)).toMatchObject({ current_step: "ask" });
    expect(rowOf(elsewhere)).toMatchObject({ current_step: null, project: projects[1].project });
    expect(rowOf(ids.cleaned).cleaned_at).not.toBeNull();
  });

  it("is filtered, searched and read page by page", async () => {
    const { api, ids, elsewhere } = some;
    const found = async (query: string): Promise<readonly string[]> =>
      (await api.must(`/api/runs?${query}`)).runs.map((row: Row) => row.run_id);
    const { projects } = await api.must("/api/projects");
    expect(await found("status=interrupted,waiting")).toEqual([ids.interrupted, ids.waiting]);
    expect(await found("pipeline=failing")).toEqual([ids.failed]);
    expect(await found(`project=${projects[1].project}`)).toEqual([elsewhere]);
    expect(await found(`q=${ids.waiting.slice(0, 8)}`)).toEqual([ids.waiting]);
    expect(await found("q=BROKEN")).toEqual([ids.failed]);
    expect(await found("q=nothing+like+it")).toEqual([]);
    const all = await found("");
    const pages: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Row = await api.must(`/api/runs?limit=2${cursor && `&cursor=${cursor}`}`);
      expect(page.total).toBe(7);
      pages.push(...page.runs.map((row: Row) => row.run_id));
      cursor = page.next;
    }
    expect(pages).toEqual(all);
    for (const query of ["status=lost", "limit=x", "limit=-1", "cursor=1", "cursor=1.%27"]) {
      expect([query, (await api.get(`/api/runs?${query}`)).status]).toEqual([query, 400]);
    }
  });
});

describe("the list of projects", () => {
  it("leaves out a project that is gone, and never stops a run", async () => {
    const gone = new Project();
    gone.write("quick.yaml", some.project.read("quick.yaml"));
    await gone.must(["run", "quick.yaml"], { env: some.env });
    const directories = async (): Promise<readonly string[]> =>
      (await some.api.must("/api/projects")).projects.map((one: Row) => one.directory);
    expect(await directories()).toContain(gone.dir);
    // A file is where the directory should be.
    const env = { XDG_STATE_HOME: gone.path("quick.yaml") };
    expect((await gone.run(["run", "quick.yaml"], { env })).exit).toBe(0);
    await gone.remove();
    expect(await directories()).toEqual([some.project.dir, some.other.dir]);
  });
});

describe("the documents of a run", () => {
  const states: readonly (keyof RunIds)[] = [
    ...(["running", "waiting", "interrupted", "failed", "completed", "cleaned"] as const),
  ];

  it.each(states)("fit their schemas: %s", async (state) => {
    const id = some.ids[state];
    const documents = ["", "/show", "/why", "/timeline", "/report", "/questions", "/graph"];
    const others = ["/graph?at=3", "/events", "/events?after=2", "/moments", "/moment/2"];
    for (const path of [...documents, ...others]) {
      const { status, json } = await some.api.get(`/api/runs/${id}${path}`);
      expect([path, status, json.error?.message]).toEqual([path, 200, undefined]);
    }
    const { overview, steps } = await some.api.must(`/api/runs/${id.slice(0, 8)}`);
    expect(overview).toMatchObject({
      run_id: id,
      status: state === "cleaned" ? "completed" : state,
    });
    for (const { step } of steps) {
      const path = `/api/runs/${id}/step?step=${encodeURIComponent(step)}`;
      expect([step, (await some.api.get(path)).status]).toEqual([step, 200]);
    }
  });

  it("say what the page shows above the steps", async () => {
    const { ids, api } = some;
    const failed = await api.must(`/api/runs/${ids.failed}`);
    expect(failed.overview).toMatchObject({
      failed_output: ["the reason"],
      steps: { total: 1, failed: 1 },
      owner: null,
    });
    expect(failed.overview.next[0].command).toContain(ids.failed.slice(0, 8));
    expect(failed.steps).toMatchObject([{ step: "broken", status: "failed", attempt: 1 }]);
    const dead = await api.must(`/api/runs/${ids.interrupted}`);
    const rows = Object.fromEntries(dead.steps.map((row: Row) => [row.step, row]));
    expect(rows.wait).toMatchObject({ status: "interrupted", detail: "was running" });
    expect(rows.map.items).toEqual({ total: 3, completed: 3, failed: 0, running: 0, waiting: 0 });
    expect(rows["map@1.1[1]/map"]).toMatchObject({ parent: "map", status: "completed" });
    expect(dead.overview.owner).toMatchObject({ alive: false });
    const alive = await api.must(`/api/runs/${ids.running}`);
    expect(alive.overview.owner).toMatchObject({ alive: true, pid: some.runner.pid });
  });

  it("are refused for runs that are not there", async () => {
    for (const id of [
      "00000000-0000-4000-8000-000000000000",
      "zzzz",
      "../../etc",
      "%2e%2e%2fetc",
      "a",
    ]) {
      const { status, json } = await some.api.get(`/api/runs/${encodeURIComponent(id)}/show`);
      expect([status, json.error.code]).toEqual([404, "unknown-run"]);
    }
    expect((await some.dashboard.fetch("/api/nothing")).status).toBe(404);
  });
});

describe("streams", () => {
  it("of all runs tell of a new run, and continue after a lost connection", async () => {
    const changes = some.api.stream("/api/runs/changes");
    const first = (await until(changes, () => true))[0];
    await some.must("run", "quick.yaml");
    const id = await some.project.newestId();
    const isNew = ({ data }: Streamed): boolean =>
      data.runs.some((row: Row) => row.run_id === id && row.status === "completed");
    const [message] = (await until(some.api.stream("/api/runs/changes", first?.id), isNew)).slice(
      -1,
    );
    expect(message?.event).toBe("runs");
    expect(message?.data.by_status.completed).toBe(4);
    expect(Number(message?.id)).toBeGreaterThan(Number(first?.id) - 1);
  });

  it("of the inbox show a question until somebody has answered it", async () => {
    const questions = ({ data }: Streamed): readonly string[] =>
      data.questions.filter((one: Row) => !one.answered).map((one: Row) => one.run_id);
    const { waiting } = some.ids;
    const inbox = await some.api.must("/api/inbox");
    expect(inbox.questions).toMatchObject([{ run_id: waiting, step: "ask", answered: false }]);
    const stream = some.api.stream("/api/inbox/changes");
    const gone = until(stream, (message) => questions(message).length === 0);
    await some.must("answer", waiting, "ask", "approve");
    expect((await gone).at(-1)?.event).toBe("inbox");
    await some.must("resume", waiting);
    const last = await until(
      some.api.stream("/api/inbox/changes"),
      ({ data }) => data.questions.length === 0,
    );
    expect(last).toHaveLength(1);
  });

  it("of a run send what changed, and after a lost connection only what came since", async () => {
    const { api, ids, hold, project } = some;
    const page = await api.must(`/api/runs/${ids.running}`);
    const path = `/api/runs/${ids.running}/live?after=${page.overview.sequence}`;
    const [first] = await until(api.stream(path), () => true);
    // Whoever connects again may have missed that the owner died.
    expect(first?.data).toMatchObject({ steps: [{ step: "wait" }], lines: [] });
    expect(first?.id).toBe(String(page.overview.sequence));
    const news = until(api.stream(path), ({ data }) => data.overview.status === "completed");
    await hold.release();
    const messages = await news;
    const rows = messages.flatMap(({ data }) => data.steps.map((row: Row) => row.step));
    expect(new Set(rows)).toEqual(new Set(["wait", "last"]));
    const lines = messages.flatMap(({ data }) => data.lines);
    const end = (await api.must(`/api/runs/${ids.running}`)).overview.sequence;
    expect(lines.map((line: Row) => line.sequence)).toEqual(
      lines.map((line: Row) => line.sequence).toSorted((a: number, b: number) => a - b),
    );
    // The end of the run itself has no line.
    expect(lines.at(-1)).toMatchObject({
      sequence: end - 1,
      text: expect.stringContaining("completed"),
    });
    const [again] = await until(api.stream(path, String(end - 2)), () => true);
    expect(again?.data.lines).toMatchObject([{ sequence: end - 1 }]);
    const events = api.stream(`/api/runs/${ids.running}/events/live`, String(end - 2));
    const last = await until(events, ({ id }) => id === String(end));
    expect(last.map(({ data }) => data.event.sequence)).toEqual([end - 1, end]);
    expect(project.effects()).toEqual({ item: 7 });
  });
});

describe("a server that was killed", () => {
  it("comes back with its cookies, its streams and its runs", async () => {
    const { project, env, ids } = some;
    const entered = await fetch(some.dashboard.address, { redirect: "manual" });
    const [cookie = ""] = (entered.headers.get("set-cookie") ?? "").split(";");
    const token = some.dashboard.token;
    const hold = project.hold("third");
    project.write("kept.yaml", `name: kept\nsteps:\n  - { id: wait, run: "${hold.command}" }\n`);
    const runner = project.start(["run", "kept.yaml"], { env });
    await hold.arrived();
    const id = await project.newestId();
    const [before] = await until(some.api.stream(`/api/runs/${id}/live`), () => true);
    await some.restart();
    expect(some.dashboard.token).not.toBe(token);
    const asked = (headers: Record<string, string>): Promise<Response> =>
      fetch(some.dashboard.url("/api/projects"), { headers });
    expect((await asked({ cookie })).status).toBe(200);
    expect((await asked({ authorization: `Bearer ${token}` })).status).toBe(401);
    const path = `/api/runs/${id}/live`;
    const news = until(some.api.stream(path, before?.id), ({ data }) => data.lines.length > 0);
    await hold.release();
    const lines = (await news).at(-1)?.data.lines;
    expect(lines[0].sequence).toBeGreaterThan(Number(before?.id));
    expect((await runner.ended).exit).toBe(0);
    expect((await some.api.must(`/api/runs/${ids.completed}`)).overview.status).toBe("completed");
  });

  it("sees at once that the runner of a run was killed", async () => {
    const { project, env, api } = some;
    const hold = project.hold("fourth");
    project.write("kept.yaml", `name: kept\nsteps:\n  - { id: wait, run: "${hold.command}" }\n`);
    const runner = project.start(["run", "kept.yaml"], { env });
    await hold.arrived();
    const id = await project.newestId();
    const isDead = ({ data }: Streamed): boolean => data.overview.status === "interrupted";
    const stream = api.stream(`/api/runs/${id}/live`);
    expect((await stream.next()).value.data.overview.status).toBe("running");
    const news = until(stream, isDead);
    const changes = until(api.stream("/api/runs/changes"), ({ data }) =>
      data.runs.some((row: Row) => row.run_id === id && row.status === "interrupted"),
    );
    await runner.kill();
    const { data } = (await news).at(-1) ?? {};
    expect(data.steps).toMatchObject([{ step: "wait", status: "interrupted" }]);
    await changes;
    await project.killSteps();
  });
});
