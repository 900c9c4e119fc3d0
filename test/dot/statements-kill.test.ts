/**
 * Section 5.3 of the specification with kill -9: a run that is killed in every kind of node and
 * resumed each time repeats nothing that was completed. One graph has a node of each kind, which
 * waits for the test; it runs twice: the runner alone is killed, or the processes of its stages too.
 * (Timers and the cycles of a manager: nodes.test.ts and early-end.test.ts. Conversations:
 * test/cli/fidelity.test.ts.)
 */
import { afterAll, beforeAll, describe, expect } from "vitest";
import { bad, Play } from "../core/play.ts";
import { WALK_MS } from "../rig/patience.ts";
import type { Hold, Program } from "../rig/project.ts";
import { type Checkpoint, DotProject, tool } from "./rig.ts";
import { decided, graph, planOf, statement, tools } from "./statement.ts";

/** The nodes in which the run is killed, in their order, and the kind that each stands for. */
const PLACES = {
  again: "a tool after loop_restart",
  work: "a tool",
  ask: "an agent",
  b2: "a branch, beside one that is completed",
  j: "the agent of a fan-in",
  inner: "the child of a manager",
  third: "the third attempt of a tool",
  last: "a node to which a missed goal has led back",
} as const;
type Place = keyof typeof PLACES;
const NAMES = Object.keys(PLACES) as Place[];

/** How often the node with a hold gets there without an interruption: the last time is held. */
const COMES = { again: 2, third: 3, last: 2 } as const satisfies Partial<Record<Place, number>>;

class KilledRun {
  readonly project = new DotProject();
  readonly #holds: ReadonlyMap<Place, Hold>;
  readonly #all: boolean;
  exit: number | null = null;

  constructor(all: boolean) {
    this.#all = all;
    this.#holds = new Map(NAMES.map((name) => [name, this.project.hold(name)]));
  }

  /** Shell text: counts its start, waits the n-th time, counts its end. */
  #waits(name: Place): string {
    const nth = name in COMES ? COMES[name as keyof typeof COMES] : 1;
    const count = `$(grep -c '^${name}$' effects)`;
    const hold = `if [ "${count}" -ge ${nth} ]; then ${this.#holds.get(name)?.command}; fi`;
    return `${this.project.effect(name)}; ${hold}; ${this.project.effect(`${name}-done`)}`;
  }

  #graph(): string {
    const { project } = this;
    const round = "echo round=$(grep -c '^again-done$' effects) >> $PERDURE_CONTEXT";
    const agents = (["ask", "j"] as const).map((name) => `${name}) ${this.#waits(name)} ;;`);
    project.agent(`cd '${project.dir}'; case $ATTRACTOR_NODE_ID in ${agents.join("\n")} esac`);
    project.graph(`${tool("inner", this.#waits("inner"))} start -> inner -> exit`, "child.dot");
    const third = `${this.#waits("third")}; test $(grep -c '^third$' effects) -ge 3`;
    return project.graph(`loop_restart_persist_keys="round"; d [shape=diamond]
      ${tool("again", `${this.#waits("again")}; ${round}`)} ${tool("work", this.#waits("work"))}
      ask [prompt="Do it."]; h [shape=hexagon, label="Go on?"]; f [shape=component]
      ${tool("b1", project.effect("b1"))} ${tool("b2", this.#waits("b2"))}
      j [shape=tripleoctagon, prompt="Which?"]; m [shape=house, stack.child_dotfile="child.dot"]
      ${tool("third", third, "max_retries=2")} ${tool("last", this.#waits("last"))}
      ${tool("check", `test $(grep -c '^last-done$' effects) -ge 2`, "goal_gate=true, retry_target=last")}
      start -> again -> d; d -> again [condition="context.round=1", loop_restart=true]
      d -> work [condition="context.round!=1"]; work -> ask -> f; f -> b1 -> j; f -> b2 -> j
      j -> h; h -> m [label="Yes"]; h -> exit [label="No"]; m -> third -> last -> check -> exit
      check -> exit [condition="outcome=fail"]`);
  }

  #begin(...args: readonly string[]): Program {
    return this.project.begin([...args, "--logs", "out", "--stay"]);
  }

  async #kill(runner: Program): Promise<void> {
    await runner.kill("SIGKILL");
    if (!this.#all) return;
    await this.project.killSteps();
  }

  /** Runs the graph; kills and resumes it at each place, and at the gate. */
  async run(): Promise<this> {
    let runner = this.#begin("run", this.#graph());
    for (const [name, hold] of this.#holds) {
      if (name === "inner") {
        await runner.printed("h asks");
        await this.#kill(runner);
        await this.project.must(["answer", await this.project.newestId(), "h", "Yes"]);
        runner = this.#begin("resume");
      }
      await hold.arrived();
      await this.#kill(runner);
      if (name === "work") this.#editCheckpoint();
      runner = this.#begin("resume");
      await hold.release();
    }
    this.exit = (await runner.ended).exit;
    return this;
  }

  #editCheckpoint(): void {
    const { checkpoint } = this;
    const context = { ...checkpoint.context, edited: "yes" };
    this.project.write("out/checkpoint.json", JSON.stringify({ ...checkpoint, context }));
  }

  get checkpoint(): Checkpoint {
    return JSON.parse(this.project.read("out", "checkpoint.json")) as Checkpoint;
  }
}

describe.each([
  ["the runner", false],
  ["the runner and its stages", true],
] as const)("kill -9 of %s", (_who, all) => {
  let killed: KilledRun;
  beforeAll(async () => {
    killed = await new KilledRun(all).run();
  }, WALK_MS);
  afterAll(() => killed.project.remove());

  for (const [name, kind] of Object.entries(PLACES)) {
    statement("5.3", `in ${kind}: it is completed once`, () => {
      const comes = name in COMES ? COMES[name as keyof typeof COMES] : 1;
      const { [name]: starts, [`${name}-done`]: ends } = killed.project.effects();
      // A stage whose process is dead starts again; one that lives is not started twice.
      expect([starts, ends]).toEqual([comes + (all ? 1 : 0), comes]);
    });
  }

  statement("5.3", "while a gate waits: the answer that came meanwhile counts", () => {
    expect(killed.checkpoint.context["human.gate.label"]).toBe("Yes");
  });
  statement("5.3", "in a branch: the branch that was completed does not run again", () => {
    expect(killed.project.effects().b1).toBe(1);
  });
  statement("5.3", "again and again: the run comes to its exit", () => {
    expect([killed.exit, killed.checkpoint.perdure.status]).toEqual([0, "completed"]);
    expect(killed.checkpoint.current_node).toBe("exit");
  });
  statement("2.7", "after loop_restart: restart-1 has the files of the new round", () => {
    expect(killed.project.exists("out", "restart-1", "work", "status.json")).toBe(true);
    expect(killed.project.exists("out", "work", "status.json")).toBe(false);
  });
  decided("5.3", "checkpoint", "an edit of checkpoint.json does not count", () => {
    expect(killed.checkpoint.context).not.toHaveProperty("edited");
  });
});

describe("a kill between two attempts", () => {
  statement("5.3", "keeps the attempts that were used", () => {
    const text = graph(`${tools("a[max_retries=2]")} start -> a -> exit`);
    const play = new Play(planOf(text)).open().end("a", bad);
    expect(play.running()).toEqual([]);
    play.open().finish(() => bad);
    expect(play.launched).toEqual(["a@1.1", "a@1.2", "a@1.3"]);
    expect(play.status).toBe("failed");
  });
});
