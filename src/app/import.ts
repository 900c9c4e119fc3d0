/**
 * Takes in a run that was exported elsewhere, so that it can continue here.
 *
 * Owns: the order in which a run is taken in.
 * Does not: put files of the project anywhere; `resume` does, as for every run whose files are gone.
 * Invariants:
 * - M1 Everything in the file is verified before anything is written here.
 * - M2 The run is there when the journal has it, in one transaction and last of all. What a killed
 *   import leaves (a folder without events, refs, whole transcripts) is taken over by the next one.
 * - M3 A transcript that is here already is never overwritten.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { EVENT_VERSION, type Recorded, type RunMoved } from "../core/event.ts";
import type { Owner } from "../core/event-parts.ts";
import { evolve, replay } from "../core/evolve.ts";
import { movedPath } from "../core/move.ts";
import type { Run } from "../core/run.ts";
import { fullSummary } from "../core/summary.ts";
import { workspaceOf } from "../engine/launch.ts";
import type { ForeignFiles } from "../engine/run-workspace.ts";
import { runDirOf } from "../engine/state-dir.ts";
import { parseEvents } from "../journal/events-file.ts";
import { planFingerprints } from "../journal/run-log.ts";
import type { Plan } from "../plan/plan.ts";
import { findMarked, runMarker } from "../runner/process/sweep.ts";
import { failpoint } from "../util/failpoint.ts";
import { canonicalJson, sha256 } from "../util/json.ts";
import { type Archive, readArchive } from "../workspace/archive.ts";
import { looseFiles } from "../workspace/repository.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import { loadRun, parsePlan } from "./known-run.ts";
import { isOwnerAlive, ownerText, thisOwner } from "./owner.ts";
import { createProject, type Project, shortIdOf } from "./project.ts";
import { advice, command, filesRefusal, Refusal, when } from "./refusal.ts";
import type { FilesOption } from "./rewind-files.ts";
import { type ArchivedRun, EVENTS_PART, PLAN_PART, parseArchivedRun } from "./run-archive.ts";
import { RunFiles } from "./run-files.ts";
import { checkFolder, type IncomingRun, missingTranscripts, unpack } from "./unpack.ts";

export interface ImportOptions {
  /** The project that the run continues in. */
  readonly into: string;
  /** For a run that works in the project itself: its files, or those that are there. */
  readonly files?: FilesOption | undefined;
}

/** What became of an import. */
export interface ImportedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  /** The directory of the project that the run comes from. */
  readonly from: string;
  readonly stepsDone: number;
  readonly stepsTotal: number;
  /** The run was here already, and is the same. */
  readonly known: boolean;
  /** When the run continues, the project's files are first restored to those of the run. */
  readonly restoresFiles: boolean;
}

/** A run as it was when it was exported. */
interface ExportedState {
  readonly about: ArchivedRun;
  readonly planTexts: readonly string[];
  readonly plan: Plan;
  readonly events: readonly Recorded[];
  readonly run: Run;
}

const STAGING = "incoming-";
const OWNER_FILE = "owner.json";
const NAMES_SHOWN_MAX = 5;

/** Takes in a run from a file. */
export async function importRun(file: string, options: ImportOptions): Promise<ImportedRun> {
  try {
    return await takeIn(file, options);
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    throw filesRefusal(error, undefined);
  }
}

async function takeIn(file: string, { into, files }: ImportOptions): Promise<ImportedRun> {
  if (!existsSync(file)) throw new Refusal("missing-file", `there is no file ${file}`);
  const archive = await readArchive(file, { texts: [EVENTS_PART, PLAN_PART] });
  const exported = exportedIn(file, archive);
  refuseLiving(exported);
  mkdirSync(into, { recursive: true });
  const project = await createProject(into);
  const staging = stagingIn(project.dir.root);
  try {
    if (await isHere(project, exported)) return await resultOf(project, exported, undefined);
    const moved = await moveOf(project, exported, files);
    const incoming = incomingRun(project, exported, moved, archive);
    checkFolder(incoming);
    const transcripts = await missingTranscripts(incoming);
    await readArchive(file, { texts: [], into: staging });
    failpoint("import.unpacked");
    await unpack(incoming, transcripts, staging);
    await receive(project, exported, incoming);
    return await resultOf(project, exported, moved);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

async function resultOf(
  { journal }: Project,
  { about, run }: ExportedState,
  moved: RunMoved | undefined,
): Promise<ImportedRun> {
  const { stepsDone, stepsTotal } = run;
  return {
    runId: about.run,
    shortId: await shortIdOf(journal, about.run),
    pipeline: about.pipeline,
    from: about.project,
    ...{ stepsDone, stepsTotal },
    known: moved === undefined,
    restoresFiles: moved?.files === "restore",
  };
}

/** The run is there when this has happened (M2); its files for people follow. */
async function receive(
  project: Project,
  { about, planTexts }: ExportedState,
  incoming: IncomingRun,
): Promise<void> {
  const { dir, run, events } = incoming;
  const { run: runId, answers = {} } = about;
  const summary = fullSummary(run, workspaceOf(dir));
  await project.journal.log.receive({ runId, planTexts, events, answers, summary });
  failpoint("import.received");
  RunFiles.open(dir, run, await loadRun(project, about.run), events).close(run);
}

/** The run in an archive: its events are whole and add up to a run (M1). */
function exportedIn(file: string, { about: said, texts }: Archive): ExportedState {
  const about = parseArchivedRun(said, file);
  const { runId, events, problems } = parseEvents(Buffer.from(texts.get(EVENTS_PART) ?? ""));
  const planTexts = (texts.get(PLAN_PART) ?? "").split("\n");
  const plans = new Map(planTexts.map((text) => [sha256(text), text]));
  const created = events[0]?.event;
  if (
    problems.length > 0 ||
    runId !== about.run ||
    created?.type !== "run.created" ||
    !planFingerprints(events).every((one) => plans.has(one)) ||
    created.fingerprint !== sha256(planTexts[0] ?? "")
  ) {
    const why = problems[0] ?? "its events and its plan do not belong together";
    throw new Refusal(
      "bad-archive",
      `${file} cannot be imported: ${why}`,
      advice("export the run again"),
    );
  }
  const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", about.run);
  const plan = planOf(planFingerprints(events).at(-1) ?? "");
  return { about, planTexts, plan, events, run: replay(planOf, about.run, events) };
}

/** Two owners of the same processes would end each other's. */
function refuseLiving({ about }: ExportedState): void {
  const [pid] = findMarked(runMarker(about.run));
  if (pid === undefined) return;
  const message = `processes of run ${about.run} still run on this machine (pid ${pid})`;
  throw new Refusal(
    "steps-alive",
    message,
    advice("stop the run where it was, then export it again"),
  );
}

/** True when the run is in the journal as it is in the file; refuses when it is another one. */
async function isHere({ journal }: Project, { about, events }: ExportedState): Promise<boolean> {
  if (!(await journal.log.resolve(about.run)).includes(about.run)) return false;
  const { events: ours, cleanedAt } = await journal.log.load(about.run);
  const same = canonicalJson(ours.slice(0, events.length)) === canonicalJson(events);
  if (same && cleanedAt === undefined && ours.length <= events.length + 1) return true;
  const shortId = await shortIdOf(journal, about.run);
  throw new Refusal(
    "run-exists",
    `run ${shortId} exists here already, and is not as it is in the file`,
    [
      command("show", shortId),
      when("take the other one in elsewhere", "import", "FILE", "--into", "DIR"),
    ],
  );
}

async function moveOf(
  project: Project,
  { about, plan, run }: ExportedState,
  wanted: ForeignFiles | undefined,
): Promise<RunMoved> {
  const to = dirname(project.dir.root);
  const moved: RunMoved = { type: "run.moved", from: about.project, to };
  if (about.commit === undefined) return moved;
  const carried = { ...moved, commit: about.commit };
  if (plan.workspace?.kind !== "here") return carried;
  const cwd = movedPath(moved, run.created?.cwd ?? about.project);
  return { ...carried, files: wanted ?? (await freeFor(cwd)) };
}

/** The project's files are put back without a question only where nothing can be lost by it. */
async function freeFor(directory: string): Promise<ForeignFiles> {
  const loose = await looseFiles(directory);
  if (loose.length === 0) return "restore";
  const shown = loose.slice(0, NAMES_SHOWN_MAX).join(", ");
  const more = loose.length > NAMES_SHOWN_MAX ? `, and ${loose.length - NAMES_SHOWN_MAX} more` : "";
  throw new Refusal(
    "files-in-the-way",
    `the run brings files for ${directory}, which has some of its own: ${shown}${more}`,
    advice("--files restore (those of the run; yours are set aside) or --files keep (yours)"),
  );
}

function incomingRun(
  project: Project,
  { about, plan, events, run: left }: ExportedState,
  moved: RunMoved,
  { parts }: Archive,
): IncomingRun {
  const seq = events.length + 1;
  const recorded: Recorded = { seq, time: Date.now(), version: EVENT_VERSION, event: moved };
  const run = evolve(plan, left, recorded);
  return {
    about,
    plan,
    run,
    events: [...events, recorded],
    dir: runDirOf(project.dir, about.run),
    stateDir: project.dir.root,
    parts,
  };
}

/** A folder for the parts; one import at a time, and what killed ones had unpacked goes. */
function stagingIn(root: string): string {
  const staging = join(root, `${STAGING}${process.pid}`);
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging, { mode: 0o700 });
  writeFileSync(join(staging, OWNER_FILE), JSON.stringify(thisOwner()));
  for (const name of readdirSync(root)) {
    const other = join(root, name);
    if (!name.startsWith(STAGING) || other === staging) continue;
    const owner = ownerOf(other);
    if (owner !== undefined && isOwnerAlive(owner)) {
      rmSync(staging, { recursive: true });
      const message = `another import is at work here: ${ownerText(owner)}`;
      throw new Refusal("import-running", message, advice("try again when it has ended"));
    }
    rmSync(other, { recursive: true, force: true });
  }
  return staging;
}

/** Who unpacks there; undefined when it was killed before it could say so. */
function ownerOf(staging: string): Owner | undefined {
  const file = join(staging, OWNER_FILE);
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, "utf8");
  return text.endsWith("}") ? (JSON.parse(text) as Owner) : undefined;
}
