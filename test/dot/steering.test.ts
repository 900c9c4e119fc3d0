/** A manager that steers: its instructions reach the agents at work in its child, each once. */
import { afterEach, describe, expect, it } from "vitest";
import { ok, Play } from "../core/play.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { found, graph, planOf, tools } from "./statement.ts";

const WORDS = "use the other parser";
const ENDS = "start [shape=Mdiamond]; exit [shape=Msquare]";

describe("a manager with manager.actions=steer", () => {
  let project: FakeClaude;
  afterEach(() => project.close());

  async function open(): Promise<void> {
    project = await FakeClaude.open();
    project.write(
      "child.dot",
      `digraph c { ${ENDS}; work [prompt="Do it."]; start -> work -> exit }`,
    );
    const steers = 'manager.actions="observe,steer,wait", manager.poll_interval=10ms';
    const limit = "manager.max_cycles=1000000";
    const says = `manager.steering_message="For $goal: ${WORDS}"`;
    project.write(
      "f.dot",
      `digraph g { goal="the goal"; ${ENDS}; m [shape=house, stack.child_dotfile="child.dot", ${steers}, ${limit}, ${says}]
        start -> m -> exit }`,
    );
  }

  const heard = (): number =>
    JSON.stringify(project.model.requests("work").at(-1)?.body ?? "").split(`the goal: ${WORDS}`)
      .length - 1;

  it("sends its instructions to the agent that works, which continues with them", async () => {
    await open();
    const hold = project.hold("tool");
    project.model.play(
      { ...stateless(shell("echo two >> effects"), text("Done.")), when: WORDS },
      stateless(shell(`echo one >> effects; ${hold.command}`), stall("accept", text("Early."))),
    );
    const runner = project.begin(["run", "f.dot", "--permissions", "all"]);
    await hold.arrived();
    await runner.printed(`"For the goal: ${WORDS}" from m`);
    await hold.release();
    const { exit, stdout } = await runner.ended;
    expect([exit, project.effects()], stdout).toEqual([0, { one: 1, two: 1 }]);
    expect([heard(), stdout.split("message for").length - 1]).toEqual([1, 1]);
    expect(await project.events("step.failed")).toEqual([]);
  });

  it("does so once, also when all is killed before the agent has heard it", async () => {
    await open();
    const hold = project.hold("tool");
    project.model.play(stateless(shell(`echo one >> effects; ${hold.command}`), text("Early.")));
    const runner = project.begin(["run", "f.dot", "--permissions", "all"]);
    await hold.arrived();
    await runner.printed(`${WORDS}" from m`);
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.model.play(stateless(text("Done.")));
    const { exit, stdout } = await project.finish(["resume"]);
    expect([exit, project.effects()], stdout).toEqual([0, { one: 1 }]);
    expect([heard(), (await project.events("run.messaged")).length]).toEqual([1, 1]);
  });
});

describe("the instructions of a manager", () => {
  const child = graph(`work [prompt="Do it."]; ${tools("t")} start -> t -> work
    work -> t [condition="context.seen=red"]; work -> exit`);
  const manager = (more: string): string =>
    graph(`m [shape=house, "stack.child_dotfile"="c.dot", "manager.actions"=steer, ${more}]
      start -> m -> exit`);
  const says = 'prompt="So far: $context.seen", manager.steer_cooldown=10s';

  function played(more: string): Play {
    const play = new Play(planOf(manager(more), {}, { "c.dot": child }));
    play.around = {
      env: {},
      offer: (_, session) => ({ fresh: "s", found: session !== undefined }),
    };
    return play.open();
  }
  const texts = (play: Play): readonly string[] =>
    play.events.flatMap((one) => (one.type === "run.messaged" ? [one.message.text] : []));

  it("are its prompt or its message; a tool gets none, and an agent none before its time", () => {
    const play = played(says);
    play.now += 20_000;
    expect(texts(play.tell())).toEqual([]);
    play.end("m@1.1[0]/t");
    play.now += 9_999;
    expect(texts(play.tell())).toEqual([]);
    play.now += 1;
    expect(texts(play.tell())).toEqual(["So far: "]);
    expect(play.events.filter(({ type }) => type === "run.messaged")).toMatchObject([
      { step: "work", message: { by: "m" } },
    ]);
  });

  it("are sent to each visit once, with the values of that moment", () => {
    const play = played(says).end("m@1.1[0]/t", ok({ seen: "red" }));
    for (let cycle = 0; cycle < 3; cycle++) {
      play.now += 20_000;
      play.tell();
    }
    expect(texts(play)).toEqual(["So far: red"]);
    // The loop comes back to the agent, with other values.
    play.end("m@1.1[0]/work").end("m@1.1[0]/t", ok({ seen: "green" }));
    play.now += 20_000;
    expect(texts(play.tell())).toEqual(["So far: red", "So far: green"]);
  });

  it("are missed where there are none, which is said", () => {
    const text = manager('"manager.poll_interval"=1s');
    expect(found(text, {}, { "c.dot": child })).toEqual(["warning[manager-child]"]);
  });
});
