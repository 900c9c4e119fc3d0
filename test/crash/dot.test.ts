/**
 * A DOT pipeline with a restart and a missed goal that tells itself in a directory (`--logs`), killed
 * around the writing of that directory and all along its way: what it did to the world, and what the
 * directory says in the end, is that of an uninterrupted run.
 */
import * as fs from "node:fs";
import { expect, it } from "vitest";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project, type Result } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

/** Of the failpoints of a run, one of so many is a place to kill it. */
const STRIDE = 67;

const FLOW = `digraph flow {
  loop_restart_persist_keys="round"; retry_target=last
  start [shape=Mdiamond]; exit [shape=Msquare]; again [shape=diamond]
  work [shape=parallelogram, tool_command="echo work >> effects; n=$(grep -c work effects); echo round=$n >> $PERDURE_CONTEXT"]
  last [shape=parallelogram, tool_command="echo last >> effects"]
  check [shape=parallelogram, goal_gate=true, tool_command="echo check >> effects; test $(grep -c check effects) = 2"]
  start -> work -> again
  again -> work [condition="context.round=1", loop_restart=true]
  again -> last [condition="context.round=2"]
  last -> check -> exit
  check -> exit [condition="outcome=fail"]
}`;

async function inProject<T>(body: (project: Project) => Promise<T>): Promise<T> {
  const project = new Project();
  project.write("flow.dot", FLOW);
  try {
    return await body(project);
  } finally {
    fs.rmSync(`${project.dir}-failpoints`, { force: true });
    await project.remove();
  }
}

function go(project: Project, args: readonly string[], nth?: number): Promise<Result> {
  const env = { PERDURE_FAILPOINT_LOG: `${project.dir}-failpoints` };
  return project.run(args, {
    env: nth === undefined ? env : { ...env, PERDURE_FAILPOINT: String(nth) },
  });
}

function failpoints(project: Project): readonly string[] {
  return fs.readFileSync(`${project.dir}-failpoints`, "utf8").trim().split("\n");
}

const RUN = ["run", "flow.dot", "--logs", "out"];

/** What is left: effects, and the files of the directory without ids and times. */
async function remains(project: Project): Promise<unknown> {
  await eventually("no step is left", () => project.stepProcesses().length === 0);
  const files = fs.readdirSync(project.path("out"), { recursive: true, encoding: "utf8" });
  const plain = (text: string): string =>
    text
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<id>")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
      .replaceAll(/"(sequence|attempt)": \d+/g, '"$1": <n>')
      .replaceAll(project.dir, "<dir>");
  const texts = files
    .filter((name) => name.endsWith(".json"))
    .map((name) => [name, plain(project.read("out", name))] as const);
  return { effects: project.effects(), files: Object.fromEntries(texts) };
}

it(
  "a DOT pipeline has the same events and effects wherever it is killed",
  async () => {
    const whole = await inProject(async (project) => {
      const { exit, stderr } = await go(project, RUN);
      expect([exit, stderr]).toEqual([0, ""]);
      return { left: await remains(project), names: failpoints(project) };
    });
    expect(whole.left).toMatchObject({ effects: { work: 2, last: 2, check: 2 } });
    const briefing = whole.names.flatMap((name, at) =>
      name === "attractor-logs.done" ? [at + 1] : [],
    );
    const nths = whole.names.flatMap((_, at) => (at % STRIDE === STRIDE - 1 ? [at + 1] : []));
    for (const nth of new Set([...briefing.slice(0, 1), ...briefing.slice(-2), ...nths])) {
      await inProject(async (project) => {
        const killed = await go(project, RUN, nth);
        const where = `killed at ${failpoints(project).at(-1)} (failpoint ${nth})`;
        expect([where, killed.signal]).toEqual([where, "SIGKILL"]);
        const [run] = await storedRuns(project);
        const known = project.exists("out", "checkpoint.json");
        const resume = known ? ["resume", "--logs", "out"] : ["resume", run?.runId ?? ""];
        const again = await go(project, run === undefined ? RUN : resume);
        expect([where, again.exit, again.stderr]).toEqual([where, 0, ""]);
        expect([where, await remains(project)]).toEqual([where, whole.left]);
      });
    }
  },
  WALK_MS,
);
