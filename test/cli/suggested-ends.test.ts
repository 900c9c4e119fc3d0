/**
 * The suggestions at the end of a run work: each command is run as printed, after doing what the
 * words before it say, and succeeds. (Runs that an agent ended: suggested-agents.test.ts.)
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { expect, it } from "vitest";
import type { FailureReason, RunEvent, StopReason } from "../../src/core/event.ts";
import {
  type Hold,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";
import {
  type AgentReason,
  follow,
  SHOW_CODES,
  type Situation,
  suggestions,
} from "../rig/suggestion.ts";

let project: Project;

const SITE = {
  open: () => {
    project = new PlainProject();
  },
  perdure: (words: readonly string[]) => project.run(words, { env: SHOW_CODES }),
  project: () => project,
  close: () => project.remove(),
};

const GOOD = '{ id: one, run: "true" }';

function write(step: string, head = "workspace: { snapshots: false }"): void {
  project.write("p.yaml", `${head}\nsteps:\n  - ${step.trim()}\n`);
}

/** A run of one step, which fails until there is a file `ready`. */
function untilReady(step: string): Situation {
  return {
    meet: () => {
      write(step);
      return project.run(["run", "p.yaml"]);
    },
    first: getReady,
  };
}

/** A run of one step, which an edit of the file corrects. */
function untilEdited(step: string, edited: string): Situation {
  return {
    ...untilReady(step),
    first: (words) => (words.includes("--update") ? write(edited) : undefined),
  };
}

const getReady = (): void => {
  project.write("ready", "");
};

/** A command that reports this unless there is a file `ready`. */
const reports = (text: string): string =>
  JSON.stringify(`test -e ready || echo '${text}' > "$PERDURE_STATUS_FILE"`);
const SLOW = "test -e ready || sleep 1000";

/** A pipeline of the DOT language, which fails until there is a file `ready`. */
function dot(body: string): Situation {
  return {
    meet: () => {
      project.write("p.dot", `digraph p { start [shape=Mdiamond]; exit [shape=Msquare]\n${body} }`);
      return project.run(["run", "p.dot"]);
    },
    first: getReady,
  };
}

const TOOL = 'shape=parallelogram, tool_command="test -e ready"';

/** A loop that a failing step keeps going; it says this each time. */
const loop = (words: string): string =>
  `{ id: test, run: "${words}; test -e ready", on_failure: fix }
  - { id: done, run: "true", goto: end }
  - { id: fix, run: "true", goto: test }
  - { id: end, run: "true" }`;

/** Gives the answer to the gate of a run, which then ends by it. */
async function answered(choice: string): Promise<Result> {
  write("{ id: ok, gate: { ask: ship it? } }");
  await project.run(["run", "p.yaml"]);
  const id = await project.newestId();
  await project.must(["answer", id, "ok", choice]);
  return project.run(["resume", id]);
}

const GOAL = "{ id: one, goal: true, run: test -e ready, on_failure: continue }";

/** Failures that a step can have behind another one: `resume` leads from each to the next. */
type Chained =
  | "reported"
  | "retry"
  | "status"
  | "check"
  | "output"
  | "context"
  | "timeout"
  | "idle"
  | "no-edge";

/** Their steps, which fail until there is a file `ready` of their own. */
const CHAIN: Readonly<Record<Chained, string>> = {
  reported: `run: ${reports('{"outcome":"fail"}')}`,
  retry: `run: ${reports('{"outcome":"retry"}')}`,
  status: `run: ${reports("no JSON")}`,
  check: 'run: "true", check: test -e ready',
  output: `run: "! test -e ready || echo > a", outputs: { a: a }`,
  context: `run: 'test -e ready || echo "{" > "$PERDURE_CONTEXT"'`,
  timeout: `run: ${SLOW}, timeout: 100ms`,
  idle: `run: ${SLOW}, idle_timeout: 100ms`,
  "no-edge": `run: '! test -e ready || echo go=yes > "$PERDURE_CONTEXT"',
      edges: [{ to: end, when: context.go == 'yes' }]`,
};

it("resumes past several failures, one after the other", async () => {
  SITE.open();
  try {
    const steps = Object.entries(CHAIN).map(([reason, keys]) => {
      return `{ id: ${reason}, ${keys.replaceAll("test -e ready", `test -e ready-${reason}`)} }`;
    });
    write([...steps, '{ id: end, run: "true" }'].join("\n  - "), "context: { go: no }");
    let met = await project.run(["run", "p.yaml"]);
    const reasons = Object.keys(CHAIN);
    for (const [index, reason] of reasons.entries()) {
      const story = met.stdout + met.stderr;
      const failed = (await events("step.failed")).at(-1);
      expect(failed, story).toMatchObject({ step: reason, reason });
      const id = (await project.newestId()).slice(0, 8);
      // The failure `exit` suggests and runs the others as well.
      const known = [`logs ${id} ${reason}`, `resume ${id}`, `skip ${id} ${reason}`];
      const all = suggestions(met).map((words) => words.join(" "));
      expect(all, story).toContain(`resume ${id}`);
      expect(known, story).toEqual(expect.arrayContaining(all));
      project.write(`ready-${reason}`, "");
      met = await project.run(["resume", id], { env: SHOW_CODES });
      const isLast = index === reasons.length - 1;
      expect(isLast ? [0] : [3, 5], met.stdout + met.stderr).toContain(met.exit);
    }
  } finally {
    await SITE.close();
  }
});

/** How each other kind of failure comes about, but those of agents. */
const FAILURES: Readonly<
  Record<Exclude<FailureReason, AgentReason | NotShown | Chained>, Situation>
> = {
  exit: untilReady('{ id: one, run: "test -e ready" }'),
  unanswered: {
    meet: () => {
      write("{ id: one, gate: { ask: ship it?, timeout: 100ms } }");
      return project.run(["run", "p.yaml", "--stay"]);
    },
    exits: [6],
  },
  spawn: {
    meet: () => {
      write("{ id: one, run: pwd, isolate: true }");
      return project.run(["run", "p.yaml"], { env: { PATH: "/nowhere" } });
    },
  },
  declared: untilReady(`{ id: look, run: test -e ready, on_failure: continue }
  - { id: one, when: results.look.status == "failed", fail: no good }`),
  expression: untilEdited('{ id: one, run: "true", when: int(context.number) > 1 }', GOOD),
  restart:
    dot(`b [shape=parallelogram, tool_command="! test -e ready || echo done=yes >> $PERDURE_CONTEXT"]
    start -> b; b -> exit [condition="context.done=yes"]
    b -> b [loop_restart=true, condition="context.done!=yes"]`),
  pick: dot(`p [shape=component]; x [${TOOL}]; y [${TOOL}]; f [shape=tripleoctagon]
    start -> p; p -> x -> f; p -> y -> f; f -> exit`),
  stall: untilReady(loop("echo no")),
  visits: untilReady(loop("echo abcdefghijklmnop | cut -c$PERDURE_VISIT")),
  iterations: untilReady(`{ id: l, loop: { until: results.t.exit == 0, max_iterations: 2 },
      steps: [{ id: t, run: test -e ready, on_failure: continue }] }`),
  goal: untilReady(`{ id: group, steps: [${GOAL}] }`),
  items: untilReady("{ id: one, for_each: [a, b], run: test -e ready }"),
  once: untilReady("{ id: one, once: true, run: test -e ready }"),
  aborted: {
    meet: async () => {
      write("{ id: one, once: true, run: test -e ready }");
      await project.run(["run", "p.yaml"]);
      const id = await project.newestId();
      await project.must(["settle", id, "one", "abort"]);
      return project.run(["resume", id]);
    },
    first: getReady,
  },
  rejected: { meet: () => answered("reject"), exits: [6] },
};

/** Failures that take hours or a gigabyte to bring about. */
type NotShown = "lost" | "output-limit";

it.each(Object.entries(FAILURES))("a failure: %s", async (reason, situation) => {
  const meet = async (): Promise<Result> => {
    const met = await situation.meet();
    const failed = (await events("step.failed")).map((event) => event.reason as string);
    // An effect that may have happened fails its step until a person settles it.
    const uncertain = (await events("step.uncertain")).map(() => "once");
    expect([...failed, ...uncertain]).toContain(reason);
    return met;
  };
  await follow({ ...situation, meet }, SITE);
});

/** A run that is held in its step, and the process that drives it. */
async function held(head = ""): Promise<{ hold: Hold; runner: Program; id: string }> {
  const hold = project.hold("one");
  write(`{ id: one, run: "test -e ready || ${hold.command}" }`, head);
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  return { hold, runner, id: await project.newestId() };
}

let hold: Hold;

/** How each kind of stop comes about, but those of agents. */
const STOPS: Readonly<Record<Exclude<StopReason["code"], "budget"> | "budget time", Situation>> = {
  requested: {
    meet: async () => (await held()).runner.kill("SIGINT"),
    first: getReady,
  },
  "budget time": {
    meet: () => {
      write(`{ id: one, run: ${SLOW} }`, "budget: { time: 100ms }");
      return project.run(["run", "p.yaml"]);
    },
    first: getReady,
  },
  conflict: {
    meet: () => {
      const git = (...words: readonly string[]): void => {
        const who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        execFileSync("git", [...who, ...words], { cwd: project.dir });
      };
      git("init", "-q");
      project.write("shared", "one\n");
      git("add", "shared");
      git("commit", "-qm", "first");
      const edit = "{ id: edit, run: echo $PERDURE_ITEM > shared }";
      write(
        `{ id: map, for_each: [a, b], workspace: own, steps: [${edit}] }`,
        "workspace: worktree",
      );
      return project.run(["run", "p.yaml"]);
    },
    first: async () => {
      const [file = ""] = fs.globSync(project.path(".perdure/runs/*/own/*/shared"));
      fs.writeFileSync(file, "a and b\n");
    },
  },
  forked: {
    meet: async () => {
      write(GOOD);
      await project.run(["run", "p.yaml"]);
      await project.must(["fork", await project.newestId()]);
      return project.run(["why"]);
    },
  },
};

it.each(Object.entries(STOPS))("a stop: %s", async (name, situation) => {
  const meet = async (): Promise<Result> => {
    const met = await situation.meet();
    const codes = (await events("run.stopped")).map(({ reason }) => reason.code as string);
    if (name !== "forked") expect(codes).toContain(name.split(" ")[0]);
    return met;
  };
  await follow({ ...situation, meet }, SITE);
});

const OTHERS: Readonly<Record<string, Situation>> = {
  "a goal that the run has not reached": untilReady(GOAL),
  "a gate": {
    meet: () => {
      write("{ id: ok, gate: { ask: which?, choices: [this, that] } }");
      return project.run(["run", "p.yaml"]);
    },
  },
  "a runner that was killed": {
    meet: async () => {
      const found = await held();
      hold = found.hold;
      await found.runner.kill("SIGKILL");
      return project.run(["why", found.id]);
    },
    during: () => hold.release(),
  },
  "a run that another process drives": {
    meet: async () => {
      const found = await held();
      hold = found.hold;
      return project.run(["why", found.id]);
    },
    during: async (words) => {
      if (words.includes("attach")) await hold.release();
    },
  },
  "an answer that nobody has read yet": {
    meet: async () => {
      write("{ id: ok, gate: { ask: ship it? } }");
      await project.run(["run", "p.yaml"]);
      const id = await project.newestId();
      await project.must(["answer", id, "ok", "approve"]);
      return project.run(["why", id]);
    },
  },
  "a completed run": {
    meet: async () => {
      write(GOOD);
      await project.run(["run", "p.yaml"]);
      return project.run(["why"]);
    },
  },
  "a completed run with failed items": {
    meet: async () => {
      write("{ id: map, for_each: [a, b], on_item_failure: continue, run: test -e ready }");
      return project.run(["run", "p.yaml"]);
    },
    first: getReady,
  },
  "a run whose files were removed": {
    meet: async () => {
      write(GOOD);
      await project.run(["run", "p.yaml"]);
      await project.must(["clean", await project.newestId()]);
      return project.run(["why"]);
    },
  },
  "a step whose attempts are used up, and which resume gives none": untilReady(
    "{ id: one, run: test -e ready, retry: { attempts: 1, on_resume: keep } }",
  ),
};

it.each(Object.entries(OTHERS))("%s", async (_, situation) => follow(situation, SITE));

/** The events of one type in the newest run. */
async function events<T extends RunEvent["type"]>(
  type: T,
): Promise<readonly Extract<RunEvent, { type: T }>[]> {
  const lines = project.read(".perdure", "runs", await project.newestId(), "events.jsonl");
  return lines
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string; data: object })
    .filter((event) => event.type === type)
    .map((event) => ({ type, ...event.data }) as Extract<RunEvent, { type: T }>);
}
