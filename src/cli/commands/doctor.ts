/** `perdure doctor`: says whether this machine and this project's state are well; repairs it. */
import { existsSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { agentLines, permissionLines } from "../../app/agent-check.ts";
import { parsePlan } from "../../app/known-run.ts";
import { isOwnerAlive } from "../../app/owner.ts";
import { type Finding, preflight } from "../../app/preflight.ts";
import { priceFile, priceListOf } from "../../app/prices.ts";
import { findStateDir, isUnused, livenessOf } from "../../app/project.ts";
import { after, command, Refusal } from "../../app/refusal.ts";
import { packageVersion } from "../../app/version.ts";
import { replay } from "../../core/evolve.ts";
import { fullSummary } from "../../core/summary.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { runDirOf, stateDirOf } from "../../engine/state-dir.ts";
import { checkState, LivingRunError, type RepairReport, repair } from "../../journal/repair.ts";
import { openSqliteJournal } from "../../journal/sqlite.ts";
import { envNamesOf } from "../../plan/build.ts";
import type { Plan } from "../../plan/plan.ts";
import { isolationProblem } from "../../runner/process/start.ts";
import { countText, firstLine } from "../../view/display-text.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import type { Leftover } from "../../workspace/leftovers.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
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
  if (options.repair !== true) {
    for (const line of await agentLines()) print(line);
    print(await pricesLine());
    print(isolationLine());
  }
  const dir = findStateDir(process.cwd());
  if (dir === undefined || isUnused(dir)) {
    print("There is no state here yet; nothing can be wrong with it.");
    return EXIT.done;
  }
  print(`state: ${dir.root}`);
  if (options.repair === true) {
    await removeLeftovers(dir.root);
    return repairState(dir.root);
  }
  if (!existsSync(dir.database)) {
    throw new Refusal(
      "missing-journal",
      `${dir.database} is missing`,
      command("doctor", "--repair"),
    );
  }
  const problems = checkState(dir.root);
  for (const { runId, message } of problems)
    print(`✗ ${runId === undefined ? "" : `run ${runId}: `}${message}`);
  if (problems.length > 0) {
    throw new Refusal("journal-broken", "the journal is damaged", command("doctor", "--repair"));
  }
  print("✓ the journal is whole: every event and every plan has its checksum");
  for (const { path, what } of await leftoversIn(dir.root)) {
    print(`· a kill left a ${what}: ${path}; remove it with: perdure doctor --repair`);
  }
  listUnfinished(dir.database);
  return EXIT.done;
}

const GLYPHS = { there: "✓", missing: "✗", doubtful: "!", unknown: "·" } as const;

/** What a pipeline needs, and what its agents may do: the look that `run` takes, all of it shown. */
async function checkPipeline(file: string): Promise<ExitCode> {
  const { plan } = await readPlan(resolve(file), ["doctor", file], {});
  const found = [
    ...variableFindings(envNamesOf(plan)),
    ...preflight(plan, { cwd: process.cwd(), env: process.env, prices: await priceListOf(plan) }),
  ];
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

function variableFindings(names: readonly string[]): readonly Finding[] {
  return names.map((name) =>
    process.env[name] === undefined
      ? { state: "missing", text: `${name} is not set`, remedy: `export ${name}=...` }
      : { state: "there", text: `${name} is set` },
  );
}

/** What kills have left in the middle of git's work; without git there is none. */
async function leftoversIn(root: string): Promise<readonly Leftover[]> {
  const { findLeftovers } = await import("../../workspace/leftovers.ts");
  try {
    return await findLeftovers(dirname(root), root);
  } catch (error) {
    if (error instanceof WorkspaceError && error.code === "git-missing") return [];
    throw error;
  }
}

async function removeLeftovers(root: string): Promise<void> {
  for (const { path, what } of await leftoversIn(root)) {
    rmSync(path, { recursive: true, force: true });
    print(`removed a ${what} that a kill had left: ${path}`);
  }
}

async function pricesLine(): Promise<string> {
  const { LIST_DATE } = await import("../../runner/agents/usage.ts");
  const prices = (await priceListOf({})).all();
  const own = prices.filter(({ price }) => price.origin === "file").length;
  const yours = own === 0 ? "" : `, ${own} of them from ${priceFile()}`;
  return `✓ prices of ${prices.length} models, as of ${LIST_DATE}${yours}: perdure prices`;
}

function isolationLine(): string {
  const problem = isolationProblem();
  return problem === undefined
    ? "✓ steps can be isolated: `isolate: true` works here"
    : `· steps cannot be isolated here: ${firstLine(problem)}`;
}

function listUnfinished(database: string): void {
  const journal = openSqliteJournal(database, { mode: "read-only" });
  const open = journal.list({ status: ["queued", "running", "waiting", "interrupted"], limit: 20 });
  for (const { runId, pipeline, lease, status } of open) {
    if (status === "waiting") {
      print(`◆ ${pipeline} is waiting for a person: perdure answer ${runId}`);
      continue;
    }
    const owned = livenessOf(lease) === "owned";
    const next = owned ? `perdure attach ${runId}` : `perdure resume ${runId}`;
    print(`${owned ? "▶" : "‖"} ${pipeline} is ${owned ? "running" : "interrupted"}: ${next}`);
  }
  journal.close();
}

function repairState(root: string): ExitCode {
  const report = repaired(root);
  for (const line of repairLines(report)) print(line);
  return report.runs.every(({ restored }) => restored !== undefined) ? EXIT.done : EXIT.error;
}

function repaired(root: string): RepairReport {
  try {
    return repair(root, {
      isAlive: isOwnerAlive,
      summarise: (plans, events, runId) => {
        const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
        const dir = runDirOf(stateDirOf(dirname(root)), runId);
        return fullSummary(replay(planOf, runId, events), workspaceOf(dir));
      },
    });
  } catch (error) {
    if (!(error instanceof LivingRunError)) throw error;
    // `perdure stop` would need the journal that is broken.
    throw new Refusal(
      "run-owned",
      error.message,
      after(`kill ${error.owner.pid}`, "doctor", "--repair"),
    );
  }
}

function repairLines(report: RepairReport): readonly string[] {
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
  lines.push("The state is whole again. See the runs: perdure list runs");
  return lines;
}
