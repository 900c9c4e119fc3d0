/** The costs of agents: prices, limits in dollars, models that are known late, and reports. */
import * as fs from "node:fs";
import { resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { refuse, shell, stall, stateless, text, times } from "../rig/model/reply.ts";
import { eventually, type Result } from "../rig/project.ts";

const FAKE_CODEX = resolve(import.meta.dirname, "../rig/fake-codex.ts");

let project: FakeClaude;
afterEach(() => project.close());

/** The model that the fake agent names in its stream; nobody knows its price. */
const MODEL = "fake-model";
const PRICES = `prices: { ${MODEL}: { input: 1000, output: 2000 } }\n`;
const WORK = "steps: [{ id: work, agent: claude, prompt: Do it. }]\n";

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

async function shown(): Promise<{ readonly [key: string]: unknown }> {
  return JSON.parse(await project.must(["show", "--json"])) as { [key: string]: unknown };
}

describe("a limit in dollars", () => {
  it("is refused before anything is paid for when a model that the plan names has no price", async () => {
    project = await FakeClaude.open(stateless(text("Done.")));
    project.write("p.yaml", `budget: { usd: 1 }\ndefaults: { model: claude-next-9 }\n${WORK}`);
    const refused = await project.finish(["run", "p.yaml"]);

    expect(refused.exit).toBe(4);
    expect(refused.stderr).toContain("no price is known for claude-next-9");
    expect(refused.stderr).toContain("prices: { claude-next-9: { input: 1.5, output: 6 } }");
    expect(project.model.requests()).toEqual([]);
    expect(await project.runIds()).toEqual([]);

    // What it suggests is enough.
    const prices = "prices: { claude-next-9: { input: 1.5, output: 6 } }\n";
    project.write("p.yaml", `${prices}${project.read("p.yaml")}`);
    good(await project.finish(["run", "p.yaml"]));
  });

  it("uses a price of the user's own file", async () => {
    project = await FakeClaude.open(stateless(text("Done.")));
    project.write("p.yaml", `budget: { usd: 1 }\ndefaults: { model: claude-next-9 }\n${WORK}`);
    const config = { XDG_CONFIG_HOME: project.path("own") };
    fs.mkdirSync(project.path("own", "perdure"), { recursive: true });
    const file = project.path("own", "perdure", "prices.json");
    fs.writeFileSync(file, '{ "claude-next-9": { "input": 1, "cached": 1 } }');
    const wrong = await project.begin(["run", "p.yaml"], config).ended;
    expect(wrong.exit).toBe(2);
    expect(wrong.stderr).toContain('the price of claude-next-9 is wrong: "cached" is none of');

    fs.writeFileSync(file, '{ "claude-next-9": { "input": 1, "output": 2 } }');
    good(await project.begin(["run", "p.yaml"], config).ended);
    const listed = await project.begin(["prices"], config).ended;
    expect(listed.stdout).toMatch(/^claude-next-9 +1 +1 +1 +2 +file$/m);
    expect(listed.stdout).toMatch(/^claude-opus-5 +5 +0.5 +6.25 +25 +list$/m);
    const doctor = await project.begin(["doctor"], config).ended;
    expect(doctor.stdout).toMatch(
      /^✓ prices of \d+ models, as of 2026-\S+, 1 of them from .*prices$/m,
    );
  });

  it("stops at the first answer of a model without a price, and counts it when there is one", async () => {
    const [one, two] = [shell("echo one >> effects"), shell("echo two >> effects")];
    // A model takes its time: what it was asked right before a stop is never answered.
    project = await FakeClaude.open(stateless(one, stall("accept", two), text("Done.")));
    project.write("p.yaml", `budget: { usd: 1 }\n${WORK}`);
    const stopped = await project.finish(["run", "p.yaml"]);

    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toContain("The limit of $1.00 needs the price of the model");
    expect(stopped.stdout).toContain(`the budget: no price is known for ${MODEL}`);
    expect(project.effects()).toEqual({ one: 1 });

    const again = await project.finish(["resume"]);
    expect(again.exit).toBe(4);
    expect(again.stderr).toContain(`no price is known for ${MODEL}`);

    project.write("p.yaml", `${PRICES}${project.read("p.yaml")}`);
    project.model.release();
    const ended = await project.finish(["resume", "--update", "--yes"]);
    good(ended);
    // Each call: 100 tokens in at $1000, 20 out at $2000 for a million.
    expect(ended.stdout).toContain("earlier attempts, whose model had no price then, cost ~$0.14");
    expect(project.effects()).toEqual({ one: 1, two: 1 });
    expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(await shown()).toMatchObject({
      spent: { cost_usd: expect.closeTo(0.42, 6), estimated: true },
    });
  });

  it("ignores a subscription, which costs no dollars", async () => {
    project = await FakeClaude.open(stateless(shell("echo one >> effects"), text("Done.")));
    project.write("p.yaml", `budget: { usd: 1 }\ndefaults: { billing: subscription }\n${WORK}`);
    const ended = await project.finish(["run", "p.yaml"]);
    good(ended);
    expect(ended.stdout).not.toContain("price");
    expect(await shown()).toMatchObject({ spent: { cost_usd: 0, input_tokens: 200 } });
  });
});

describe("what an attempt used", () => {
  it("is in its receipt and in show, with its model and its conversation", async () => {
    project = await FakeClaude.open(stateless(shell("echo one >> effects"), text("Done.")));
    project.write("p.yaml", WORK);
    good(await project.finish(["run", "p.yaml"]));

    const [started] = await project.events("step.started");
    const session = started?.conversation?.session ?? "";
    const used = { input_tokens: 200, output_tokens: 40, model: MODEL, session };
    expect(await project.receiptOf("work@1.1")).toMatchObject({
      cost: { measured: true, ...used },
    });
    expect(await shown()).toMatchObject({ steps: [{ attempts: [{ spent: used }] }] });
    const lines = await project.must(["show"]);
    expect(lines).toMatch(
      /^ {2}work@1\.1 +fake-model +200 tokens in, 40 out, 2 turns, \$0\.0012 /m,
    );
    expect(lines).toContain(`session ${session}`);
  });

  it("is an estimate after a kill, and marked as one", async () => {
    project = await FakeClaude.open(
      stateless(shell("echo one >> effects"), stall("accept", text("Done."))),
    );
    project.write("p.yaml", `${PRICES}${WORK}`);
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume"]));
    const cost = { cost_usd: expect.closeTo(0.14, 6), estimated: true };
    expect(await project.receiptOf("work@1.1")).toMatchObject({ cost });
    expect(await project.must(["show"])).toMatch(/^spent .*, ~\$0\.28$/m);
  });
});

describe("a pause", () => {
  it("after the agent's own retries lasts as long as ours, and counts", async () => {
    project = await FakeClaude.open(stateless(times("always", refuse(529, text("Done.")))));
    project.write("p.yaml", WORK);
    const runner = project.begin(["run", "p.yaml"], { CLAUDE_CODE_MAX_RETRIES: "1" });
    await runner.printed(
      /work │ … overloaded \(529\): asks its model again in 50ms \(retry 1 of 1\)/,
    );
    await runner.printed(/work paused \(overloaded\): .*; pause 1 of 50, next attempt in 5\.0s/);
    await runner.kill("SIGINT");
    const { stdout } = await runner.ended;
    expect(stdout).toMatch(/was stopped by SIGINT \(Ctrl-C\) while step work was waiting .*529/);
    expect(await project.must(["show"])).toMatch(/attempt|work/);
  });
});

describe("Codex", () => {
  const CODEX_WORK = "steps: [{ id: work, agent: codex, prompt: Do it. }]\n";

  /** A project with a program that stands for `codex`, and the variables that it needs. */
  async function open(
    model: string,
    commands: readonly string[],
  ): Promise<Readonly<Record<string, string>>> {
    project = await FakeClaude.open();
    const script = `#!/bin/sh\nexec "${process.execPath}" "${FAKE_CODEX}" "$@"\n`;
    fs.writeFileSync(project.path("bin", "codex"), script, { mode: 0o755 });
    return {
      CODEX_API_KEY: "key-of-a-test",
      CODEX_HOME: project.path("codex"),
      FAKE_CODEX_MODEL: model,
      FAKE_CODEX_ANSWERS_AFTER: project.path("go"),
      FAKE_CODEX_COMMANDS: JSON.stringify(commands),
    };
  }

  it("is priced by the model in its rollout", async () => {
    const env = await open("gpt-6.1-sol", ["echo one >> effects"]);
    project.write("go", "");
    project.write("p.yaml", `budget: { usd: 1 }\n${CODEX_WORK}`);
    good(await project.begin(["run", "p.yaml"], env).ended);
    // 2000 tokens in at $2, 20 out at $10 for a million.
    const cost = { model: "gpt-6.1-sol", cost_usd: expect.closeTo(0.0042, 9), estimated: true };
    expect(await project.receiptOf("work@1.1")).toMatchObject({ cost });
    expect(await project.must(["show"])).toMatch(/^spent .*, ~\$0\.0042$/m);
  });

  it("is priced by the list that the run started with, even with a newer program", async () => {
    const env = await open("gpt-6.1-sol", ["echo one >> effects"]);
    project.write("go", "");
    const check = "check: test -e ready";
    const step = `{ id: work, agent: codex, prompt: Do it., ${check} }`;
    project.write("p.yaml", `budget: { usd: 1 }\nsteps: [${step}]\n`);
    expect((await project.begin(["run", "p.yaml"], env).ended).exit).toBe(3);
    project.write("ready", "");
    const resumed = ["resume", await project.newestId()];
    const newer = project.script(newerProgram("gpt-6.1-sol"), resumed, {
      env: { ...project.environment, ...env },
    });
    good(await newer.ended);
    // Two answers before and one after: 1000 tokens in at $2, 10 out at $10 for a million.
    const used = { input_tokens: 3_000, cost_usd: expect.closeTo(0.0063, 9) };
    expect(await shown()).toMatchObject({ spent: used });
  });

  /** A copy of the program whose list has the model at a thousand times its price. */
  function newerProgram(model: string): string {
    const root = resolve(import.meta.dirname, "../..");
    for (const name of ["bin", "dist"])
      fs.mkdirSync(project.path("newer", name), { recursive: true });
    for (const name of ["package.json", "bin/package.json", "bin/perdure.js", "dist/main.js"]) {
      fs.copyFileSync(`${root}/${name}`, project.path("newer", name));
    }
    const main = project.read("newer", "dist", "main.js");
    const price = new RegExp(`("${model}": ?\\{[^}]*?input: ?)2\\b`);
    expect(main).toMatch(price);
    fs.writeFileSync(project.path("newer", "dist", "main.js"), main.replace(price, "$12000"));
    return project.path("newer", "bin", "perdure.js");
  }

  it("stops after its first answer when the model in its rollout has no price", async () => {
    const env = await open("gpt-7-nova", ["echo one >> effects", "echo two >> effects"]);
    project.write("p.yaml", `budget: { usd: 1 }\n${CODEX_WORK}`);
    const stopped = await project.begin(["run", "p.yaml"], env).ended;
    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toContain("the budget: no price is known for gpt-7-nova");
    expect(project.effects()).toEqual({ one: 1 });

    const price = "prices: { gpt-7-nova: { input: 1.5, output: 6 } }\n";
    project.write("p.yaml", `${price}${project.read("p.yaml")}`);
    project.write("go", "");
    good(await project.begin(["resume", "--update", "--yes"], env).ended);
    expect(project.effects()).toEqual({ one: 1, two: 1 });
    const [known] = await project.events("step.session");
    const [, again] = await project.events("step.started");
    expect(again?.conversation).toMatchObject({ kind: "continue", session: known?.session });
    const used = { input_tokens: 3_000, cost_usd: expect.closeTo((3_000 * 1.5 + 30 * 6) / 1e6, 9) };
    expect(await shown()).toMatchObject({ spent: used });
  });

  it("is not charged for a person's turns in its conversation", async () => {
    const env = await open("gpt-5.5", []);
    const commands = JSON.stringify(["echo one >> effects", project.hold("tool").command]);
    project.write("go", "");
    project.write("p.yaml", CODEX_WORK);
    const runner = project.begin(["run", "p.yaml"], { ...env, FAKE_CODEX_COMMANDS: commands });
    await eventually(
      "the second answer is recorded",
      () => rollout().match(/token_usage_record/g)?.length === 2,
    );
    await runner.kill("SIGINT");
    await runner.ended;
    const sums = { input_tokens: 7_000, output_tokens: 70 };
    const person = { usage: { input_tokens: 5_000, output_tokens: 50 }, thread_token_usage: sums };
    fs.appendFileSync(
      rolloutFile(),
      `${JSON.stringify({ type: "token_usage_record", payload: person })}\n`,
    );
    good(await project.begin(["resume"], env).ended);

    const spent = [
      ...(await project.events("step.interrupted")),
      ...(await project.events("step.completed")),
    ].map((event) => event.spent?.inputTokens);
    expect(spent).toEqual([2_000, 1_000]);
  });

  function rolloutFile(): string {
    return fs.globSync(project.path("codex", "sessions/*/*/*/*.jsonl"))[0] ?? "";
  }

  function rollout(): string {
    return rolloutFile() === "" ? "" : fs.readFileSync(rolloutFile(), "utf8");
  }
});
