/** `perdure doctor`: says whether this machine and this project's state are well; repairs it. */

import { resolve } from "node:path";
import {
  journalProblems,
  leftoversIn,
  machineLines,
  permissionLines,
  pipelineFindings,
  removeLeftovers,
  repairState,
  type UnfinishedRun,
  unfinishedRuns,
  usedStateDir,
} from "../../app/doctor.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { packageVersion } from "../../app/version.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { countText } from "../../view/text.ts";
import { readPlan } from "../diagnostics.ts";
import { print } from "../print.ts";

export interface DoctorOptions {
  readonly repair?: boolean;
}

/** Checks, and repairs when asked to. */
export async function doctorCommand(
  file: string | undefined,
  options: DoctorOptions,
): Promise<ExitCode> {
  print(`perdure ${packageVersion()}, Node ${process.versions.node}, ${process.platform}`);
  if (file !== undefined) return checkPipeline(file);
  if (options.repair !== true) for (const line of await machineLines()) print(line);
  const dir = usedStateDir(process.cwd());
  if (dir === undefined) {
    print("There is no state here yet, so there is nothing to check.");
    return EXIT.done;
  }
  print(`state: ${dir.root}`);
  if (options.repair === true) return repair(dir.root);
  const problems = journalProblems(dir);
  for (const { runId, message } of problems) {
    print(`✗ ${runId === undefined ? "" : `run ${runId}: `}${message}`);
  }
  if (problems.length > 0) {
    throw new Refusal("journal-broken", "the journal is damaged", command("doctor", "--repair"));
  }
  print("✓ the journal is intact: every event and every plan matches its checksum");
  for (const { path, what } of await leftoversIn(dir.root)) {
    print(`· a kill left a ${what}: ${path}; remove it with: perdure doctor --repair`);
  }
  for (const run of await unfinishedRuns(dir)) print(unfinishedLine(run));
  return EXIT.done;
}

function unfinishedLine({ runId, pipeline, state }: UnfinishedRun): string {
  switch (state) {
    case "waiting":
      return `◆ ${pipeline} is waiting for a person: perdure answer ${runId}`;
    case "running":
      return `▶ ${pipeline} is running: perdure attach ${runId}`;
    case "interrupted":
      return `‖ ${pipeline} is interrupted: perdure resume ${runId}`;
  }
}

const GLYPHS = { there: "✓", missing: "✗", doubtful: "!", unknown: "·" } as const;

/** What a pipeline needs, and what its agents may do. */
async function checkPipeline(file: string): Promise<ExitCode> {
  const { plan } = await readPlan(resolve(file), ["doctor", file], {});
  const found = await pipelineFindings(plan);
  for (const { state, text, remedy } of found) {
    const helps = remedy === undefined || state === "there" ? "" : `: ${remedy}`;
    print(`${GLYPHS[state]} ${text}${helps}`);
  }
  for (const line of permissionLines(plan)) print(line);
  const missing = found.filter(({ state }) => state === "missing").length;
  if (missing === 0) {
    print(`${file} can run here: perdure run ${file}`);
    return EXIT.done;
  }
  print(`${file} cannot run here: ${countText(missing, "thing")} missing`);
  return EXIT.usage;
}

async function repair(root: string): Promise<ExitCode> {
  for (const { path, what } of await removeLeftovers(root)) {
    print(`removed a ${what} that a kill had left: ${path}`);
  }
  const report = repairState(root);
  for (const line of repairLines(report)) print(line);
  return report.runs.every(({ restored }) => restored !== undefined) ? EXIT.done : EXIT.error;
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
