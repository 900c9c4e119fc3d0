/**
 * `resume --update` is killed at each of its failpoints. Whatever the point, the run is then updated
 * or it is not; the same command again brings it to the end of an uninterrupted update:
 * the same effects, the same plan, the same files.
 */
import * as fs from "node:fs";
import { afterEach, expect, it } from "vitest";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { type KillPlace, killAtEach } from "../rig/kill-walk.ts";
import { WALK_MS } from "../rig/patience.ts";
import { eventually, Project, type Result } from "../rig/project.ts";
import { storedRuns } from "./canonical.ts";

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

interface Update {
  readonly result: Result;
  /** The names of the failpoints that it passed. */
  readonly passed: readonly string[];
}

async function update(project: Project, place?: string): Promise<Update> {
  const log = `${project.dir}-failpoints`;
  const env = { PERDURE_FAILPOINT_LOG: log };
  const id = (await storedRuns(project))[0]?.runId ?? "none";
  const result = await project.run(["resume", id, "--update", "--yes"], {
    env: place === undefined ? env : { ...env, PERDURE_FAILPOINT: place },
  });
  const passed = fs.readFileSync(log, "utf8").trim().split("\n");
  fs.rmSync(log);
  return { result, passed };
}

/** Where to strike: from the first process on it is a resume like any other (crash.test.ts). */
function placesAmong(passed: readonly string[]): readonly KillPlace[] {
  const ours = passed.slice(0, passed.indexOf("engine.launch") + 1);
  const places = ours.map((name, index) => ({ name, nth: index + 1 }));
  return CRASH_ALL ? places : places.filter(({ name, nth }) => ours.indexOf(name) === nth - 1);
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
  "a run is either updated or unchanged, wherever the update is killed",
  async () => {
    const whole = await failedRun();
    const { result, passed } = await update(whole);
    expect(result.exit).toBe(0);
    const expected = await remains(whole);
    expect(whole.effects()).toEqual({ first: 1, second: 1, third: 2, "second-new": 1, 1: 1 });
    const places = placesAmong(passed);
    expect(places.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["update.recorded", "journal.append.inside"]),
    );
    await killAtEach(places, async (body) => {
      const project = await failedRun();
      await body({
        drive: async (place, where) => {
          const { result: driven, passed: until } = await update(project, place);
          if (driven.signal === "SIGKILL") return until.at(-1);
          expect([where, driven.exit, driven.stderr]).toEqual([where, 0, ""]);
          return undefined;
        },
        check: async (where) => {
          expect([where, await remains(project)]).toEqual([where, expected]);
        },
      });
    });
  },
  WALK_MS,
);
