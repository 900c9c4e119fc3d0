/**
 * `resume --update` is killed at its first, second, third... failpoint. Whatever the point, the run is
 * then updated or it is not; the same command again brings it to the end of an uninterrupted update:
 * the same effects, the same plan, the same files.
 */
import * as fs from "node:fs";
import { afterEach, expect, it } from "vitest";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project, type Result } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

/** More failpoints than an update of this pipeline passes. */
const FAILPOINTS_MAX = 300;

const projects: Project[] = [];
afterEach(async () => {
  for (const project of projects.splice(0)) await project.remove();
});

/** Four steps; the second is edited, the last is renamed, and the first stays what it is. */
function pipeline(edited: boolean): string {
  return `workspace: { snapshots: false }
steps:
  - id: first
    run: echo first >> effects; echo n=1 >> "$PERDURE_CONTEXT"
  - id: second
    run: echo ${edited ? "second-new" : "second"} >> effects
  - id: third
    run: echo third >> effects; test -e go
  - id: ${edited ? "end" : "last"}
    run: echo \${{ context.n }} >> effects
`;
}

/** A run that failed at its third step, and the file as it was edited since. */
async function failedRun(): Promise<Project> {
  const project = new Project();
  projects.push(project);
  project.write("p.yaml", pipeline(false));
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  project.write("p.yaml", pipeline(true));
  project.write("go", "");
  return project;
}

async function update(project: Project, nth?: number): Promise<Result> {
  const env = { PERDURE_FAILPOINT_LOG: `${project.dir}-failpoints` };
  const id = (await storedRuns(project))[0]?.runId ?? "none";
  return project.run(["resume", id, "--update", "--yes"], {
    env: nth === undefined ? env : { ...env, PERDURE_FAILPOINT: String(nth) },
  });
}

/** What an update leaves behind that must not depend on where it was killed. */
async function remains(project: Project): Promise<unknown> {
  await eventually("no step is left", () => project.stepProcesses().length === 0);
  expect(checkJournal(project.path(".perdure", "state.db"))).toEqual([]);
  const [run] = await storedRuns(project);
  const root = project.path(".perdure", "runs", run?.runId ?? "");
  const copy = readEventsFile(`${root}/events.jsonl`);
  expect(copy.events).toEqual(run?.events);
  const updates = run?.events.filter(({ event }) => event.type === "run.updated");
  return {
    status: run?.status,
    steps: run?.steps,
    updates: updates?.map(({ event }) => event),
    effects: project.read("effects"),
    plans: fs.readdirSync(`${root}/plans`).toSorted(),
    plan: fs.readFileSync(`${root}/plan.json`, "utf8"),
  };
}

it(
  "is updated or not, wherever it is killed",
  async () => {
    const whole = await failedRun();
    expect((await update(whole)).exit).toBe(0);
    const expected = await remains(whole);
    expect(whole.effects()).toEqual({ first: 1, second: 1, third: 2, "second-new": 1, 1: 1 });
    const seen = new Set<string>();
    for (let nth = 1; ; nth++) {
      expect(nth, "the walk comes to an end").toBeLessThan(FAILPOINTS_MAX);
      const project = await failedRun();
      const result = await update(project, nth);
      const log = `${project.dir}-failpoints`;
      const names = fs.readFileSync(log, "utf8").trim().split("\n");
      fs.rmSync(log);
      seen.add(names.at(-1) ?? "");
      const where = `killed at ${names.at(-1)} (failpoint ${nth})`;
      expect([where, result.signal]).toEqual([where, "SIGKILL"]);
      const again = await update(project);
      fs.rmSync(log, { force: true });
      expect([where, again.exit, again.stderr]).toEqual([where, 0, ""]);
      expect([where, await remains(project)]).toEqual([where, expected]);
      await project.remove();
      // From the first process on it is a resume like any other, which crash.test.ts walks through.
      if (names.at(-1) === "engine.launch") break;
    }
    fs.rmSync(`${whole.dir}-failpoints`);
    expect(seen).toContain("update.recorded");
    expect(seen).toContain("journal.append.inside");
  },
  WALK_MS,
);
