/**
 * An agent as the judge of a step's work: it decides, its costs count, and no failure of it repeats
 * the work.
 */
import { afterEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import {
  queue,
  type Reply,
  refuse,
  type Script,
  shell,
  stall,
  stateless,
  text,
} from "../rig/model/reply.ts";
import { eventually, type Result } from "../rig/project.ts";

let project: FakeClaude;
afterEach(() => project.close());

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

/** What only a judge learns. */
const JUDGE = "You are the judge";

/** What the judge says, one reply after the other; a request is one look at the work. */
const judging = (...replies: readonly Reply[]): Script => ({ ...queue(...replies), when: JUDGE });

const PASS = text('{"pass": true, "reasons": "It says what it should."}');
const FAIL = text('{"pass": false, "reasons": "The greeting is missing.\\nSay hello."}');

/** How often the judge was asked. */
function looks(): number {
  return project.model.requests().filter((one) => JSON.stringify(one).includes(JUDGE)).length;
}

const SHELL = (more = ""): string => `
defaults: { agent: claude, retry: { attempts: 3, backoff: 1ms } }
steps:
  - id: work
    run: echo a word of the work; echo work >> effects
    check:
      - echo checked >> effects
      - judge: |
          It greets \${{ input.whom }}.
          In a friendly way.
        ${more}
  - { id: next, run: echo next >> effects }
`;

async function open(yaml: string, ...scripts: readonly Script[]): Promise<void> {
  project = await FakeClaude.open(...scripts);
  project.write("p.yaml", yaml);
}

const RUN = ["run", "p.yaml", "-i", "whom=Ada"];

describe("a judge", () => {
  it("is asked after the other checks have passed, and its verdict completes the step", async () => {
    await open(SHELL("model: claude-sonnet-4-5"), judging(PASS));
    const result = await project.finish(RUN);
    good(result);

    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
    expect(looks()).toBe(1);
    const asked = JSON.stringify(project.model.requests()[0]);
    expect(asked).toContain("It greets Ada.");
    expect(asked).toContain("a word of the work");
    expect(asked).toContain("echo a word of the work; echo work >> effects");
    expect(result.stdout).toMatch(/work finished its work.*; the judge is asked/);
    expect(result.stdout).toContain("▶ work is being judged by claude");
    expect(result.stdout).toContain('work judge │ {"pass": true');
    const [completed] = await project.events("step.completed");
    expect(completed).toMatchObject({
      step: "work",
      attempt: 2,
      checks: [
        { kind: "command", exit: 0 },
        { kind: "judge", agent: "claude", subject: "It greets ${{ input.whom }}.", exit: 0 },
      ],
    });
    expect(completed?.spent).toMatchObject({ turns: 1, inputTokens: 100, outputTokens: 20 });
    expect(await project.receiptOf("work@1.2")).toMatchObject({
      status: "succeeded",
      cost: { turns: 1 },
      checks: [{ kind: "command" }, { kind: "judge", agent: "claude", exit: 0 }],
    });
    expect(await project.receiptOf("work@1.1")).toMatchObject({ status: "submitted" });
    expect(await project.must(["logs", await project.newestId(), "work"])).toBe(
      'a word of the work\njudge │ {"pass": true, "reasons": "It says what it should."}\n',
    );
  });

  it("that rejects the work uses the retries of the step, and passes a later attempt", async () => {
    await open(SHELL(), judging(FAIL, PASS));
    const result = await project.finish(RUN);
    good(result);

    expect(project.effects()).toEqual({ work: 2, checked: 2, next: 1 });
    expect(looks()).toBe(2);
    expect(result.stdout).toContain(
      "✗ work failed: its check did not pass: its judge (claude) does not pass it: " +
        "The greeting is missing.; next attempt in",
    );
    const [failed] = await project.events("step.failed");
    expect(failed?.check).toMatchObject({
      kind: "judge",
      exit: 1,
      output: "The greeting is missing.\nSay hello.",
    });
  });

  it("is not asked when another check has failed the attempt", async () => {
    await open(SHELL().replace("- echo checked >> effects", "- exit 1"), judging(PASS));
    expect((await project.finish(RUN)).exit).toBe(3);
    expect(project.effects()).toEqual({ work: 3 });
    expect(looks()).toBe(0);
  });

  it("only warns, or fails at once, where the author says so", async () => {
    await open(SHELL("on_fail: warn"), judging(FAIL));
    const warned = await project.finish(RUN);
    good(warned);
    expect(warned.stdout).toMatch(
      /✓ work completed.*; warning: its judge \(claude\) does not pass it/,
    );
    project.write("p.yaml", SHELL("on_fail: fail"));
    project.model.play(judging(FAIL));
    expect((await project.finish(RUN)).exit).toBe(3);
    expect(project.effects()).toEqual({ work: 2, checked: 2, next: 1 });
    const why = await project.must(["why"]);
    expect(why).toContain("its judge (claude) does not pass it: The greeting is missing.");
    expect(why).toContain(
      "The judge (claude) gives these reasons:\n  The greeting is missing.\n  Say hello.\n",
    );
  });

  it("judges what another agent has done, apart from its conversation", async () => {
    const yaml = `
agents:
  strict: { adapter: claude, model: claude-opus-4-5 }
steps:
  - id: work
    agent: claude
    prompt: Greet Ada.
    check: [{ judge_file: rubric.md, agent: strict }, { judge: Nothing else., agent: strict }]
`;
    const task = stateless(shell("echo work >> effects"), text("Hello Ada, says the work."));
    await open(yaml, { ...stateless(PASS), when: JUDGE }, task);
    project.write("rubric.md", "It is a greeting.\n");
    good(await project.finish(["run", "p.yaml"]));

    expect(project.effects()).toEqual({ work: 1 });
    expect(looks()).toBe(2);
    expect(await project.said()).toEqual(["work: task in 1"]);
    const asked = project.model.requests().map((one) => JSON.stringify(one));
    const [first, second] = asked.filter((one) => one.includes(JUDGE));
    expect(first).toContain("It is a greeting.");
    expect(first).toContain("Greet Ada.");
    expect(first).toContain("Hello Ada, says the work.");
    expect(second).toContain("Nothing else.");
    const [completed] = await project.events("step.completed");
    expect(completed).toMatchObject({ attempt: 3, answer: "Hello Ada, says the work." });
  });
});

describe("a failure of a judge", () => {
  it.each([
    ["a busy service", refuse(429, undefined, 1), "paused (rate-limit)"],
    ["a server that fails", refuse(503), "paused"],
    ["a verdict that is none", text("Looks good to me."), "the judge is asked again"],
  ])("asks the judge again and does not repeat the work: %s", async (_what, reply, words) => {
    await open(SHELL(), judging(reply, PASS));
    const result = await project.finish(RUN);
    good(result);
    expect(result.stdout).toContain(words);
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
  });

  it("that persists fails the step, and a resume asks only the judge", async () => {
    await open(SHELL(), judging(...Array.from({ length: 9 }, () => text("Hm."))));
    const result = await project.finish(RUN);
    expect(result.exit).toBe(3);
    expect(result.stdout).toContain("its judge gave no verdict: it is not JSON");
    const id = await project.newestId();
    project.model.play(judging(PASS));
    good(await project.finish(["resume", id]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
  });

  it("that was refused access fails the step, and a resume asks only the judge", async () => {
    await open(SHELL(), judging(refuse(401), refuse(401), refuse(401)));
    expect((await project.finish(RUN)).exit).toBe(3);
    project.model.play(judging(PASS));
    good(await project.finish(["resume", await project.newestId()]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
  });
});

describe("a judge that is interrupted", () => {
  const stalls = (): boolean =>
    project.model.stalls().some((request) => JSON.stringify(request).includes(JUDGE));

  it("is adopted when only its runner was killed", async () => {
    await open(SHELL(), judging(stall("accept", PASS)));
    const runner = project.begin(RUN);
    await eventually("the judge asks the model", stalls);
    await runner.kill("SIGKILL");
    const resumed = project.begin(["resume"]);
    await resumed.printed("work is still running");
    project.model.release();
    good(await resumed.ended);
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
    expect(looks()).toBe(1);
  });

  it("is asked again when it was killed, too", async () => {
    await open(SHELL(), judging(stall("accept", PASS), PASS));
    const runner = project.begin(RUN);
    await eventually("the judge asks the model", stalls);
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume"]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
    expect(looks()).toBe(2);
  });

  it("is asked again after a stop", async () => {
    await open(SHELL(), judging(stall("accept", PASS), PASS));
    const runner = project.begin(RUN);
    await eventually("the judge asks the model", stalls);
    expect((await runner.kill("SIGINT")).exit).toBe(130);
    project.model.release();
    expect(await project.must(["resume", "--dry-run"])).toContain(
      "its work is finished, and its judge (claude) is asked",
    );
    good(await project.finish(["resume"]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
  });

  it("is paid from the budget of the run, which stops the judge and not the work", async () => {
    await open(`budget: { turns: 1 }${SHELL()}`, judging(shell("ls"), PASS));
    const first = await project.finish(RUN);
    expect(first.exit).toBe(3);
    // A model that answers before the signal arrives has one answer more.
    expect(first.stdout).toMatch(/[12] of 1 turns are used/);
    project.model.play(judging(PASS));
    good(await project.finish(["resume", "--budget", "+5turns"]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
  });
});

describe("a judge of a step", () => {
  it("with a workspace of its own looks at it before it is merged", async () => {
    const yaml = `
workspace: here
defaults: { agent: claude, retry: { attempts: 2, backoff: 1ms } }
steps:
  - id: work
    workspace: own
    run: echo made >> made
    check: { judge: It is made. }
  - { id: next, run: cat made }
`;
    await open(yaml, judging(stall("accept", FAIL), PASS));
    const runner = project.begin(["run", "p.yaml"]);
    await eventually("the judge asks the model", () => project.model.stalls().length > 0);
    expect(project.exists("made")).toBe(false);
    project.model.release();
    good(await runner.ended);
    expect(project.read("made")).toBe("made\n");
    expect(looks()).toBe(2);
  });

  it("that must happen once is not uncertain when it is killed", async () => {
    await open(
      SHELL().replace("    run: echo a", "    once: true\n    run: echo a"),
      judging(stall("accept", PASS), PASS),
    );
    const runner = project.begin(RUN);
    await eventually("the judge asks the model", () => project.model.stalls().length > 0);
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    good(await project.finish(["resume"]));
    expect(project.effects()).toEqual({ work: 1, checked: 1, next: 1 });
    expect(await project.events("step.uncertain")).toEqual([]);
  });

  it("keeps what the step left running until the work is rejected", async () => {
    const server = "while test -e on; do sleep 0.05; done; echo served";
    const yaml = `
defaults: { agent: claude, retry: { attempts: 2, backoff: 1ms } }
steps:
  - id: serve
    run: |
      touch on; echo started >> effects
      (${server} >> effects) > /dev/null 2>&1 &
    leaves_running: true
    check: { judge: It serves. }
  - { id: use, run: "rm on; until grep -q served effects; do sleep 0.05; done" }
`;
    await open(yaml, judging(FAIL, text("Hm."), PASS));
    good(await project.finish(["run", "p.yaml"]));
    expect(project.effects()).toEqual({ started: 2, served: 1 });
  });
});

describe("a judge in a pipeline file", () => {
  it("needs an agent that can be asked, and a rubric", async () => {
    await open(`
agents: { plain: cat }
steps:
  - { id: a, run: "true", check: { judge: Good. } }
  - { id: b, run: "true", check: [{ judge: Good., agent: plain }] }
  - { id: c, run: "true", check: [{ judge: "\${{ nothing }}", agent: claud }] }
  - { id: d, run: "true", check: [{ judge_file: gone.md, agent: claude }] }
`);
    const { exit, stderr } = await project.finish(["validate", "p.yaml"]);
    expect(exit).toBe(4);
    expect(stderr).toContain("the check has a judge but no agent that judges");
    expect(stderr).toContain("`plain` is only a command, which cannot give a verdict");
    expect(stderr).toContain("there is no agent `claud`");
    expect(stderr).toContain("unknown variable `nothing`");
    expect(stderr).toContain("there is no file `gone.md`");
  });

  it("is part of the fingerprint: another rubric runs the step again", async () => {
    await open(SHELL(), judging(PASS, PASS));
    good(await project.finish(RUN));
    project.write("p.yaml", SHELL("model: claude-haiku-4-5"));
    const id = await project.newestId();
    const { stdout, stderr } = await project.finish(["resume", id, "--update", "--dry-run"]);
    expect(stdout + stderr).toMatch(/work +run.*check/);
  });
});
