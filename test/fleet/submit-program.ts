/**
 * Puts a run into a store for tests: a new one of a pipeline (`submit`), or one of this project that
 * nobody drives (`push`). Prints the run's id.
 *
 *   node submit-program.ts STORE submit FILE
 *   node submit-program.ts STORE push RUN
 */
import { resolve } from "node:path";
import { storeRun } from "../../src/app/fleet/ship.ts";
import { loadRun } from "../../src/app/loaded-run.ts";
import { requirePlan } from "../../src/app/pipeline/pipeline-file.ts";
import { createProject, openProject } from "../../src/app/project/project.ts";
import { createRun } from "../../src/app/start.ts";
import { fullSummary } from "../../src/core/summary.ts";
import { openTestStore } from "./test-store.ts";

const [, , root = "", verb = "", name = ""] = process.argv;
const store = await openTestStore(root);
const withBase = process.env.WITH_BASE !== undefined;
const cwd = process.cwd();

async function submit(): Promise<string> {
  const { dir, journal } = await createProject(cwd);
  await journal.close();
  const project = { dir, journal: store };
  const { plan } = await requirePlan(name);
  const origin = { file: resolve(name), input: {}, args: [], cwd };
  const runId = await createRun(project, plan, origin);
  const known = await loadRun(project, runId);
  await store.files.put(runId, 0, await storeRun({ project, known, blobs: store.blobs, withBase }));
  return runId;
}

async function push(): Promise<string> {
  const project = await openProject(cwd, "read-write");
  const known = await loadRun(project, name);
  const files = await storeRun({ project, known, blobs: store.blobs, withBase });
  const { id: runId, events, run } = known;
  const planTexts = known.planTexts.size === 0 ? [known.planText] : [...known.planTexts.values()];
  await store.log.receive({ runId, planTexts, events, answers: {}, summary: fullSummary(run) });
  await store.files.put(runId, 0, files);
  await project.journal.close();
  return runId;
}

const id = verb === "push" ? await push() : await submit();
await store.close();
process.stdout.write(`${id}\n`);
