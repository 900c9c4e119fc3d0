/** Conversations with agents: relayed, corrected, shared, stopped, and limited. */
import * as fs from "node:fs";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { KeptProject } from "../rig/kept-project.ts";
import {
  queue,
  type Reply,
  type Script,
  shell,
  stall,
  stateless,
  text,
  write,
} from "../rig/model/reply.ts";
import { eventually, type Result } from "../rig/project.ts";

let project: FakeClaude;
afterEach(() => project.close());

function pipeline(yaml: string): void {
  project.write("p.yaml", yaml);
}

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

const when = (words: string, ...replies: readonly Reply[]): Script => ({
  ...stateless(...replies),
  when: words,
});

describe("a relay", () => {
  const NOTES = `## Done
The first half.
## Remaining
The second half.
## Decisions
none
## Files touched
effects
`;
  const FULL = { usage: { input: 5_000 } };

  /** A model takes its time: what it was asked right before a stop is never answered. */
  const task = stateless(shell("echo first >> effects", FULL), stall("accept", text("?")));
  const second = when("handed it over", shell("echo second >> effects"), text("All done."));
  const writing = when("Stop working", write(".perdure-relay/work@1.md", NOTES), text("Written."));

  async function open(...scripts: readonly Script[]): Promise<void> {
    project = await FakeClaude.open(...scripts, task);
    pipeline(`
steps:
  - { id: work, agent: claude, prompt: Do both halves., relay: { at: 4000 } }
  - { id: next, run: echo next >> effects }
`);
  }

  it("continues in a new conversation with the notes of the old one", async () => {
    await open(second, writing);
    good(await project.finish(["run", "p.yaml"]));

    expect(project.effects()).toEqual({ first: 1, second: 1, next: 1 });
    expect(await project.said()).toEqual([
      "work: task in 1",
      "work: relay in 1",
      "work: relayed in 2",
    ]);
    const [relayed] = await project.events("step.relayed");
    expect(fs.readFileSync(relayed?.checkpoint.path ?? "", "utf8")).toBe(NOTES);
    const asked = JSON.stringify(project.model.requests("work").at(-1));
    expect(asked).toContain("Do both halves.");
    expect(asked).toContain("The second half.");
    const [completed] = await project.events("step.completed");
    expect(completed).toMatchObject({ step: "work", answer: "All done." });
  });

  it("takes the notes from the answer of an agent that may not write files", async () => {
    await open(second, when("Stop working", text(NOTES)));
    good(await project.finish(["run", "p.yaml"]));
    expect(project.effects()).toEqual({ first: 1, second: 1, next: 1 });
  });

  it("asks again for notes that are missing or empty, and gives up after a while", async () => {
    await open(when("Stop working", text("## Done\nall of it, I promise, nothing is left to do")));
    const result = await project.finish(["run", "p.yaml"]);

    expect(result.exit).toBe(3);
    expect(result.stdout).toContain(
      'the notes for the next conversation are not good: the part "Remaining" is missing or empty',
    );
    expect(await project.said()).toEqual([
      "work: task in 1",
      ...Array.from({ length: 3 }, () => "work: relay in 1"),
    ]);
    expect(project.effects()).toEqual({ first: 1 });
  });

  const moments = [
    ["while the notes are asked for", "Stop working", ["work: relay in 1", "work: relayed in 2"]],
    ["in the new conversation", "handed it over", ["work: relayed in 2", "work: interrupted in 2"]],
  ] as const;
  it.each(moments)("survives a kill %s", async (_moment, words, said) => {
    await open(when(words, stall("accept", text("?"))), second, writing);
    const runner = project.begin(["run", "p.yaml"]);
    await eventually("the model is asked", () =>
      project.model.stalls().some((request) => JSON.stringify(request).includes(words)),
    );
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.play(second, writing, task);
    project.model.release();
    good(await project.finish(["resume"]));

    expect(project.effects()).toEqual({ first: 1, second: 1, next: 1 });
    expect((await project.said()).slice(-2)).toEqual(said);
  });
});

describe("an answer with a schema", () => {
  it("is asked for again in the same conversation until it fits, or else the step fails", async () => {
    const schema = "{ type: object, required: [n], properties: { n: { type: integer } } }";
    project = await FakeClaude.open(
      when("How much?", text('{ "n": "three" }')),
      when("cannot be used", text('```json\n{ "n": 3 }\n```')),
      stateless(text("There are three.")),
    );
    pipeline(`
defaults: { agent: claude }
steps:
  - { id: count, prompt: How many?, output_schema: ${schema} }
  - { id: next, run: 'echo "n\${{ results.count.answer.n }}" >> effects' }
  - { id: never, prompt: How much?, output_schema: ${schema} }
`);
    const result = await project.finish(["run", "p.yaml"]);

    expect(result.exit).toBe(3);
    expect(project.effects()).toEqual({ n3: 1 });
    expect(await project.said()).toEqual([
      "count: task in 1",
      "count: correct in 1",
      "never: task in 2",
      ...Array.from({ length: 3 }, () => "never: correct in 2"),
    ]);
    const [continued] = await project.events("step.continued");
    expect(continued?.ask).toEqual({ kind: "correct", why: "it is not JSON" });
    expect(result.stdout).toContain("its agent's answer does not match the schema: ");
    expect(project.model.requests("work")).toHaveLength(6);
  });
});

describe("a session", () => {
  const yaml = `
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan., session: main }
  - { id: review, prompt: Look at something else. }
  - { id: build, prompt: Follow the plan., session: main }
`;

  it("is shared by the steps that name it, and continues after a kill in the second one", async () => {
    project = await FakeClaude.open(
      when("Follow the plan", stall("accept", shell("echo built >> effects")), text("Built.")),
      stateless(text("The plan is to win.")),
    );
    pipeline(yaml);
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    const asked = JSON.stringify(project.model.requests("work").at(-1));
    expect(asked).toContain("The plan is to win.");
    expect(asked).not.toContain("something else");
    expect(asked).not.toContain("You were interrupted");
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume"]));

    expect(project.effects()).toEqual({ built: 1 });
    expect(await project.said()).toEqual([
      "plan: task in 1",
      "review: task in 2",
      "build: task in 1",
      "build: interrupted in 1",
    ]);
  });
});

describe("limits", () => {
  it("end an agent that repeats a failing call, with the evidence", async () => {
    project = await FakeClaude.open(
      stateless(...Array.from({ length: 20 }, () => shell("cat missing.txt"))),
    );
    pipeline("steps: [{ id: work, agent: claude, prompt: Do it. }]");
    const result = await project.finish(["run", "p.yaml"]);

    expect(result.exit).toBe(3);
    expect(result.stdout).toMatch(
      /it makes no progress: the same call failed \d+ times: Bash cat missing.txt/,
    );
    expect(project.model.requests("work").length).toBeLessThan(20);
  });

  it("count turns across a kill", async () => {
    project = await FakeClaude.open(
      stateless(
        shell("echo one >> effects"),
        stall("accept", shell("echo two >> effects")),
        shell("echo three >> effects"),
        text("Done."),
      ),
    );
    pipeline("steps: [{ id: work, agent: claude, prompt: Do it., max_turns: 2 }]");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    const result = await project.finish(["resume"]);

    expect(result.exit, result.stdout).toBe(3);
    expect(result.stdout).toContain("it used up all of its 2 turns (max_turns)");
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  });
});

describe("a budget", () => {
  const tool = (name: string): Reply => shell(`echo ${name} >> effects`);
  const last = stall("accept", text("Done."));

  it("of which half was spent before a kill stops the run at the right place after it", async () => {
    project = await FakeClaude.open(
      stateless(tool("one"), tool("two"), stall("accept", tool("three")), tool("four"), last),
    );
    pipeline(`
budget: { tokens: 480 }
steps: [{ id: work, agent: claude, prompt: Do it. }]
`);
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    const stopped = await project.finish(["resume"]);

    // Each answer uses 120 tokens: two before the kill, two after it.
    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toContain("the budget: 480 of 480 tokens are used");
    expect(project.effects()).toEqual({ one: 1, two: 1, three: 1, four: 1 });
    expect((await project.finish(["resume"])).exit).toBe(3);
    project.model.release();
    good(await project.finish(["resume", "--budget", "+1000tokens"]));
    expect(await project.said()).toEqual([
      "work: task in 1",
      "work: interrupted in 1",
      "work: interrupted in 1",
    ]);
  });

  it("of time ends a step that runs too long", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("forever");
    pipeline(`
budget: { time: 1s }
steps: [{ id: work, run: "${hold.command}" }]
`);
    const stopped = await project.finish(["run", "p.yaml"]);
    expect(stopped.exit, stopped.stdout).toBe(3);
    expect(stopped.stdout).toMatch(/the budget: \S+ of 1.0s have run/);
  });
});

describe("stopping", () => {
  it("after a turn lets the model and its tools finish", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("tool");
    project.model.play(
      stateless(
        shell(`echo one >> effects; ${hold.command}`),
        stall("accept", shell("echo two >> effects")),
        text("."),
      ),
    );
    pipeline("steps: [{ id: work, agent: claude, prompt: Do it. }]");
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    expect(await project.must(["stop", "--after-turn"])).toContain("finished their turns");
    await runner.printed("stopping after the running turns");
    await hold.release();
    const stopped = await runner.ended;

    expect(stopped.exit, stopped.stdout).toBe(143);
    expect(project.effects()).toEqual({ one: 1 });
    const [interrupted] = await project.events("step.interrupted");
    expect(interrupted?.tool).toMatchObject({ name: "Bash", ok: true });
    project.model.release();
    good(await project.finish(["resume"]));
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  });

  it("by a signal, when the grace period is over, leaves a receipt with the last tool", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("tool");
    project.model.play(stateless(shell(hold.command), text("Done.")));
    pipeline(`
defaults: { grace: 50ms }
steps: [{ id: work, agent: claude, prompt: Do it. }]
`);
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    const stopped = await runner.kill("SIGTERM");

    expect(stopped.exit, stopped.stdout).toBe(143);
    expect(project.stepProcesses()).toEqual([]);
    expect(await project.receiptOf("work@1.1")).toMatchObject({
      status: "interrupted",
      last_tool: { name: "Bash", input: hold.command },
      cost: { measured: true, turns: 1, input_tokens: 100, output_tokens: 20 },
    });
  });
});

describe("an agent that is killed alone", () => {
  it("is lost, not failed: its tools are ended and its conversation continues", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("tool");
    const blocked = `echo tool >> effects; ${hold.command}; echo late >> effects`;
    project.model.play(stateless(shell(blocked)));
    pipeline("steps: [{ id: work, agent: claude, prompt: Do it. }]");
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    project.model.play(queue(stall("accept", text("Done."))));
    await project.killAgent(runner);
    await Promise.race([project.model.stalled(), runner.ended]);
    // The wrapper and the agent of the new attempt, and nobody else.
    expect(project.stepProcesses()).toHaveLength(2);
    project.model.release();
    good(await runner.ended);

    expect(project.effects()).toEqual({ tool: 1 });
    expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(await project.events("step.failed")).toEqual([]);
    const [lost] = await project.events("step.lost");
    expect(lost).toMatchObject({
      message: "it was killed (SIGKILL)",
      tool: { name: "Bash", input: blocked },
      spent: { inputTokens: 100, outputTokens: 20 },
    });
  });
});

describe("recovery", () => {
  async function cutOff(): Promise<void> {
    project = await FakeClaude.open(
      stateless(shell("echo tool >> effects"), stall("accept", text("Done."))),
    );
    pipeline("workspace: here\nsteps: [{ id: work, agent: claude, prompt: Do it. }]");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
  }

  it("restarts or continues as a person chooses, and a dry run shows which", async () => {
    await cutOff();
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    const dryRun = async (...more: readonly string[]): Promise<string> => {
      const reported = await project.finish(["resume", "--dry-run", ...more]);
      good(reported);
      return reported.stdout;
    };
    const gone = "work  continue     its process is gone; its conversation";
    expect(await dryRun()).toContain(`${gone} continues\n`);
    expect(await dryRun("--recover", "restart")).toContain(`${gone} starts again\n`);
    expect(await project.said()).toEqual(["work: task in 1"]);
    const folder = project.path("config", "projects");
    fs.renameSync(folder, `${folder}.away`);
    expect(await dryRun()).toContain(`${gone} starts again\n`);
    fs.renameSync(`${folder}.away`, folder);

    good(await project.finish(["resume", "--recover", "restart"]));
    expect(await project.said()).toEqual(["work: task in 1", "work: task in 2"]);
    // Its files are put back to where it began, so what it had written is written once.
    expect(project.effects()).toEqual({ tool: 1 });
    expect(project.model.requests("work").length).toBeGreaterThan(3);

    // Nobody can be asked without a terminal, and a word that it does not know is refused.
    await project.remove();
    kept.putBack();
    const asked = await project.finish(["resume", "--recover", "ask"]);
    expect([asked.exit, asked.stderr]).toEqual([2, expect.stringContaining("needs a terminal")]);
    expect((await project.finish(["resume", "--recover", "maybe"])).exit).toBe(2);
    good(await project.finish(["resume", "--recover", "continue"]));
    expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    expect(project.effects()).toEqual({ tool: 1 });
  });

  it("takes the last answer of an agent whose exit status was lost, and runs only its check", async () => {
    const late = (words: string): Script => when(words, stall("accept", text("Done.")));
    project = await FakeClaude.open(late("Do this"), late("Do that"));
    pipeline(`
steps:
  - { id: work, agent: claude, prompt: Do this., needs: [] }
  - { id: checked, agent: claude, prompt: Do that., needs: [], check: echo check >> effects }
`);
    const runner = project.begin(["run", "p.yaml"]);
    await eventually("both ask", () => project.model.stalls().length === 2);
    await runner.kill("SIGKILL");
    project.model.release();
    const [id = ""] = await project.runIds();
    for (const name of ["work", "checked"]) {
      const claim = project.path(".perdure", "runs", id, "attempts", `${name}@1.1`, "pid");
      await eventually("the agent ends", () => /^0 /.test(fs.readFileSync(claim, "utf8")));
    }
    await eventually("their wrappers end", () => project.stepProcesses().length === 0);
    for (const name of ["work", "checked"]) {
      const claim = project.path(".perdure", "runs", id, "attempts", `${name}@1.1`, "pid");
      // As if the machine had died right before it was written, and right before the check.
      fs.writeFileSync(claim, `${".".repeat(15)}${fs.readFileSync(claim, "utf8").slice(15)}`);
    }
    fs.rmSync(project.path("effects"));
    const reported = await project.finish(["resume", "--dry-run"]);
    expect(reported.stdout).toMatch(
      /work +take result +its process is gone, but its agent had finished/,
    );
    good(await project.finish(["resume"]));
    const adopted = await project.events("step.adopted");
    expect(adopted.find(({ step }) => step === "work")).toMatchObject({ found: "result" });
    expect((await project.said()).toSorted()).toEqual(["checked: task in 2", "work: task in 1"]);
    const completed = await project.events("step.completed");
    expect(completed.find(({ step }) => step === "work")?.answer).toBe("Done.");
    expect(await project.events("step.failed")).toEqual([]);
    expect(project.effects()).toEqual({ check: 1 });
  });

  it("records that it took over a living process, or a result", async () => {
    project = await FakeClaude.open(
      stateless(stall("accept", shell("echo tool >> effects")), text("Done.")),
    );
    pipeline("steps: [{ id: work, agent: claude, prompt: Do it. }]");
    const runner = project.begin(["run", "p.yaml"]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    const resumed = project.begin(["resume"]);
    await resumed.printed("work is still running: re-attached");
    project.model.release();
    good(await resumed.ended);
    expect(await project.events("step.adopted")).toMatchObject([{ found: "alive" }]);
    expect(project.effects()).toEqual({ tool: 1 });
  });
});

describe("secrets", () => {
  it("reach the agent, but neither its check nor the output", async () => {
    project = await FakeClaude.open(
      stateless(shell('echo "key=$FAKE_API_KEY" | tee seen'), text("The key is s3cr3t-value-123.")),
    );
    pipeline(`
agents: { worker: { adapter: claude, env: { FAKE_API_KEY: "\${{ env.OUTER_API_KEY }}" } } }
steps:
  - { id: work, agent: worker, prompt: Do it., check: 'test -z "$FAKE_API_KEY"' }
`);
    const result = await project.begin(["run", "p.yaml"], { OUTER_API_KEY: "s3cr3t-value-123" })
      .ended;
    good(result);
    expect(project.read("seen")).toBe("key=s3cr3t-value-123\n");
    expect(result.stdout).not.toContain("s3cr3t");
    const [id = ""] = await project.runIds();
    const receipt = project.path(".perdure", "runs", id, "receipts", "work-worker.json");
    expect(fs.readFileSync(receipt, "utf8")).not.toContain("s3cr3t");
    // What a run goes by is as it was said, and private.
    const attempt = ["prompt.md", "output.log", "stderr.log", "response.md"];
    for (const name of ["events.jsonl", ...attempt.map((file) => `attempts/work@1.1/${file}`)]) {
      const path = project.path(".perdure", "runs", id, name);
      expect([name, (fs.statSync(path).mode & 0o077).toString(8)]).toEqual([name, "0"]);
    }
  });
});

describe("isolation", () => {
  it("ends everything that the first process left behind", async () => {
    project = await FakeClaude.open();
    pipeline(`
steps:
  - id: work
    isolate: true
    run: |
      echo "$$" > pid
      env -i setsid sh -c 'echo left >> effects; exec sleep 600' &
      until test -s effects; do :; done
`);
    good(await project.finish(["run", "p.yaml"]));
    expect(project.read("pid")).toBe("1\n");
    expect(project.effects()).toEqual({ left: 1 });
  });
});
