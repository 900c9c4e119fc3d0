/**
 * Journals that earlier programs wrote (scripts/fixture-journal.ts) open and resume: finished steps
 * do not run again, and unfinished ones do.
 */
import { chmodSync, copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Project } from "../rig/project.ts";

const STORED = join(import.meta.dirname, "..", "journals", "resume");

let project: Project;
beforeEach(() => {
  project = new Project();
});
// A later core may decide an old turn in another way, so the recorded facts are not decided again.
afterEach(() => project.discard());

interface ListedRun {
  readonly pipeline_id: string;
  readonly status: string;
  readonly input: { readonly name: string };
}

async function listed(): Promise<ReadonlyMap<string, ListedRun>> {
  const text = await project.must(["list", "runs", "--output", "json"]);
  const runs = JSON.parse(text) as readonly ListedRun[];
  return new Map(runs.map((run) => [run.input.name, run]));
}

/** A project that has nothing but the journal and the output that the runs passed on. */
function moveIn(name: string): void {
  mkdirSync(project.path(".perdure"), { mode: 0o700 });
  copyFileSync(join(STORED, name), project.path(".perdure", "state.db"));
  chmodSync(project.path(".perdure", "state.db"), 0o600);
  mkdirSync(project.path("out"));
  project.write("out/app.txt", "app\n");
  project.write("ready", "");
}

describe.each(readdirSync(STORED))("the journal %s", (name) => {
  it("lists its runs", async () => {
    moveIn(name);
    const statuses = Array.from(await listed(), ([run, { status }]) => [run, status]);
    expect(Object.fromEntries(statuses)).toEqual({
      waiting: "waiting",
      failed: "failed",
      interrupted: "interrupted",
    });
  });

  it.each(["failed", "interrupted"])("resumes the run that is %s", async (which) => {
    moveIn(name);
    const id = (await listed()).get(which)?.pipeline_id ?? "";
    await project.must(["resume", id]);
    expect(project.effects()).toEqual({ deploy: 1 });
    expect((await listed()).get(which)?.status).toBe("completed");
  });

  it("takes the answer to an open question and resumes", async () => {
    moveIn(name);
    const id = (await listed()).get("waiting")?.pipeline_id ?? "";
    await project.must(["answer", id, "review", "approve"]);
    await project.must(["resume", id]);
    expect(project.effects()).toEqual({ deploy: 1 });
    expect((await listed()).get("waiting")?.status).toBe("completed");
  });
});
