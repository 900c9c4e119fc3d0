/** The spans and metrics of real runs, as a collector receives them. */
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Collector, type ReceivedSpan } from "../rig/collector.ts";
import { eventually, Project } from "../rig/project.ts";

const FAKE = resolve(import.meta.dirname, "../rig/fake-agent.ts");
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER = "00f067aa0ba902b7";
const SECRET = "hunter2-hunter2-hunter2";

let project: Project;
let collector: Collector;
let address: string;
beforeEach(async () => {
  project = new Project();
  collector = new Collector();
  address = await collector.listen();
});
afterEach(async () => {
  await project.remove();
  await collector.close();
});

/** A program that takes Claude's flags and hands those that matter to the fake agent. */
function shim(): string {
  const path = project.path("claude");
  const script = `#!/bin/sh
echo "$TRACEPARENT" > "${project.path("agent-trace")}"
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) set -- "$@" ; flag=$1; id=$2; shift 2;; *) shift;; esac
done
exec "${process.execPath}" "${FAKE}" "$flag" "$id"
`;
  fs.writeFileSync(path, script, { mode: 0o755 });
  return path;
}

function environment(actions: readonly object[] = []): Record<string, string> {
  const config = project.path("config");
  fs.mkdirSync(join(config, "projects", "here"), { recursive: true });
  return {
    CLAUDE_CONFIG_DIR: config,
    FAKE_AGENT_HOME: join(config, "projects", "here"),
    FAKE_AGENT_SCRIPT: JSON.stringify(actions),
    DEPLOY_TOKEN: SECRET,
    OTEL_EXPORTER_OTLP_ENDPOINT: address,
    OTEL_EXPORTER_OTLP_HEADERS: "x-test=yes",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test",
    OTEL_BSP_SCHEDULE_DELAY: "20",
  };
}

function named(spans: readonly ReceivedSpan[], name: string): readonly ReceivedSpan[] {
  return spans.filter((span) => span.name === name);
}

/** The sum of a metric over all processes: the highest value of each series. */
function total(metric: string, attributes: Readonly<Record<string, string>> = {}): number {
  const series = new Map<string, number>();
  for (const point of collector.points) {
    const fits = Object.entries(attributes).every(
      ([key, value]) => point.attributes[key] === value,
    );
    if (point.metric !== metric || !fits) continue;
    const key = JSON.stringify([point.instance, point.attributes]);
    series.set(key, Math.max(point.value, series.get(key) ?? 0));
  }
  return [...series.values()].reduce((sum, value) => sum + value, 0);
}

it("makes one trace of a run that was killed and resumed by another process", async () => {
  project.write(
    "p.yaml",
    `name: release
agents: { worker: { adapter: claude, command: ${shim()} } }
steps:
  - { id: first, run: "echo $TRACEPARENT > ${project.path("first-trace")}" }
  - id: each
    for_each: [a, b]
    steps:
      - { id: item, run: "${project.effect("item")}" }
  - { id: work, agent: worker, prompt: Do it. }
  - id: flaky
    run: "echo $DEPLOY_TOKEN is wrong >&2; test -e ${project.path("once")} || { touch ${project.path("once")}; exit 3; }"
    retry: { attempts: 2, backoff: { initial: 10ms } }
`,
  );
  const actions = [
    { do: "shell", command: project.effect("tool") },
    { do: "wait-for-file", path: project.path("go") },
    { do: "text", text: "All done." },
  ];
  const env = { ...environment(actions), TRACEPARENT: `00-${TRACE}-${CALLER}-01` };
  const runner = project.start(["run", "p.yaml"], { env });
  // It is killed while the collector answers, before it can note that.
  await eventually("a span arrived", () => collector.spans.length > 0);
  await runner.kill();
  const next = project.start(["resume"], { env: environment(actions) });
  // The first process may have exported the tool before it died.
  await next.printed("resumed");
  const tools = (): number => named(collector.spans, "execute_tool Bash").length;
  await eventually("the tool arrived", () => tools() > 0);
  await next.kill();
  project.write("go", "");
  // The last process speaks JSON, and only the first one had a TRACEPARENT.
  const last = { ...environment(actions), OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };
  const { exit, stdout, stderr } = await project.run(["resume"], { env: last });
  expect(exit, stdout + stderr).toBe(0);
  expect(stderr).toBe("");
  expect(project.effects()).toEqual({ item: 2, tool: 1 });

  const spans = collector.distinct();
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const parentOf = (span: ReceivedSpan | undefined): string | undefined =>
    byId.get(span?.parentId ?? "")?.name;
  const [root] = named(spans, "run release");
  expect(root?.parentId).toBe(CALLER);
  const tree = spans.map((span) => `${parentOf(span) ?? "-"} > ${span.name}`).sort();
  expect(tree).toMatchInlineSnapshot(`
    [
      "- > run release",
      "attempt each > step item",
      "attempt each > step item",
      "invoke_agent worker > chat fake-model",
      "invoke_agent worker > chat fake-model",
      "invoke_agent worker > execute_tool Bash",
      "run release > step each",
      "run release > step first",
      "run release > step flaky",
      "run release > step work",
      "step each > attempt each",
      "step first > attempt first",
      "step flaky > attempt flaky",
      "step flaky > attempt flaky",
      "step item > attempt item",
      "step item > attempt item",
      "step work > invoke_agent worker",
    ]
  `);
  // What began under the killed process has its true start, and ended under the other one.
  const [agent] = named(spans, "invoke_agent worker");
  const [tool] = named(spans, "execute_tool Bash");
  const [first] = named(spans, "attempt first");
  expect(agent?.start).toBeLessThanOrEqual(tool?.start ?? 0n);
  expect(root?.start).toBeLessThanOrEqual(first?.start ?? 0n);
  expect(spans.every(({ start, end }) => start <= end && end <= (root?.end ?? 0n))).toBe(true);
  expect(root?.events.filter(({ name }) => name === "run.opened")).toHaveLength(3);

  // The processes of an attempt got its span as their parent.
  expect(project.read("first-trace").trim()).toBe(`00-${TRACE}-${first?.spanId}-01`);
  expect(project.read("agent-trace").trim()).toBe(`00-${TRACE}-${agent?.spanId}-01`);

  expect(agent?.attributes).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "worker",
    "gen_ai.provider.name": "anthropic",
    "perdure.outcome": "completed",
    "perdure.step.path": "work",
  });
  expect(agent?.attributes).toMatchObject({ "perdure.turns": 2, "gen_ai.usage.input_tokens": 0 });
  expect(tool?.attributes).toMatchObject({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "Bash",
  });
  expect(tool?.attributes).not.toHaveProperty("gen_ai.tool.call.arguments");
  const [failed, succeeded] = named(spans, "attempt flaky").toSorted((a, b) =>
    Number(a.start - b.start),
  );
  expect(failed).toMatchObject({ status: 2, attributes: { "error.type": "exit" } });
  expect(succeeded).toMatchObject({ status: 0, attributes: { "perdure.exit_code": 0 } });
  expect(named(spans, "step flaky")[0]?.events.map(({ name }) => name)).toContain("retry");
  expect(root?.resource).toMatchObject({
    "service.name": "perdure",
    "deployment.environment": "test",
  });
  const all = JSON.stringify([spans, collector.points], (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  expect(all).not.toContain(SECRET);
  expect(new Set(collector.requests.map(({ type }) => type))).toEqual(
    new Set(["application/x-protobuf", "application/json"]),
  );
  expect(collector.requests.every(({ header }) => header === "yes")).toBe(true);

  expect(total("perdure.runs.started")).toBe(1);
  expect(total("perdure.runs.ended", { "perdure.outcome": "completed" })).toBe(1);
  expect(total("perdure.steps.ended", { "perdure.outcome": "completed" })).toBe(6);
  expect(total("perdure.attempts.ended", { "perdure.outcome": "failed" })).toBe(1);
  expect(total("perdure.retries")).toBe(1);
  expect(total("gen_ai.client.token.usage", { "gen_ai.token.type": "input" })).toBe(1);
});

it("sends again what a slow collector missed, and continues a failed run as a new part", async () => {
  project.write(
    "p.yaml",
    `steps:
  - { id: first, run: "${project.effect("first")}" }
  - { id: second, run: "test -e ${project.path("fixed")}" }
`,
  );
  collector.behaviour = "hangs";
  const failed = await project.run(["run", "p.yaml"], { env: environment() });
  expect(failed.exit).toBe(3);
  expect(project.effects()).toEqual({ first: 1 });
  const said = failed.stderr.split("\n").filter((line) => line.startsWith("OpenTelemetry: "));
  expect(said).toEqual([
    "OpenTelemetry: 5 spans were not exported: the collector did not answer within 2500 ms",
  ]);
  expect(collector.spans).toEqual([]);

  collector.behaviour = "takes";
  project.write("fixed", "");
  const id = await project.newestId();
  const resumed = await project.run(["resume", id], { env: environment() });
  expect(resumed).toMatchObject({ exit: 0, stderr: "" });
  expect(project.effects()).toEqual({ first: 1 });
  const spans = collector.distinct();
  const shown = spans.map(({ name, status, attributes: { "perdure.part": part = 1 } }) =>
    [name, part, status].join(" "),
  );
  expect(shown.sort()).toEqual([
    "attempt first 1 0",
    "attempt second 1 0",
    "attempt second 1 2",
    "run p 1 2",
    "run p 2 0",
    "step first 1 0",
    "step second 1 2",
    "step second 2 0",
  ]);
  const part = (name: string, number: number): ReceivedSpan | undefined =>
    named(spans, name).find(({ attributes }) => (attributes["perdure.part"] ?? 1) === number);
  expect(part("run p", 2)?.parentId).toBe(part("run p", 1)?.spanId);
  expect(part("step second", 2)?.parentId).toBe(part("run p", 2)?.spanId);
  for (const name of ["run p", "step second"]) {
    expect(part(name, 2)?.links.map(({ spanId }) => spanId)).toEqual([part(name, 1)?.spanId]);
  }
});

it("does not change a run without a collector, a sample or a request for telemetry", async () => {
  project.write("p.yaml", `steps: [{ id: say, run: "echo trace=$TRACEPARENT" }]\n`);
  const dead = { ...environment(), OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
  const elsewhere = new Project();
  elsewhere.write("p.yaml", project.read("p.yaml"));
  const alone = elsewhere.run(["run", "p.yaml"], { env: dead });

  const grpc = { ...environment(), OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
  const other = await project.run(["run", "p.yaml"], { env: grpc });
  expect(other.exit).toBe(0);
  expect(other.stderr).toMatch(/^OpenTelemetry: .+ grpc.+http\/protobuf.+\n$/);
  expect(collector.requests).toEqual([]);

  const off = { ...environment(), OTEL_TRACES_SAMPLER: "always_off" };
  const unsampled = await project.run(["run", "p.yaml"], { env: off });
  expect(unsampled).toMatchObject({ exit: 0, stderr: "" });
  expect(unsampled.stdout).toMatch(/trace=00-[0-9a-f]{32}-[0-9a-f]{16}-00/);
  expect(collector.spans).toEqual([]);
  expect(total("perdure.runs.ended")).toBe(1);

  const requests = collector.requests.length;
  const disabled = { ...environment(), OTEL_SDK_DISABLED: "true", TRACEPARENT: "mine" };
  const silent = await project.run(["run", "p.yaml"], { env: disabled });
  expect(silent).toMatchObject({ exit: 0, stderr: "" });
  expect(silent.stdout).toContain("trace=mine");
  expect(collector.requests).toHaveLength(requests);
  const [id = ""] = await project.runIds();
  expect(project.exists(".perdure", "runs", id, "telemetry.json")).toBe(false);

  const { exit, stderr } = await alone;
  expect(exit).toBe(0);
  expect(stderr).toMatch(/^OpenTelemetry: 3 spans were not exported: .+\n$/);
  await elsewhere.remove();
});

it("shows prompts, answers and tools only on request, and never a secret", async () => {
  project.write(
    "p.yaml",
    `agents: { worker: { adapter: claude, command: ${shim()} } }
steps:
  - { id: work, agent: worker, prompt: "Use \${{ env.DEPLOY_TOKEN }} well." }
`,
  );
  const actions = [
    { do: "shell", command: "echo the token is $DEPLOY_TOKEN" },
    { do: "text", text: `I used ${SECRET}.` },
  ];
  const content = { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" };
  const env = { ...environment(actions), ...content };
  const { exit, stdout, stderr } = await project.run(["run", "p.yaml"], { env });
  expect(exit, stdout + stderr).toBe(0);
  const spans = collector.distinct();
  const texts = spans.flatMap(({ attributes }) =>
    Object.entries(attributes).flatMap(([name, value]) =>
      /messages|arguments|result/.test(name) ? [String(value)] : [],
    ),
  );
  const all = texts.join("\n");
  expect(all).toMatch(/Use .{1,20} well\./);
  expect(all).toMatch(/I used .{1,20}\./);
  expect(all).toContain("echo the token is");
  expect(all).toMatch(/^the token is /m);
  expect(all).not.toContain(SECRET);
});
