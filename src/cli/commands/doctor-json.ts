/** `perdure doctor --json`: the same checks and repairs, as documents. */
import { resolve } from "node:path";
import {
  journalProblems,
  leftoversIn,
  machineLines,
  permissionLines,
  pipelineFindings,
  removeLeftovers,
  repairState,
  unfinishedRuns,
  usedStateDir,
} from "../../app/doctor.ts";
import { packageVersion } from "../../app/this-process.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { printDocument, readPlan } from "../print.ts";

/** Checks the machine and the project, or a pipeline; or repairs the journal. */
export async function doctorDocument(
  file: string | undefined,
  { repair }: { readonly repair?: boolean },
): Promise<ExitCode> {
  if (file !== undefined) return checkPipeline(file);
  const root = usedStateDir(process.cwd())?.root;
  if (repair === true && root !== undefined) return repairDocument(root);
  const found = await stateJson();
  printDocument("doctor", found);
  return found.problems.length === 0 ? EXIT.done : EXIT.error;
}

function programJson(): Pick<
  DocumentJson<"doctor">,
  "perdure_version" | "node_version" | "platform"
> {
  return {
    perdure_version: packageVersion(),
    node_version: process.versions.node,
    platform: process.platform,
  };
}

async function stateJson(): Promise<DocumentJson<"doctor">> {
  const dir = usedStateDir(process.cwd());
  const head = { ...programJson(), machine: await machineLines(), state: dir?.root ?? null };
  if (dir === undefined) return { ...head, problems: [], leftovers: [], unfinished: [] };
  const problems = problemsJson(journalProblems(dir));
  if (problems.length > 0) return { ...head, problems, leftovers: [], unfinished: [] };
  const leftovers = await leftoversIn(dir.root);
  const unfinished = (await unfinishedRuns(dir)).map(({ runId, pipeline, state }) => ({
    run_id: runId,
    pipeline,
    status: state,
  }));
  return { ...head, problems, leftovers, unfinished };
}

function problemsJson(
  problems: ReturnType<typeof journalProblems>,
): DocumentJson<"doctor">["problems"] {
  return problems.map(({ runId = null, message }) => ({ run_id: runId, message }));
}

async function checkPipeline(file: string): Promise<ExitCode> {
  const { plan } = await readPlan(resolve(file), ["doctor", file], {});
  const found = await pipelineFindings(plan);
  const ready = found.every(({ state }) => state !== "missing");
  printDocument("doctorPipeline", {
    ...programJson(),
    file,
    ready,
    findings: found.map(({ state, text, remedy = null }) => ({ status: state, text, remedy })),
    permissions: permissionLines(plan),
  });
  return ready ? EXIT.done : EXIT.usage;
}

async function repairDocument(root: string): Promise<ExitCode> {
  const removed = await removeLeftovers(root);
  const { outcome, problems, setAside, runs } = repairState(root);
  printDocument("doctorRepair", {
    ...programJson(),
    state: root,
    outcome,
    problems: problemsJson(problems),
    removed,
    set_aside: setAside,
    runs: runs.map(({ runId, restored, notes }) => ({
      run_id: runId,
      restored:
        restored === undefined
          ? null
          : {
              last_sequence: restored.lastSeq,
              status: restored.status,
              source: restored.source,
            },
      notes,
    })),
  });
  return runs.every(({ restored }) => restored !== undefined) ? EXIT.done : EXIT.error;
}
