/**
 * After a failure the agent's conversation continues (core/K1): in the same session, without
 * repeating what is done, and the agent learns what failed. Every command that a failure suggests
 * is run as printed.
 */
import * as fs from "node:fs";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { KeptProject } from "../rig/kept-project.ts";
import {
  overflow,
  queue,
  type Reply,
  refuse,
  type Script,
  shell,
  stall,
  stateless,
  text,
  times,
  write,
} from "../rig/model/reply.ts";
import type { Result } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";

let project: FakeClaude;
afterEach(() => project.close());

const effect = (name: string): Reply => shell(`echo ${name} >> effects`);
const DONE = text("Done.");
const FAILED = "work: failed in 1";

const when = (words: string, ...replies: readonly Reply[]): Script => ({
  ...stateless(...replies),
  when: words,
});

async function open(steps: string, ...scripts: readonly Script[]): Promise<void> {
  project = await FakeClaude.open(...scripts);
  project.write("p.yaml", steps);
}

function step(more = ""): string {
  return `steps: [{ id: work, agent: claude, prompt: Do it.${more === "" ? "" : `, ${more}`} }]\n`;
}

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

/** The command that a run suggests at its end, or a refusal as its next one. */
function suggested({ stdout, stderr }: Result): readonly string[] {
  const card = stdout.slice(Math.max(0, stdout.lastIndexOf(" Run ")));
  const found = /: perdure (resume [^\n]*?)(?: {3}\(|\n|$)/.exec(`${card}\n${stderr}`);
  return (found?.[1] ?? "no command is suggested").split(" ");
}

/** The first request after the conversation was continued. */
function requestAfter(count: number): string {
  return JSON.stringify(project.model.requests("work")[count]);
}

describe("a failure of the service", () => {
  const LOGIN = "Log in with claude or renew its key, then continue: perdure resume";

  /** Expects the advice of a failed run, and that this command continues its conversation. */
  async function continues(
    failed: Result,
    { status, advice, exit = 0 }: { status: number; advice: string; exit?: number },
  ): Promise<Result> {
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain(advice);
    const yes = status === 404 ? ["--yes"] : [];
    const asked = project.model.requests("work").length;
    const result = await project.finish([...suggested(failed), ...yes]);
    expect(result.exit, result.stdout + result.stderr).toBe(exit);
    expect(requestAfter(asked)).toContain("tool_result");
    expect(requestAfter(asked)).toContain("The last attempt at this task failed (agent)");
    expect(requestAfter(asked)).toContain(`the script says ${status}`);
    return result;
  }

  it("continues in the same conversation each time, with the message for its status", async () => {
    await open(
      step(),
      stateless(
        effect("a"),
        refuse(403, effect("b")),
        refuse(400, effect("c")),
        refuse(404, effect("d")),
        DONE,
      ),
    );
    const first = await project.finish(["run", "p.yaml"]);
    const second = await continues(first, { status: 403, advice: LOGIN, exit: 3 });
    const advice = "Continue its conversation: perdure resume";
    const third = await continues(second, { status: 400, advice, exit: 3 });
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    project.write("p.yaml", step("model: another"));
    await continues(third, {
      status: 404,
      advice: "Change `model:` in the pipeline, then continue: perdure resume",
    });
    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1, d: 1 });
    expect(await project.said()).toEqual(["work: task in 1", FAILED, FAILED, FAILED]);
  });

  it("continues in the same conversation, also after a kill, or in another one", async () => {
    await open(step(), stateless(effect("a"), refuse(401, effect("b")), DONE));
    const failed = await project.finish(["run", "p.yaml"]);
    const id = await project.newestId();
    const kept = new KeptProject(project);
    onTestFinished(() => kept.forget());
    await continues(failed, { status: 401, advice: LOGIN });
    expect(project.effects()).toEqual({ a: 1, b: 1 });
    expect(await project.said()).toEqual(["work: task in 1", FAILED]);

    // The attempt that learned of it is killed: the next one learns of it as well.
    await project.remove();
    kept.putBack();
    project.model.play(stateless(effect("a"), stall("accept", effect("b")), DONE));
    const runner = project.begin(["resume", id]);
    await project.model.stalled();
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.release();
    let asked = project.model.requests("work").length;
    good(await project.finish(["resume"]));
    expect(project.effects()).toEqual({ a: 1, b: 1 });
    expect((await project.said()).at(-1)).toBe("work: interrupted in 1");
    expect(requestAfter(asked)).toContain("You were interrupted");
    expect(requestAfter(asked)).toContain("the script says 401");

    // A person asks for another conversation.
    await project.remove();
    kept.putBack();
    project.model.play(stateless(effect("a"), effect("b"), DONE));
    good(await project.finish(["resume", id, "--recover", "restart"]));
    expect(await project.said()).toEqual(["work: task in 1", "work: task in 2"]);
    expect(JSON.stringify(project.model.requests("work").at(-1))).not.toContain("failed (agent)");

    // The conversation is gone: another one learns what failed, and the terminal says so.
    await project.remove();
    kept.putBack();
    fs.rmSync(project.path("config", "projects", "here"), { recursive: true });
    fs.mkdirSync(project.path("config", "projects", "here"));
    asked = project.model.requests("work").length;
    const resumed = await project.finish(["resume", id]);
    good(resumed);
    expect(await project.said()).toEqual(["work: task in 1", "work: task in 2"]);
    expect(resumed.stdout).toContain("in a new conversation: its last attempt failed, and its");
    expect(requestAfter(asked)).toContain("the script says 401");
    expect(requestAfter(asked)).toContain("What was done before is in the files");
  });
});

describe("a limit", () => {
  it("of time keeps the conversation, whether the agent is busy or idle", async () => {
    await open(
      `steps:
  - { id: slow, agent: claude, prompt: Do this., needs: [], timeout: 2s }
  - { id: idle, agent: claude, prompt: Do that., needs: [], idle_timeout: 1s }
`,
      when("Do this", effect("a"), stall("accept", effect("b")), DONE),
      when("Do that", effect("c"), stall("accept", effect("d")), DONE),
    );
    const failed = await project.finish(["run", "p.yaml"]);
    expect(failed.exit).toBe(5);
    expect(failed.stdout).toContain("it wrote nothing for 1.0s");
    expect(project.stepProcesses()).toEqual([]);
    project.model.release();
    const asked = project.model.requests("work").length;
    good(await project.finish(suggested(failed)));

    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1, d: 1 });
    const said = await project.said();
    expect(said.slice(0, 2).toSorted()).toEqual(["idle: task in 2", "slow: task in 1"]);
    expect(said.slice(2).toSorted()).toEqual(["idle: failed in 2", "slow: failed in 1"]);
    for (const request of project.model.requests("work").slice(asked)) {
      expect(JSON.stringify(request)).toContain("The last attempt at this task failed");
    }
  });

  it("of turns asks a person for more, and then continues", async () => {
    await open(
      step("max_turns: 2, retry: 3"),
      stateless(effect("a"), effect("b"), effect("c"), DONE),
    );
    const failed = await project.finish(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain("it used up all of its 2 turns (max_turns)");
    expect(failed.stdout).toContain("Grant more turns and continue: perdure resume");
    const refused = await project.finish(["resume", ...(await project.runIds())]);
    expect(refused.exit).toBe(3);
    expect(suggested(refused)).toEqual(suggested(failed));
    good(await project.finish(suggested(failed)));

    expect(project.effects()).toEqual({ a: 1, b: 1, c: 1 });
    expect(await project.said()).toEqual(["work: task in 1", "work: failed in 1"]);
    expect(JSON.stringify(project.model.requests("work").at(-1))).toContain(
      "you may answer 20 more times",
    );
  });
});

describe("a failed check", () => {
  const CHECK = "cat words; test $(wc -l < words) -ge 3";
  const yaml = (more: string): string => `
workspace: worktree
steps:
  - id: work
    agent: claude
    prompt: Do it.
    check: ${CHECK}
    retry: { attempts: 3, backoff: 1ms${more} }
`;

  async function openRepository(more: string, ...scripts: readonly Script[]): Promise<void> {
    await open(yaml(more), ...scripts);
    userGit(project.dir, "init", "-q", "-b", "main");
    project.write(".gitignore", "config\nbin\n");
    userGit(project.dir, "add", ".gitignore", "p.yaml");
    userGit(project.dir, "commit", "-q", "-m", "begin");
  }

  const word = (name: string): Reply => shell(`echo ${name} >> words`);

  it("is reported to the agent in the same conversation and in the same files", async () => {
    // Each attempt adds a word, and says that it is done.
    const attempts = ["one-word", "two-words", "three"].flatMap((name) => [word(name), text(name)]);
    await openRepository("", queue(...attempts));
    good(await project.finish(["run", "p.yaml"]));
    expect(await project.said()).toEqual([
      "work: task in 1",
      "work: failed in 1",
      "work: failed in 1",
    ]);
    const asked = JSON.stringify(project.model.requests("work").at(-1));
    expect(asked).toContain("The check is this command");
    expect(asked).toContain("exited with status 1");
    expect(asked).toContain("one-word");
  });

  it("continues with `perdure retry`, in the same files", async () => {
    const attempts = ["one", "two", "three", "four"].flatMap((name) => [word(name), text(name)]);
    await openRepository("", queue(...attempts));
    project.write("p.yaml", yaml("").replace("-ge 3", "-ge 4"));
    expect((await project.finish(["run", "p.yaml"])).exit).toBe(3);
    const [id = ""] = await project.runIds();
    good(await project.finish(["retry", id, "work"]));
    expect((await project.said()).slice(1)).toEqual(Array.from({ length: 3 }, () => FAILED));
    const log = project.path(".perdure", "runs", id, "attempts", "work@1.4", "check.log");
    expect(fs.readFileSync(log, "utf8")).toBe("one\ntwo\nthree\nfour\n");
  });

  it("includes a missing output", async () => {
    await open(
      step("outputs: { notes: notes.md }"),
      queue(effect("a"), text("Done."), write("notes.md", "Notes"), text("Now it is done.")),
    );
    const failed = await project.finish(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    good(await project.finish(suggested(failed)));
    expect(await project.said()).toEqual(["work: task in 1", FAILED]);
    expect(project.effects()).toEqual({ a: 1 });
    const asked = JSON.stringify(project.model.requests("work").at(-1));
    expect(asked).toContain("failed (output): it wrote no output");
  });

  it("starts a new conversation in the original files if the author wants that", async () => {
    await openRepository(", conversation: fresh", stateless(word("one-word"), text("Done.")));
    const failed = await project.finish(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(await project.said()).toEqual(["work: task in 1", "work: task in 2", "work: task in 3"]);
    const [id = ""] = await project.runIds();
    const log = project.path(".perdure", "runs", id, "attempts", "work@1.3", "check.log");
    expect(fs.readFileSync(log, "utf8")).toBe("one-word\n");
  });
});

describe("another conversation", () => {
  it("continues one that is too long for the model, with notes from its transcript", async () => {
    await open(
      step(),
      when("handed it over", effect("b"), DONE),
      stateless(effect("a"), times("always", overflow())),
    );
    const done = await project.finish(["run", "p.yaml"]);
    good(done);
    expect(project.effects()).toEqual({ a: 1, b: 1 });
    expect(await project.said()).toEqual(["work: task in 1", "work: relayed in 2"]);
    expect(done.stdout).toContain("relay: { at: 70% }");
    const asked = JSON.stringify(project.model.requests("work").at(-1));
    expect(asked).toContain("Bash: echo a >> effects (succeeded)");
  });

  it("does not help if the prompt itself is too long", async () => {
    await open(step(), stateless(times("always", overflow())));
    const failed = await project.finish(["run", "p.yaml"]);
    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain("Shorten the prompt or choose a larger model, then continue");
    expect(project.model.requests("work")).toHaveLength(1);
  });
});

describe("a shared session", () => {
  it("learns which of its steps failed", async () => {
    await open(
      `
defaults: { agent: claude }
steps:
  - { id: plan, prompt: Make a plan., session: main }
  - { id: build, prompt: Follow the plan., session: main }
`,
      when("Follow the plan", refuse(401, effect("built")), DONE),
      stateless(text("The plan is to win.")),
    );
    expect((await project.finish(["run", "p.yaml"])).exit).toBe(3);
    good(await project.finish(["resume", ...(await project.runIds())]));
    expect((await project.said()).slice(1)).toEqual(["build: task in 1", "build: failed in 1"]);
    expect(JSON.stringify(project.model.requests("work").at(-1))).toContain("the script says 401");
    expect(project.effects()).toEqual({ built: 1 });
  });
});

describe("the first signal", () => {
  it("lets an agent finish its call and its tool", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("tool");
    project.model.play(
      stateless(
        shell(`${hold.command}; echo a >> effects`),
        stall("accept", write("late", "?")),
        DONE,
      ),
    );
    project.write("p.yaml", step("grace: 60s"));
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    runner.child.kill("SIGINT");
    await runner.printed("agents may finish their current call first");
    await hold.release();
    const stopped = await runner.ended;

    expect(stopped.exit, stopped.stdout).toBe(130);
    expect(project.effects()).toEqual({ a: 1 });
    const [interrupted] = await project.events("step.interrupted");
    expect(interrupted?.tool).toMatchObject({ name: "Bash", ok: true });
    expect(project.stepProcesses()).toEqual([]);
  });

  it("is followed by a second one that does not wait", async () => {
    project = await FakeClaude.open();
    const hold = project.hold("tool");
    project.model.play(stateless(shell(hold.command), DONE));
    project.write("p.yaml", step("grace: 1h"));
    const runner = project.begin(["run", "p.yaml"]);
    await hold.arrived();
    runner.child.kill("SIGINT");
    await runner.printed("agents may finish their current call first");
    const stopped = await runner.kill("SIGINT");
    expect(stopped.exit, stopped.stdout).toBe(130);
    expect(project.stepProcesses()).toEqual([]);
  });
});
