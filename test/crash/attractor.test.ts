/**
 * A DOT-like graph with branches and a restart, killed at failpoints and resumed: every step has the
 * effects that it has in an uninterrupted run, and the run ends in the same way.
 *
 * The test needs no pipeline file: it stores the plan in the journal.
 */
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { afterEach, expect, it } from "vitest";
import { createProject } from "../../src/app/project/project.ts";
import { initialSummary } from "../../src/core/summary.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";
import { graphOf, planOf, type StepChanges } from "../core/plans.ts";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project, type Result } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

/** Of the failpoints of a run, one of so many is a place to kill it. */
const STRIDE = 61;
const FAILPOINTS_MAX = 500;

const projects: Project[] = [];
afterEach(async () => {
  for (const project of projects.splice(0)) await project.remove();
});

function shell(run: string): StepChanges {
  return { work: { kind: "shell", run }, join: "any", split: "one", visitsMax: 3 };
}

/** `again` restarts the graph at the branches, once; the key `kept` survives that. */
function attractorPlan(): Plan {
  const effect = (name: string): string => `echo ${name} >> effects`;
  const status = `> "$PERDURE_STATUS_FILE"`;
  const left = graphOf("x>z", {
    x: shell(`${effect("x")}; echo mine=left >> "$PERDURE_CONTEXT"`),
    z: shell(`${effect("z-${{ context.mine }}")}`),
  });
  const right = graphOf("y", {
    y: shell(`${effect("y")}; echo '{"outcome": "fail", "notes": "no"}' ${status}`),
  });
  const branches = [
    { id: "left", graph: left },
    { id: "right", graph: right },
  ];
  const plan = planOf(
    "s>par par>pick pick>again again>par again>end",
    {
      s: shell(`${effect("s")}; echo kept=1 >> "$PERDURE_CONTEXT"`),
      par: {
        ...shell(""),
        work: { kind: "branches", branches, maxParallel: 2, policy: "wait_all" },
      },
      pick: { ...shell(""), work: { kind: "pick" } },
      again: shell(
        `${effect("again")}; test "$PERDURE_VISIT" = 2 || echo '{"outcome": "more"}' ${status}`,
      ),
      end: shell(effect('end-${{ context.kept }}-${{ "mine" in context }}')),
    },
    { keys: "attractor", context: { "graph.goal": "done" } },
  );
  const edges = plan.graph.edges.map((edge) =>
    edge.back ? { ...edge, condition: 'outcome == "more"', restart: { keep: ["kept"] } } : edge,
  );
  return { ...plan, graph: { ...plan.graph, edges } };
}

/** A project with a run that has not begun. */
async function created(): Promise<Project> {
  const project = new Project();
  projects.push(project);
  project.write("graph.yaml", "");
  const plan = attractorPlan();
  const { text, fingerprint } = freeze(plan);
  const { journal } = await createProject(project.dir);
  await journal.log.create({
    runId: randomUUID(),
    planText: text,
    created: {
      type: "run.created",
      pipeline: "graph",
      file: project.path("graph.yaml"),
      fingerprint,
      input: null,
      args: [],
      cwd: project.dir,
      envNames: [],
    },
    time: Date.now(),
    summary: initialSummary(plan),
  });
  await journal.close();
  return project;
}

async function resume(project: Project, nth?: number): Promise<Result> {
  const env = { PERDURE_FAILPOINT_LOG: `${project.dir}-failpoints` };
  const id = (await storedRuns(project))[0]?.runId ?? "none";
  return project.run(["resume", id], {
    env: nth === undefined ? env : { ...env, PERDURE_FAILPOINT: String(nth) },
  });
}

async function remains(project: Project): Promise<unknown> {
  await eventually("no step is left", () => project.stepProcesses().length === 0);
  expect(checkJournal(project.path(".perdure", "state.db"))).toEqual([]);
  const [run] = await storedRuns(project);
  const restarts = run?.events.filter(({ event }) => event.type === "run.restarted");
  return {
    status: run?.status,
    steps: run?.steps,
    restarts: restarts?.map(({ event }) => event),
    effects: project.effects(),
  };
}

it(
  "a DOT pipeline of the attractor language has the same effects wherever it is killed",
  async () => {
    const whole = await created();
    const first = await resume(whole);
    expect([first.exit, first.stderr]).toEqual([0, ""]);
    const expected = await remains(whole);
    expect(whole.effects()).toEqual({
      ...{ s: 1, x: 2, "z-left": 2, y: 2, again: 2, "end-1-false": 1 },
    });
    expect(expected).toMatchObject({ restarts: [{ step: "par", number: 1, keep: ["kept"] }] });
    fs.rmSync(`${whole.dir}-failpoints`);
    for (let nth = 2; ; nth += STRIDE) {
      expect(nth, "the walk comes to an end").toBeLessThan(FAILPOINTS_MAX);
      const project = await created();
      const killed = await resume(project, nth);
      const names = fs.readFileSync(`${project.dir}-failpoints`, "utf8").trim().split("\n");
      const where = `killed at ${names.at(-1)} (failpoint ${nth})`;
      const again = killed.signal === "SIGKILL" ? await resume(project) : killed;
      fs.rmSync(`${project.dir}-failpoints`);
      expect([where, again.exit, again.stderr]).toEqual([where, 0, ""]);
      expect([where, await remains(project)]).toEqual([where, expected]);
      await project.remove();
      if (killed.signal !== "SIGKILL") break;
    }
  },
  WALK_MS,
);
