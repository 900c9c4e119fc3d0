/**
 * Programs that drive runs through the library: the same engine, journal and promises as the command
 * line, and either takes over from the other.
 */
import { mkdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  definePipeline,
  type EventJson,
  openRun,
  PipelineInvalid,
  Refusal,
  type RefusalCode,
  type RunHandle,
  RunOwned,
  resume,
  run,
} from "../../src/library/perdure.ts";
import { type Program, Project } from "../rig/project.ts";
import { suggestions } from "../rig/suggestion.ts";

const ROOT = resolve(import.meta.dirname, "../..");

let project: Project;
let cwd: string;
beforeEach(() => {
  project = new Project();
  cwd = project.dir;
});
afterEach(() => project.remove());

/** A program in the project that imports `perdure` by its name. */
function program(text: string): Program {
  mkdirSync(project.path("node_modules"), { recursive: true });
  symlinkSync(ROOT, project.path("node_modules", "perdure"));
  project.write("program.ts", text);
  return project.script(project.path("program.ts"));
}

async function types(events: AsyncIterable<EventJson>): Promise<readonly string[]> {
  return (await Array.fromAsync(events)).map(({ type }) => type);
}

it("a run that cannot be written releases everything: its program ends, its step lives on", async () => {
  const hold = project.hold("step");
  const snapshots = "workspace: { snapshots: true, snapshot_every: 100ms }";
  project.write(
    "p.yaml",
    `${snapshots}\nsteps:\n  - { id: a, run: "${hold.command}; echo a >> effects" }\n`,
  );
  const running = program(`
import { truncateSync } from "node:fs";
import { run } from "perdure";
const handle = await run("p.yaml", { cwd: ${JSON.stringify(cwd)} });
process.once("SIGUSR1", async () => {
  truncateSync(${JSON.stringify(project.path(".perdure", "state.db"))});
  const failed = await handle.stop("after-step").then(() => "no", (error) => error.name);
  console.log("failed", failed);
});
`);
  await hold.arrived();
  running.child.kill("SIGUSR1");
  const { stdout, exit } = await running.ended;
  expect([exit, stdout]).toEqual([0, expect.stringMatching(/^failed [A-Z]/)]);
  expect(project.stepProcesses()).not.toEqual([]);
  await hold.release();
});

describe("a question in a program's run", () => {
  const asking = definePipeline({
    steps: [
      { id: "ok", gate: "Go on?" },
      { id: "last", run: "echo last >> effects" },
    ],
  });

  it("ends our part with 6; the first answer counts, and the next part continues", async () => {
    const { id, done } = await run(asking, { cwd });
    expect(await done).toMatchObject({ status: "waiting", exitCode: 6 });
    const opened = await openRun(id, { cwd });
    await opened.answer("ok", "approve", { text: "well done" });
    await expect(opened.answer("ok", "reject")).rejects.toThrow(/was already answered.*program/);
    expect(await (await resume(id, { cwd })).done).toMatchObject({ exitCode: 0 });
    const answers = (await Array.fromAsync(opened.events())).filter(
      ({ type }) => type === "step.answered",
    );
    expect(answers).toMatchObject([{ choice: "A", text: "well done", from: "program" }]);
    expect(project.effects()).toEqual({ last: 1 });
  });

  it("is waited for with `stay`, and answered by itself with `autoApprove`", async () => {
    const handle = await run(asking, { cwd, stay: true });
    for await (const { type } of handle) {
      if (type === "step.asked") await (await openRun(handle.id, { cwd })).answer("ok", "approve");
    }
    expect(await handle.done).toMatchObject({ exitCode: 0 });
    expect(await (await run(asking, { cwd, autoApprove: true })).done).toMatchObject({
      exitCode: 0,
    });
    expect(project.effects()).toEqual({ last: 2 });
  });
});

describe("a run in a program", () => {
  it("gives the events that --json prints, a result, and a journal that replays", async () => {
    const steps = [
      { id: "a", run: 'echo hi > "$PERDURE_OUTPUT_NOTE"', outputs: { note: "note" } },
      { id: "b", run: "echo ${{ input.who }}; exit 3" },
    ] as const;
    const handle = await run(definePipeline({ name: "p", steps }), { cwd, input: { who: "you" } });
    const all = await Array.fromAsync(handle);
    const again = await Array.fromAsync(handle.events);
    expect(again).toEqual(all);
    const result = await handle.done;
    expect(result).toMatchObject({ id: handle.id, status: "failed", exitCode: 3, pipeline: "p" });
    expect(result.steps).toMatchObject([
      { id: "a", state: "completed", exit: 0, outputs: { note: { bytes: 3 } } },
      { id: "b", state: "failed", exit: 3, reason: "exit", attempts: 1 },
    ]);
    expect(result.why.commands[0]).toBe(`perdure resume ${handle.id.slice(0, 8)}`);

    project.write("p.yaml", "name: p\nsteps: [{ id: a, run: ls }]");
    const printed = await project.must(["run", "p.yaml", "--json"]);
    const lines = printed
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as EventJson);
    expect(Object.keys(lines[0] ?? {}).sort()).toEqual(
      [...Object.keys(all[0] ?? {}), "file_sha256"].sort(),
    );
    expect(await project.must(["replay", handle.id])).toContain("no difference");
    expect(await project.must(["show", handle.id])).not.toContain("file ");
  });

  it("has no file to edit, and resume continues it", async () => {
    const handle = await run({ steps: [{ id: "a", run: "test -e ready" }] }, { cwd });
    expect((await handle.done).status).toBe("failed");
    const update = await project.run(["resume", handle.id, "--update"]);
    expect(update.stderr).toContain("has no file to edit");
    project.write("ready", "");
    const [suggested = []] = suggestions(update);
    expect(suggested[0]).toBe("resume");
    await project.must(suggested);
  });

  it("continues when nobody listens any more", async () => {
    const hold = project.hold("a");
    const handle = await run({ steps: [{ id: "a", run: hold.command }] }, { cwd });
    for await (const event of handle) if (event.type === "step.started") break;
    await hold.release();
    expect((await handle.done).status).toBe("completed");
  });

  it("is one of several at once", async () => {
    const hold = project.hold("a");
    const first = await run({ steps: [{ id: "a", run: hold.command }] }, { cwd });
    await hold.arrived();
    const second = await run({ steps: [{ id: "b", run: project.effect("b") }] }, { cwd });
    expect((await second.done).exitCode).toBe(0);
    await hold.release();
    expect((await first.done).exitCode).toBe(0);
    expect(project.effects()).toEqual({ b: 1 });
  });

  it("leaves signals, the directory and the output of the program alone", async () => {
    const started = program(`
      import { run } from "perdure";
      const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"];
      const handle = await run({ steps: [{ id: "a", run: "echo loud" }] }, { cwd: import.meta.dirname });
      const counts = signals.map((signal) => process.listenerCount(signal));
      await handle.done;
      process.stdout.write(JSON.stringify(counts));
    `);
    expect(await started.ended).toMatchObject({ exit: 0, stdout: "[0,0,0,0]", stderr: "" });
  });

  it("may be a file, with paths in its mistakes", async () => {
    project.write("p.ts", 'export default { steps: [{ id: "a", run: "ls" }] };\n');
    expect((await (await run("p.ts", { cwd })).done).exitCode).toBe(0);
    project.write("p.ts", 'export default {\n  steps: [{ id: "a", run: "ls", needs: "b" }],\n};\n');
    const error = await run("p.ts", { cwd }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PipelineInvalid);
    expect(error).toMatchObject({
      code: "invalid-pipeline",
      diagnostics: [{ rule: "unknown-need", path: "steps[0].needs" }],
    });
  });
});

describe("what is refused", () => {
  it("has a code, and a class where there is more to know", async () => {
    const cases: readonly [Promise<unknown>, new (...args: never[]) => Error, RefusalCode][] = [
      [
        run({ steps: [{ id: "a", run: "ls", needs: "b" }] }, { cwd }),
        PipelineInvalid,
        "invalid-pipeline",
      ],
      [run("none.yaml", { cwd }), Refusal, "missing-file"],
      [resume("00000000", { cwd }), Refusal, "no-runs"],
    ];
    for (const [refused, type, code] of cases) {
      const error: unknown = await refused.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject({ code });
    }
    const input = { type: "object", required: ["who"], properties: { who: { type: "string" } } };
    const steps = [{ id: "a", run: "ls" }] as const;
    await expect(run({ input, steps }, { cwd, input: {} })).rejects.toMatchObject({
      code: "bad-input",
    });
    await expect(run({ steps }, { cwd, signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
    expect(project.exists(".perdure")).toBe(false);
  });

  it("is a run that another process drives, and its own", async () => {
    const hold = project.hold("a");
    project.write("p.yaml", `steps: [{ id: a, run: "${hold.command}" }]`);
    const cli = project.start(["run", "p.yaml"]);
    await hold.arrived();
    const [id = ""] = await project.runIds();
    await expect(resume(id, { cwd })).rejects.toThrow(RunOwned);
    await expect(resume(id, { cwd })).rejects.toMatchObject({ owner: { pid: cli.pid } });
    await hold.release();
    await cli.ended;

    const other = project.hold("b");
    const handle = await run({ steps: [{ id: "a", run: other.command }] }, { cwd });
    await other.arrived();
    await expect(resume(handle.id, { cwd })).rejects.toThrow(RunOwned);
    expect(await project.run(["resume", handle.id])).toMatchObject({ exit: 7 });
    await other.release();
    await handle.done;
    expect((await (await resume(handle.id, { cwd })).done).status).toBe("completed");
  });
});

it("that another process takes from a program is reported, and continues there", async () => {
  const hold = project.hold("a");
  const steps = [{ id: "a", run: `${hold.command}; ${project.effect("a")}` }] as const;
  const handle = await run({ steps }, { cwd });
  await hold.arrived();
  const cli = project.start(["resume", handle.id, "--take-over"]);
  await cli.printed("Resuming");
  await hold.release();
  await expect(handle.done).rejects.toThrow(RunOwned);
  await expect(Array.fromAsync(handle)).rejects.toThrow(RunOwned);
  expect(await cli.ended).toMatchObject({ exit: 0 });
  expect(project.effects()).toEqual({ a: 1 });
});

describe("a stop", () => {
  async function held(options: { signal?: AbortSignal } = {}): Promise<RunHandle> {
    const hold = project.hold("a");
    const steps = [
      { id: "a", run: `${project.effect("a")}; test -e go || ${hold.command}` },
      { id: "b", run: project.effect("b") },
    ] as const;
    const handle = await run({ steps }, { cwd, ...options });
    await hold.arrived();
    return handle;
  }

  it.each(["stop()", "an AbortSignal", "perdure stop"])("by %s can be resumed", async (how) => {
    const controller = new AbortController();
    const handle = await held({ signal: controller.signal });
    if (how === "stop()") await handle.stop();
    else if (how === "an AbortSignal") controller.abort();
    else await project.must(["stop", handle.id]);
    const result = await handle.done;
    expect(result).toMatchObject({ status: "interrupted", exitCode: 143 });
    expect(await types(handle)).toContain("run.stopped");
    expect(project.stepProcesses()).toEqual([]);
    project.write("go", "");
    const resumed = await resume(handle.id.slice(0, 8), { cwd });
    expect((await types(resumed))[0]).toBe("run.opened");
    expect((await resumed.done).status).toBe("completed");
    expect(project.effects()).toEqual({ a: 2, b: 1 });
  });
});

describe("after a SIGKILL", () => {
  const text = (hold: string): string => `
    import { run } from "perdure";
    const handle = await run({ steps: [
      { id: "a", run: ${JSON.stringify(project.effect("a"))} },
      { id: "b", run: ${JSON.stringify(`${hold}; ${project.effect("b")}`)} },
      { id: "c", run: ${JSON.stringify(project.effect("c"))} },
    ] }, { cwd: import.meta.dirname });
    await handle.done;
  `;

  it("of a program the command line takes the living step up", async () => {
    const hold = project.hold("b");
    const started = program(text(hold.command));
    await hold.arrived();
    expect(await started.kill()).toMatchObject({ signal: "SIGKILL", stdout: "", stderr: "" });
    const [id = ""] = await project.runIds();
    const cli = project.start(["resume", id]);
    await cli.printed("Resuming");
    await hold.release();
    expect(await cli.ended).toMatchObject({ exit: 0 });
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    expect(await project.must(["replay", id])).toContain("no difference");
  });

  it("of the command line a program takes the living step up", async () => {
    const hold = project.hold("b");
    project.write(
      "p.yaml",
      `steps:
  - { id: a, run: "${project.effect("a")}" }
  - { id: b, run: "${hold.command}; ${project.effect("b")}" }
  - { id: c, run: "${project.effect("c")}" }
`,
    );
    const cli = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await cli.kill();
    const [id = ""] = await project.runIds();
    const handle = await resume(id, { cwd });
    await hold.release();
    expect((await handle.done).exitCode).toBe(0);
    expect(await types(handle)).toContain("step.adopted");
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
  });
});

describe("a run that is looked at", () => {
  it("shows its state and follows its events, whoever drives it", async () => {
    const hold = project.hold("b");
    project.write("p.yaml", `steps: [{ id: a, run: ls }, { id: b, run: "${hold.command}" }]`);
    const cli = project.start(["run", "p.yaml"]);
    await hold.arrived();
    const [id = ""] = await project.runIds();
    const opened = await openRun(id, { cwd: join(cwd, "node_modules", "..") });
    expect(await opened.view()).toMatchObject({
      status: "running",
      steps: [
        { id: "a", state: "completed" },
        { id: "b", state: "running" },
      ],
    });
    expect((await types(opened.events({ follow: false }))).at(-1)).not.toBe("run.completed");
    const followed = types(opened.events());
    await hold.release();
    await cli.ended;
    expect((await followed).at(-1)).toBe("run.completed");
    expect((await opened.view()).status).toBe("completed");
    await expect(openRun("00000000", { cwd })).rejects.toMatchObject({ code: "unknown-run" });
  });
});

describe("a request to the process that drives the run, which may be the same", () => {
  it("retries a failed step while another branch runs, and is refused by a running one", async () => {
    const hold = project.hold("b");
    const handle = await run(
      {
        steps: [
          { id: "a", run: "echo a >> effects; test -e ready" },
          { id: "b", run: `echo b >> effects; ${hold.command}`, needs: [] },
        ],
      },
      { cwd },
    );
    const opened = await openRun(handle.id, { cwd });
    await hold.arrived();
    for await (const { type } of opened.events()) if (type === "step.failed") break;
    project.write("ready", "");
    await expect(opened.retry("b")).rejects.toMatchObject({ code: "step-running" });
    expect(await opened.retry("a")).toBe("handled");
    await hold.release();
    expect((await handle.done).exitCode).toBe(0);
    expect(project.effects()).toEqual({ a: 2, b: 1 });
    await expect(opened.retry("a")).rejects.toMatchObject({ code: "impossible" });
  });

  it("settles an effect of a run that no process drives", async () => {
    const steps = [{ id: "pay", once: true, run: "echo pay >> effects; exit 1" }];
    const handle = await run({ steps }, { cwd });
    expect((await handle.done).exitCode).toBe(3);
    const opened = await openRun(handle.id, { cwd });
    expect(await opened.settle("pay", "done")).toBe("handled");
    expect((await (await resume(handle.id, { cwd })).done).exitCode).toBe(0);
    await expect(opened.settle("pay", "done")).rejects.toMatchObject({ code: "impossible" });
    expect(project.effects()).toEqual({ pay: 1 });
  });
});

describe("a file in DOT", () => {
  const graph = `digraph g { start [shape=Mdiamond]; exit [shape=Msquare]
    a [type="greet", who="ada"]; h [shape=hexagon, label="Ship it?"]
    start -> a -> h; h -> exit [label="[Y] Yes"]; h -> a [label="[N] No"] }`;

  it("takes handlers, transforms, rules and answers of a program", async () => {
    project.write("g.dot", graph);
    const asked: string[] = [];
    const handle = await run("g.dot", {
      cwd,
      logs: "out",
      dot: {
        goal: "win",
        handlers: { greet: project.effect("greeted") },
        transforms: [(text) => text.replace("Ship it?", "Really?")],
        rules: [() => [{ severity: "warning", rule: "mine", message: "a hint", node: "a" }]],
      },
      answer: ({ gate, question, choices }) => {
        asked.push(`${gate}: ${question} ${choices.map(({ label }) => label).join("/")}`);
        // The first time it says no: the graph goes back to the node before.
        return { choice: asked.length === 1 ? "No" : "Y" };
      },
    });
    expect(await handle.done).toMatchObject({ status: "completed", exitCode: 0 });
    expect(asked).toEqual(["h: Really? Yes/No", "h@2: Really? Yes/No"]);
    expect(project.effects()).toEqual({ greeted: 2 });
    expect(JSON.parse(project.read("out", "manifest.json"))).toMatchObject({ goal: "win" });
    const events = await Array.fromAsync((await openRun(handle.id, { cwd })).events());
    const answers = events.filter(({ type }) => type === "step.answered");
    expect(answers).toMatchObject([{ from: "program" }, { from: "program" }]);
  });

  it("does not run when a rule of the program says no", async () => {
    project.write("g.dot", graph);
    const no = { severity: "error", rule: "mine", message: "not today", node: "a" } as const;
    const dot = { handlers: { greet: "true" }, rules: [() => [no]] };
    await expect(run("g.dot", { cwd, dot })).rejects.toThrow("g.dot:2: not today");
  });

  it("leaves questions to people that its program does not answer, and asks again later", async () => {
    project.write("g.dot", graph);
    const dot = { handlers: { greet: "true" } };
    const left = await run("g.dot", { cwd, dot, answer: () => undefined });
    expect(await left.done).toMatchObject({ status: "waiting", exitCode: 6 });
    const resumed = await resume(left.id, { cwd, answer: async () => ({ choice: "Yes" }) });
    expect(await resumed.done).toMatchObject({ status: "completed" });
    const wrong = await run("g.dot", { cwd, dot, answer: () => ({ choice: "Perhaps" }) });
    await expect(wrong.done).rejects.toThrow('there is no choice "Perhaps"');
  });
});
