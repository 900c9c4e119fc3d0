/** What is inside of a run, as the server sends it: steps, outputs, conversations, files, moments. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENDPOINTS } from "../../src/web/endpoints.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stateless, text } from "../rig/model/reply.ts";
import type { Hold } from "../rig/project.ts";
import { Api, type Streamed } from "./api.ts";

const SECRET = "hunter2-hunter2-hunter2";
/** Letters of one to four bytes, an escape, markup, and the secret, on one line and on many. */
const PRINTED = `h\u00e9llo \u001b[31m\u20acuro \u{1f600}\u001b[0m <script>x</script> ${SECRET} end`;
const PLAIN = "h\u00e9llo \u20acuro \u{1f600} <script>x</script> [redacted] end";
const LINES = 400;

const PIPELINE = (hold: string): string => `
name: work
workspace: { kind: worktree }
secrets: [API_TOKEN]
steps:
  - id: build
    run: |
      i=0; while [ $i -lt ${LINES} ]; do printf '%s\\n' "$PRINTED"; i=$((i+1)); done
      echo one > out.txt; echo more >> file.md; echo '{"size": 1}' >> "$PERDURE_CONTEXT"
    outputs: { result: out.txt }
    check: test -f out.txt
  - id: line
    run: i=0; while [ $i -lt ${LINES} ]; do printf '%s ' "$PRINTED"; i=$((i+1)); done
  - { id: agent, agent: claude, prompt: 'Do the work.' }
  - { id: live, run: "echo first; ${hold}; echo second" }
`;

let project: FakeClaude;
let dashboard: Dashboard;
let api: Api;
let hold: Hold;
/** A run that has completed, and one whose last step is held. */
let done: string;
let running: string;

beforeAll(async () => {
  project = await FakeClaude.open(
    stateless(shell("echo 'from the tool' && false || true"), text("The work <b>is</b> done.")),
  );
  hold = project.hold("live");
  project.write("work.yaml", PIPELINE(hold.command));
  project.write("file.md", "hello\n");
  const git = (...args: readonly string[]): unknown =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", ...args], {
      cwd: project.dir,
    });
  git("init", "-q");
  git("add", "file.md", "work.yaml");
  git("commit", "-qm", "first");
  const env = { ...project.environment, PRINTED, API_TOKEN: SECRET };
  dashboard = await Dashboard.start(project, { env });
  api = await Api.of(dashboard);
  const first = project.begin(["run", "work.yaml"], env);
  await hold.arrived();
  await hold.release();
  expect((await first.ended).exit).toBe(0);
  done = await project.newestId();
  project.begin(["run", "work.yaml"], env);
  await hold.arrived();
  running = await project.newestId();
});

afterAll(async () => {
  await project?.close();
});

/** All parts of an output, put together. */
async function whole(attempt: string, limit: number): Promise<string> {
  let said = "";
  for (let from = 0; ; ) {
    const path = `/api/runs/${done}/output?attempt=${attempt}&from=${from}&limit=${limit}`;
    const part = await api.must(path);
    expect(part.from).toBe(from);
    said += part.text;
    if (part.ended === true) return said;
    expect(part.to).toBeGreaterThan(from);
    from = part.to;
  }
}

describe("output", () => {
  it("comes in parts that join without a broken letter, an escape or a secret", async () => {
    const lines = Array.from({ length: LINES }, () => `${PLAIN}\n`).join("");
    for (const limit of [100, 4_096, 1_000_000]) expect(await whole("build", limit)).toBe(lines);
    const download = await dashboard.fetch(`/api/runs/${done}/output/download?attempt=build`);
    expect(download.headers.get("content-disposition")).toMatch(/^attachment; /);
    expect(await download.text()).toBe(lines);
    const line = Array.from({ length: LINES }, () => `${PLAIN} `).join("");
    for (const limit of [777, 5_000]) expect(await whole("line", limit)).toBe(line);
  });

  it("never starts inside of a letter or a secret, wherever it is asked to", async () => {
    for (let from = 0; from < 120; from++) {
      const path = `/api/runs/${done}/output?attempt=line@1.1&from=${from}&limit=60`;
      const part = await api.must(path);
      expect(part.text).not.toMatch(/\ufffd|hunter|unter2/);
      expect(part.from).toBeGreaterThanOrEqual(from);
    }
  });

  it("counts from the end, and a part has a limit", async () => {
    const path = `/api/runs/${done}/output?attempt=build`;
    const end = await api.must(`${path}&from=-100`);
    expect(end).toMatchObject({ ended: true, text: `${PLAIN}\n` });
    expect((await api.must(`${path}&from=999999999`)).text).toBe("");
    expect((await api.get(`${path}&from=x`)).status).toBe(400);
  });

  it("follows an attempt, and a lost connection continues at its byte", async () => {
    const path = `/api/runs/${running}/output/live?attempt=live@1.1`;
    const [first] = await take(api.stream(path), 1);
    expect(first).toMatchObject({ event: "output", data: { text: "first\n", ended: false } });
    const rest = take(api.stream(path, first?.id), Number.POSITIVE_INFINITY);
    await hold.release();
    const said = await rest;
    expect(said.map(({ data }) => data.text).join("")).toBe("second\n");
    expect(said.at(-1)?.data).toMatchObject({ ended: true });
  });
});

async function take(stream: AsyncIterable<Streamed>, count: number): Promise<readonly Streamed[]> {
  const found: Streamed[] = [];
  for await (const one of stream) {
    found.push(one);
    if (found.length >= count) break;
  }
  return found;
}

describe("a step", () => {
  it("has its settings, its attempts with their evidence, and what it passed on", async () => {
    const step = await api.must(`/api/runs/${done}/step?step=build`);
    const [attempt] = step.attempts;
    expect(step.settings).toMatchObject({ kind: "shell", outputs: { result: "out.txt" } });
    expect(attempt).toMatchObject({ name: "build@1.1", status: "completed", exit: 0 });
    expect(attempt.checks).toMatchObject([{ name: "test -f out.txt", passed: true }]);
    expect(attempt.receipt).toMatchObject({ status: "succeeded" });
    expect(attempt.output).toMatchObject([{ file: "output.log", label: "output" }]);
    const diff = await api.must(`/api/runs/${done}/diff?from=${attempt.from}&to=${attempt.to}`);
    expect(diff.files.map(({ path }: { path: string }) => path)).toEqual(["file.md", "out.txt"]);
    expect(JSON.stringify(step)).not.toContain(SECRET);
  });

  it("has the conversation of its agent as turns with calls and results", async () => {
    const path = `/api/runs/${done}/conversation?attempt=agent`;
    const { turns, ended, left_out } = await api.must(path);
    expect({ ended, left_out }).toEqual({ ended: true, left_out: 0 });
    expect(turns[0]).toMatchObject({
      by: "perdure",
      text: expect.stringContaining("Do the work."),
    });
    const calls = turns.flatMap((turn: { calls: unknown }) => turn.calls);
    expect(calls).toMatchObject([{ ok: true, result: expect.stringContaining("from the tool") }]);
    expect(turns.at(-1)).toMatchObject({ by: "agent", text: "The work <b>is</b> done." });
    const none = await api.get(`/api/runs/${done}/conversation?attempt=build`);
    expect(none.json.error.code).toBe("no-conversation");
    const output = await api.must(`/api/runs/${done}/output?attempt=agent`);
    expect(output.text).toContain("The work <b>is</b> done.");
  });

  it("passes on bytes that a browser does not run", async () => {
    const { artifacts } = await api.must(`/api/runs/${done}/step?step=build`);
    const sha256 = createHash("sha256").update("one\n").digest("hex");
    expect(artifacts).toMatchObject([{ name: "result", path: "out.txt", sha256, bytes: 4 }]);
    const response = await dashboard.fetch(`/api/runs/${done}/artifact/${sha256}`);
    expect(await response.text()).toBe("one\n");
    expect(response.headers.get("content-type")).toContain("text/plain");
    expect(response.headers.get("content-security-policy")).toContain("sandbox");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });
});

describe("time", () => {
  it("has a line for every event, and the run as it was after each", async () => {
    const { moments } = await api.must(`/api/runs/${done}/moments`);
    const built = moments.find(({ text: line }: { text: string }) =>
      line.includes("build completed"),
    );
    expect(moments.map(({ sequence }: { sequence: number }) => sequence)).toEqual(
      Array.from({ length: moments.length }, (_, index) => index + 1),
    );
    const moment = await api.must(`/api/runs/${done}/moment/${built.sequence}`);
    expect(moment).toMatchObject({ context: { size: 1 }, checkpoint: "line@1" });
    const states = Object.fromEntries(
      moment.steps.map((row: { step: string; status: string }) => [row.step, row.status]),
    );
    expect(states).toEqual({
      build: "completed",
      line: "pending",
      agent: "pending",
      live: "pending",
    });
    const { files } = await api.must(`/api/runs/${done}/files?snapshot=${moment.snapshot}`);
    expect(files.map(({ path }: { path: string }) => path)).toEqual([
      "file.md",
      "out.txt",
      "work.yaml",
    ]);
    const file = `/api/runs/${done}/file?snapshot=${moment.snapshot}&path=file.md`;
    expect(await api.must(file)).toMatchObject({ text: "hello\nmore\n", binary: false });
    expect((await api.get(`/api/runs/${done}/moment/999`)).status).toBe(404);
  });

  it("compares checkpoints and runs", async () => {
    const diff = await api.must(`/api/runs/${done}/diff?from=base&to=build&patch=1`);
    expect(diff).toMatchObject({ context: { added: { size: 1 } } });
    expect(diff.patch).toContain("+more");
    const compared = await api.must(`/api/compare?left=${done}&right=${running}`);
    expect(compared).toMatchObject({ left: { run_id: done }, right: { run_id: running } });
    const build = compared.steps.find(({ step }: { step: string }) => step === "build");
    expect(build).toMatchObject({ same: true });
  });

  it("has the report as one file without scripts", async () => {
    const response = await dashboard.fetch(`/api/runs/${done}/report.html`);
    const html = await response.text();
    expect(response.headers.get("content-security-policy")).toContain("sandbox");
    expect(html).toContain("<!doctype html>");
    expect(html).not.toMatch(/<script/i);
    expect(html).not.toContain(SECRET);
  });
});

describe("projects", () => {
  it("have pipelines with the schemas of their inputs, and costs", async () => {
    const { projects } = await api.must("/api/projects");
    const [{ project: key }] = projects;
    const { pipelines } = await api.must(`/api/projects/${key}/pipelines`);
    expect(pipelines).toMatchObject([{ name: "work.yaml", steps: 4, problem: null }]);
    const cost = await api.must("/api/cost?since=1d");
    expect(cost).toMatchObject({ unread: 0, by_agent: [{ name: "claude" }] });
    expect(cost.total.tokens).toBeGreaterThan(0);
    expect(cost.days.at(-1).runs).toBe(cost.total.runs);
    expect((await api.get("/api/cost?since=soon")).status).toBe(400);
  });
});

describe("the interface", () => {
  it("is a valid OpenAPI 3.1 document that has every address", async () => {
    const checked = await new Validator().validate({ ...structuredClone(api.described) });
    expect(checked.errors ?? []).toEqual([]);
    expect(checked.valid).toBe(true);
    const described = Object.entries(api.described.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method} ${path}`),
    );
    const rows = Object.values(ENDPOINTS).map(
      ({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, "{$1}")}`,
    );
    expect(described.sort()).toEqual([...new Set(rows)].sort());
  });
});

describe("paths from outside", () => {
  it.each([
    "output?attempt=../../../../etc/passwd",
    "output?attempt=build@1.1&file=../../../../../../etc/passwd",
    "output?attempt=build@1.1&file=/etc/passwd",
    "output?attempt=build@9.9",
    "conversation?attempt=..%2f..%2f",
    "step?step=../build",
    "files?snapshot=HEAD",
    "files?snapshot=--help",
    "files?snapshot=0000000000000000000000000000000000000000",
    "file?snapshot=base&path=../../../../etc/passwd",
    "file?snapshot=base&path=.git/config",
    "diff?from=--output=/tmp/x",
    "diff?from=HEAD&to=now",
    "artifact/..%2f..%2fstate.db",
    "artifact/0000000000000000000000000000000000000000000000000000000000000000",
    "material?step=..%2f",
  ])("reach nothing outside of the run: %s", async (path) => {
    const response = await dashboard.fetch(`/api/runs/${done}/${path}`);
    expect([400, 404, 409]).toContain(response.status);
    expect(await response.text()).not.toMatch(/root:|\[core\]/);
  });

  it("do not show content that only another run names", async () => {
    const store = project.path(".perdure", "artifacts");
    const sha256 = createHash("sha256").update("other\n").digest("hex");
    fs.mkdirSync(`${store}/${sha256.slice(0, 2)}`, { recursive: true });
    fs.writeFileSync(`${store}/${sha256.slice(0, 2)}/${sha256}`, "other\n");
    const response = await dashboard.fetch(`/api/runs/${done}/artifact/${sha256}`);
    expect(response.status).toBe(404);
  });
});
