/**
 * Imports a run that was exported elsewhere, so that it can continue here.
 *
 * Owns: the order of an import, and the refusals that prevent one.
 * Does not: verify hashes (workspace/archive.ts does), or write files of the project; `resume` writes
 * those, as for every run whose files are missing.
 * Invariants:
 * - import/M1 Everything in the file is verified before anything is written here.
 * - app/M2 The run exists once the journal has it, in one transaction and last of all. The next
 *   import takes over the leftovers of a killed one (a folder without events, refs, whole
 *   transcripts).
 * - app/M3 A transcript that already exists here is never overwritten.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { EVENT_VERSION, type EventOf, type Recorded } from "../../core/event.ts";
import type { Owner } from "../../core/event-parts.ts";
import { evolve, replay } from "../../core/evolve.ts";
import { movedPath } from "../../core/move.ts";
import type { Run } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { fullSummary } from "../../core/summary.ts";
import { workspaceOf } from "../../engine/launch.ts";
import type { ForeignFiles } from "../../engine/run-workspace.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import { parseEvents } from "../../journal/events-file.ts";
import { planFingerprints } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { findMarked, runMarker } from "../../runner/process/sweep.ts";
import { failpoint } from "../../util/failpoint.ts";
import { canonicalJson, sha256 } from "../../util/json.ts";
import { readArchive } from "../../workspace/archive.ts";
import { describeFile } from "../../workspace/artifact.ts";
import { looseFiles } from "../../workspace/repository.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { isOwnerAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { completeRunFiles } from "../drive/run-files.ts";
import { loadRun, parsePlan } from "../loaded-run.ts";
import { createProject, type Project, shortIdOf } from "../project/project.ts";
import { advice, command, filesRefusal, Refusal, when } from "../refusal.ts";
import type { FilesOption } from "../rewind/rewind-files.ts";
import {
  type ArchivedConversation,
  type ArchivedRun,
  EVENTS_PART,
  type IncomingRun,
  type NewTranscript,
  PLAN_PART,
  parseArchivedRun,
  placeParts,
  transcriptsOf,
} from "./run-parts.ts";

interface ImportOptions {
  /** The project that the run continues in. */
  readonly into: string;
  /**
   * For a run that works in the project itself: restore the run's files, or keep those of the
   * project.
   */
  readonly files?: FilesOption | undefined;
}

/** The result of an import. */
interface ImportedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  /** The directory of the project that the run comes from. */
  readonly from: string;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  /** The journal here already has the same run. */
  readonly known: boolean;
  /** A resume first restores the run's files in the project. */
  readonly restoresFiles: boolean;
}

/** The run in an archive, as of its export. */
interface ExportedState {
  readonly about: ArchivedRun;
  readonly planTexts: readonly string[];
  readonly plan: Plan;
  readonly events: readonly Recorded[];
  readonly run: Run;
}

/** A run during its import, with the event that records the move. */
interface ImportedState extends IncomingRun {
  readonly events: readonly Recorded[];
}

const STAGING = "incoming-";
const OWNER_FILE = "owner.json";
const NAMES_SHOWN_MAX = 5;

/** Imports a run from a file. */
export async function importRun(file: string, options: ImportOptions): Promise<ImportedRun> {
  try {
    return await unpack(file, options);
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    throw filesRefusal(error, undefined);
  }
}

async function unpack(file: string, { into, files }: ImportOptions): Promise<ImportedRun> {
  if (!existsSync(file)) throw new Refusal("missing-file", `there is no file ${file}`);
  const archive = await readArchive(file, { texts: [EVENTS_PART, PLAN_PART] });
  const exported = exportedIn(file, archive);
  refuseLiving(exported);
  mkdirSync(into, { recursive: true });
  const project = await createProject(into);
  const staging = stagingIn(project.dir.root);
  try {
    if (await isHere(project, exported, file)) return await resultOf(project, exported, undefined);
    const moved = await moveOf(project, exported, files);
    const incoming = incomingRun(project, exported, moved, archive);
    checkFolder(incoming);
    const transcripts = await missingTranscripts(incoming);
    await readArchive(file, { texts: [], into: staging });
    failpoint("import.unpacked");
    await placeParts(incoming, transcripts, staging);
    await receive(project, exported, incoming);
    return await resultOf(project, exported, moved);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

async function resultOf(
  { journal }: Project,
  { about, run }: ExportedState,
  moved: EventOf<"run.moved"> | undefined,
): Promise<ImportedRun> {
  const { stepsCompleted, stepsTotal } = run;
  return {
    runId: about.run,
    shortId: await shortIdOf(journal, about.run),
    pipeline: about.pipeline,
    from: about.project,
    ...{ stepsCompleted, stepsTotal },
    known: moved === undefined,
    restoresFiles: moved?.files === "restore",
  };
}

/** Creates the run in the journal, last of all (app/M2); then writes its files for people. */
async function receive(
  project: Project,
  { about, planTexts }: ExportedState,
  incoming: ImportedState,
): Promise<void> {
  const { dir, run, events } = incoming;
  const { run: runId, answers = {} } = about;
  const summary = fullSummary(run, workspaceOf(dir));
  await project.journal.log.receive({ runId, planTexts, events, answers, summary });
  failpoint("import.received");
  completeRunFiles(await loadRun(project, runId));
}

/** Reads the run in an archive: its events must be complete and replay to a run (import/M1). */
function exportedIn(
  file: string,
  { about: said, texts }: Awaited<ReturnType<typeof readArchive>>,
): ExportedState {
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

/** Refuses a run that still runs on this machine: two owners would end each other's processes. */
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

/** True when the journal has the same run as the file; refuses when the two differ. */
async function isHere(
  { dir, journal }: Project,
  { about, events }: ExportedState,
  file: string,
): Promise<boolean> {
  if (!(await journal.log.resolve(about.run)).includes(about.run)) return false;
  const { events: ours, cleanedAt } = await journal.log.load(about.run);
  const same = canonicalJson(ours.slice(0, events.length)) === canonicalJson(events);
  if (same && cleanedAt === undefined && ours.length <= events.length + 1) return true;
  const shortId = await shortIdOf(journal, about.run);
  // A directory inside the project would find the same journal, so suggest one beside it.
  const beside = relative("", join(dirname(dirname(dir.root)), "NEW-DIR"));
  throw new Refusal(
    "run-exists",
    `run ${shortId} exists here already, and differs from the one in the file`,
    [
      command("show", shortId),
      when("import the other one elsewhere", "import", file, "--into", beside),
    ],
  );
}

/** The move of a run to a project, with the files that it brings. */
export async function moveOf(
  project: Project,
  { about, plan, run }: Pick<ExportedState, "about" | "plan" | "run">,
  wanted: ForeignFiles | undefined,
): Promise<EventOf<"run.moved">> {
  const to = dirname(project.dir.root);
  const moved: EventOf<"run.moved"> = { type: "run.moved", from: about.project, to };
  if (about.commit === undefined) return moved;
  const carried = { ...moved, commit: about.commit };
  if (plan.workspace?.kind !== "here") return carried;
  const cwd = movedPath(moved, run.created?.cwd ?? about.project);
  return { ...carried, files: wanted ?? (await freeFor(cwd)) };
}

/** Allows a restore of the project's files where it loses nothing; refuses otherwise. */
async function freeFor(directory: string): Promise<ForeignFiles> {
  const loose = await looseFiles(directory);
  if (loose.length === 0) return "restore";
  const shown = loose.slice(0, NAMES_SHOWN_MAX).join(", ");
  const more = loose.length > NAMES_SHOWN_MAX ? `, and ${loose.length - NAMES_SHOWN_MAX} more` : "";
  throw new Refusal(
    "files-in-the-way",
    `the run brings files for ${directory}, which has other files: ${shown}${more}`,
    advice("--files restore (those of the run; yours are set aside) or --files keep (yours)"),
  );
}

function incomingRun(
  project: Project,
  { about, plan, events, run: left }: ExportedState,
  moved: EventOf<"run.moved">,
  { parts }: Awaited<ReturnType<typeof readArchive>>,
): ImportedState {
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

/**
 * Makes a folder for the parts and removes those of killed imports; refuses while another import
 * runs.
 */
export function stagingIn(root: string): string {
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

/** The import that unpacks there; undefined when a kill came before it wrote its name. */
function ownerOf(staging: string): Owner | undefined {
  const file = join(staging, OWNER_FILE);
  if (!existsSync(file)) return undefined;
  const text = readFileSync(file, "utf8");
  return text.endsWith("}") ? (JSON.parse(text) as Owner) : undefined;
}

/** The transcripts that are missing here; refuses to overwrite a different one (app/M3). */
async function missingTranscripts(incoming: IncomingRun): Promise<readonly NewTranscript[]> {
  const missing: NewTranscript[] = [];
  for (const { conversation, known, target, sha256: hash } of transcriptsOf(incoming)) {
    const there = await describeFile(known ?? target.path);
    if (there === undefined) missing.push({ target, sha256: hash });
    else if (there.sha256 !== hash) throw anotherTranscript(conversation, there.path);
  }
  return missing;
}

function anotherTranscript({ place }: ArchivedConversation, path: string): Refusal {
  const step = stepPath(place);
  const message = `another transcript of the conversation of ${step} already exists: ${path}`;
  return new Refusal("files-in-the-way", message, advice("move it away, then import again"));
}

/** Refuses to replace the folder of a run that is not in the journal but has events. */
function checkFolder({ dir }: IncomingRun): void {
  if (!existsSync(dir.events)) return;
  const message = `${dir.root} holds a run that the journal does not know`;
  throw new Refusal("missing-journal", message, command("doctor", "--repair"));
}
