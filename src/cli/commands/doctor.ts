/**
 * `perdure doctor`: checks this machine and the project, or what a pipeline needs; repairs a journal.
 *
 * Owns: the JSON and the text about what was found; the text is made from the JSON.
 * Does not: check or repair (app/doctor.ts).
 */
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
import { findPipeline } from "../../app/pipeline/pipeline-name.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { packageVersion } from "../../app/this-process.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { countText } from "../../view/text.ts";
import { print, printDocument, readPlan } from "../print.ts";
import { type OutputOptions, wantsJson } from "../terminal.ts";

interface DoctorOptions extends OutputOptions {
  readonly repair?: boolean;
}

/** Checks the machine and the project; `--repair` repairs the journal. */
export async function doctorCommand(
  file: string | undefined,
  options: DoctorOptions,
): Promise<ExitCode> {
  const isText = !wantsJson(options);
  if (isText) {
    print(`perdure ${packageVersion()}, Node ${process.versions.node}, ${process.platform}`);
  }
  if (file !== undefined) return checkPipeline(file, isText);
  const root = usedStateDir(process.cwd())?.root;
  if (options.repair === true && root !== undefined) return repair(root, isText);
  const found = await stateFound();
  if (!isText) printDocument("doctor", found);
  else printState(found, options);
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

async function stateFound(): Promise<DocumentJson<"doctor">> {
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

function printState(found: DocumentJson<"doctor">, options: DoctorOptions): void {
  if (options.repair !== true) for (const line of found.machine) print(line);
  if (found.state === null) {
    print("There is no state here yet, so there is nothing to check.");
    return;
  }
  print(`state: ${found.state}`);
  for (const { run_id, message } of found.problems) {
    print(`✗ ${run_id === null ? "" : `run ${run_id}: `}${message}`);
  }
  if (found.problems.length > 0) {
    throw new Refusal("journal-broken", "the journal is damaged", command("doctor", "--repair"));
  }
  print("✓ the journal is intact: every event and every plan matches its checksum");
  for (const { path, what } of found.leftovers) {
    print(`· a kill left a ${what}: ${path}; remove it with: perdure doctor --repair`);
  }
  for (const run of found.unfinished) print(unfinishedLine(run));
}

function unfinishedLine(run: DocumentJson<"doctor">["unfinished"][number]): string {
  const { run_id, pipeline, status } = run;
  if (status === "waiting")
    return `◆ ${pipeline} is waiting for a person: perdure answer ${run_id}`;
  if (status === "running") return `▶ ${pipeline} is running: perdure attach ${run_id}`;
  return `‖ ${pipeline} is interrupted: perdure resume ${run_id}`;
}

const GLYPHS = { there: "✓", missing: "✗", doubtful: "!", unknown: "·" } as const;

/** Checks the agents and programs that a pipeline needs, and shows what its agents may do. */
async function checkPipeline(file: string, isText: boolean): Promise<ExitCode> {
  const { plan } = await readPlan(findPipeline(file, "doctor"), ["doctor", file], {});
  const found = await pipelineFindings(plan);
  const permissions = permissionLines(plan);
  const missing = found.filter(({ state }) => state === "missing").length;
  const ready = missing === 0;
  if (isText) {
    for (const { state, text, remedy } of found) {
      const helps = remedy === undefined || state === "there" ? "" : `: ${remedy}`;
      print(`${GLYPHS[state]} ${text}${helps}`);
    }
    for (const line of permissions) print(line);
    if (ready) print(`${file} can run here: perdure run ${file}`);
    else print(`${file} cannot run here: ${countText(missing, "requirement")} missing`);
  } else {
    const findings = found.map(({ state: status, text, remedy = null }) => {
      return { status, text, remedy };
    });
    printDocument("doctorPipeline", { ...programJson(), file, ready, findings, permissions });
  }
  return ready ? EXIT.done : EXIT.usage;
}

async function repair(root: string, isText: boolean): Promise<ExitCode> {
  if (isText) print(`state: ${root}`);
  const removed = await removeLeftovers(root);
  if (isText) {
    for (const { path, what } of removed) {
      print(`removed a ${what} that a kill had left: ${path}`);
    }
  }
  const report = repairState(root);
  if (isText) for (const line of repairLines(report)) print(line);
  else printDocument("doctorRepair", repairJson(root, removed, report));
  return report.runs.every(({ restored }) => restored !== undefined) ? EXIT.done : EXIT.error;
}

function repairJson(
  root: string,
  removed: DocumentJson<"doctorRepair">["removed"],
  { outcome, problems, setAside, runs }: ReturnType<typeof repairState>,
): DocumentJson<"doctorRepair"> {
  return {
    ...programJson(),
    state: root,
    outcome,
    problems: problemsJson(problems),
    removed,
    set_aside: setAside,
    runs: runs.map(({ runId: run_id, restored, notes }) => {
      if (restored === undefined) return { run_id, restored: null, notes };
      const { lastSeq: last_sequence, status, source } = restored;
      return { run_id, restored: { last_sequence, status, source }, notes };
    }),
  };
}

function repairLines(report: ReturnType<typeof repairState>): readonly string[] {
  if (report.outcome === "healthy") return ["✓ nothing is broken; nothing was changed"];
  const lines = report.problems.map(({ message }) => `✗ ${message}`);
  lines.push(...report.setAside.map((path) => `set aside: ${path}`));
  for (const { runId, restored, notes } of report.runs) {
    const what =
      restored === undefined
        ? "not restored"
        : `restored: events 1 to ${restored.lastSeq} (${restored.status}), from its ${restored.source}`;
    lines.push(`${restored === undefined ? "✗" : "✓"} run ${runId} ${what}`);
    lines.push(...notes.map((note) => `    ${note}`));
  }
  lines.push("The state is intact again. See the runs: perdure list runs");
  return lines;
}
