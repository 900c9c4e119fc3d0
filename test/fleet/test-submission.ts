/** Puts a new run of a pipeline into a store for tests, as `perdure submit` does, without a process. */
import { join } from "node:path";
import { storeRun } from "../../src/app/fleet/ship.ts";
import { loadRun } from "../../src/app/loaded-run.ts";
import { requirePlan } from "../../src/app/pipeline/pipeline-file.ts";
import { createProject } from "../../src/app/project/project.ts";
import { createRun } from "../../src/app/start.ts";
import type { TestStore } from "./test-store.ts";

/** A new run of a file in a directory; its id. */
export async function submitInto(
  store: TestStore,
  cwd: string,
  { name, withBase }: { readonly name: string; readonly withBase: boolean },
): Promise<string> {
  const { dir, journal } = await createProject(cwd);
  await journal.close();
  const project = { dir, journal: store };
  const file = join(cwd, name);
  const { plan } = await requirePlan(file);
  const runId = await createRun(project, plan, { file, input: {}, args: [], cwd });
  const known = await loadRun(project, runId);
  await store.files.put(runId, 0, await storeRun({ project, known, blobs: store.blobs, withBase }));
  return runId;
}
