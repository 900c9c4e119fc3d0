/**
 * Everything about one step, for its page, and the content that a run keeps: the files of its snapshots,
 * and the files that its steps passed on.
 *
 * Owns: which content belongs to a run, and how much of it is read; of a step its settings, all its
 * visits and attempts with their evidence, what it passed on, what it asks, and why it ran.
 * Does not: join a name from outside into a path. A snapshot and a hash must be in the events of
 * the run, and a path is looked up in the tree of its snapshot.
 */
import { isUtf8 } from "node:buffer";
import * as fs from "node:fs/promises";
import { basename, extname, relative } from "node:path";
import type { Output, Recorded, RunEvent } from "../../core/event.ts";
import { currentVisit, findStep, findVisit, isComposite, stepOf } from "../../core/run.ts";
import { attemptText, parseVisit, stepPath } from "../../core/step-path.ts";
import { fingerprintsOf } from "../../plan/fingerprint.ts";
import { indexOf } from "../../plan/graph-index.ts";
import type { Step } from "../../plan/plan.ts";
import { type Explained, explainLines, explainStep } from "../../view/explain.ts";
import { questionsJson } from "../../view/json/action-json.ts";
import type { stepPage } from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { type AttemptFiles, settingsJson, stepAttemptsJson } from "../../view/json/step-json.ts";
import { messagesJson } from "../../view/message-text.ts";
import { plainLines } from "../../view/text.ts";
import { checkpointNamed } from "../../view/work-history.ts";
import { artifactPath } from "../../workspace/artifact.ts";
import { openRunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { agentOf, hasConversation, promptOf } from "../output/conversation.ts";
import { type AttemptStart, writtenOutput } from "../output/output-part.ts";
import { masked } from "../output/secret-mask.ts";
import { pointNamed, stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { command, naming, Refusal } from "../refusal.ts";
import { openQuestions } from "../request/answer.ts";
import { packageVersion } from "../this-process.ts";

const FILES_MAX = 20_000;
const TEXT_BYTES_MAX = 512 * 1024;

/** The commit of a snapshot that the events of a run name: itself, or that of a checkpoint. */
function snapshotNamed(known: LoadedRun, name: string): string {
  const commits = known.events.flatMap(({ event }) => commitsIn(event));
  const exact = commits.find((commit) => commit === name);
  if (exact !== undefined) return exact;
  const point = naming(known.shortId, () => checkpointNamed(known.events, pointNamed(known, name)));
  if (point.commit !== undefined) return point.commit;
  const message = `${name} of run ${known.shortId} is no snapshot`;
  throw new Refusal("no-snapshots", message, command("timeline", known.shortId));
}

/** The snapshots that an event names. */
function commitsIn(event: RunEvent): readonly string[] {
  const found = [
    "base" in event ? event.base : undefined,
    "aside" in event ? event.aside : undefined,
    "snapshot" in event ? event.snapshot?.commit : undefined,
    event.type === "run.restored" ? event.commit : undefined,
  ];
  return found.filter((commit) => commit !== undefined);
}

/** The files in a snapshot of a run. */
export async function filesIn(
  project: Project,
  known: LoadedRun,
  name: string,
): Promise<{
  readonly snapshot: string;
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
  readonly leftOut: number;
}> {
  const snapshot = snapshotNamed(known, name);
  const { store } = await openRunWorkspace(project, known);
  const { listSnapshot } = await import("../../workspace/snapshot/difference.ts");
  return { snapshot, ...(await listSnapshot(store, snapshot, FILES_MAX)) };
}

/** One file of a snapshot as text. */
interface ShownFile {
  readonly snapshot: string;
  readonly path: string;
  readonly bytes: number;
  readonly binary: boolean;
  readonly text: string;
  /** The text is only its beginning. */
  readonly cut: boolean;
}

/** The text of a file in a snapshot of a run; a binary file has none. */
export async function fileIn(
  project: Project,
  known: LoadedRun,
  name: string,
  path: string,
): Promise<ShownFile> {
  const snapshot = snapshotNamed(known, name);
  const { store } = await openRunWorkspace(project, known);
  const { readListed } = await import("../../workspace/snapshot/difference.ts");
  const found = await readListed(store, snapshot, path, TEXT_BYTES_MAX);
  if (found === undefined) {
    const message = `the snapshot ${snapshot.slice(0, 10)} has no file ${path}`;
    throw new Refusal("missing-file", message, command("timeline", known.shortId));
  }
  const { bytes, content } = found;
  const cut = content.length < bytes;
  const binary = isBinary(content, cut);
  const text = binary ? "" : plainLines(masked(content.toString("utf8")));
  return { snapshot, path, bytes, binary, text, cut };
}

/** How many bytes a character has at most. */
const CHARACTER_BYTES_MAX = 4;

function isBinary(content: Buffer, cut: boolean): boolean {
  if (content.includes(0)) return true;
  // A cut may have gone through a character.
  const ends = cut ? CHARACTER_BYTES_MAX : 1;
  return !Array.from({ length: ends }, (_, less) => less).some((less) =>
    isUtf8(content.subarray(0, content.length - less)),
  );
}

/** A file that a step passed on. */
interface Artifact extends Output {
  readonly name: string;
  /** Its media type. */
  readonly media: string;
}

/** The media types that a browser may show; everything else is a download. */
const MEDIA: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};
const BYTES = "application/octet-stream";
const TEXT = "text/plain; charset=utf-8";
/** Names of files that are not text; the content of all others is checked, too. */
const BINARY = /\.(zip|gz|tgz|xz|bz2|zst|7z|tar|jar|exe|bin|so|o|a|wasm|pdf|mp[34]|mov|woff2?)$/i;

function mediaOf(path: string): string {
  const known = MEDIA[extname(path).toLowerCase()];
  return known ?? (BINARY.test(path) ? BYTES : TEXT);
}

/** The files that the events pass on, each hash and path once; the newest last. */
function artifactsIn(events: Iterable<Recorded>): readonly Artifact[] {
  const found = new Map<string, Artifact>();
  const add = (name: string, output: Output): void => {
    const artifact = { ...output, name, media: mediaOf(output.path) };
    found.set(`${output.sha256} ${output.path}`, artifact);
  };
  for (const { event } of events) {
    if (event.type === "step.relayed") add("notes", event.checkpoint);
    const outputs =
      event.type === "step.completed"
        ? event.outputs
        : "held" in event
          ? event.held.outputs
          : "exited" in event
            ? (event.exited?.outputs ?? {})
            : {};
    for (const [name, output] of Object.entries(outputs)) add(name, output);
  }
  return [...found.values()];
}

/** The content of an artifact, and how a browser may treat it. */
interface ArtifactContent {
  /** The file that holds it. */
  readonly file: string;
  readonly name: string;
  readonly media: string;
  readonly bytes: number;
}

/** The content with a hash, if an event of the run names that hash. */
export async function artifactIn(known: LoadedRun, sha256: string): Promise<ArtifactContent> {
  const artifact = artifactsIn(known.events).findLast((one) => one.sha256 === sha256);
  const file = artifactPath(known.dir.artifacts, artifact?.sha256 ?? "");
  const bytes = artifact && (await fs.stat(file).catch(() => undefined))?.size;
  if (artifact === undefined || bytes === undefined) {
    const message = `run ${known.shortId} keeps no file with the hash ${sha256.slice(0, 12)}`;
    throw new Refusal("missing-file", message, command("show", known.shortId));
  }
  const isText = artifact.media === TEXT && !(await isBinaryFile(file, bytes));
  const media = artifact.media === TEXT && !isText ? BYTES : artifact.media;
  return { file, name: basename(artifact.path), media, bytes };
}

const LOOK_BYTES = 8 * 1024;

async function isBinaryFile(path: string, bytes: number): Promise<boolean> {
  const file = await fs.open(path, "r");
  try {
    const start = Buffer.alloc(LOOK_BYTES);
    const { bytesRead } = await file.read(start, 0, LOOK_BYTES, 0);
    return isBinary(start.subarray(0, bytesRead), bytesRead < bytes);
  } finally {
    await file.close();
  }
}

/** How many attempts have their prompt and their files looked up: the newest. */
const ATTEMPTS_LOOKED_AT = 200;

/** The page of a step, without its row. */
type StepPage = Omit<DocumentOf<typeof stepPage>, "row">;

/** The path of the step that a name means, whatever visit or attempt it names. */
export function stepMeant(known: LoadedRun, name: string): string {
  return stepPath(parseVisit(stepNamed(known, name)));
}

/** Everything about a step, by its path. */
export async function stepPageOf(known: LoadedRun, path: string): Promise<StepPage> {
  const { run, events, id } = known;
  const own = events.filter(({ event }) => isOf(event, path));
  const explained = explainedOf(known, path);
  const files = await attemptFiles(known, own.map(({ event }) => event).filter(isStart));
  const input = { run, events, explained, engineVersion: packageVersion() };
  const visit = currentVisit(findStep(run, path));
  const asked = openQuestions(known).filter((one) => one.visit === visit);
  const [question] = questionsJson(id, asked).questions;
  const step = planned(known, path);
  return {
    run_id: id,
    settings: step === undefined ? {} : settingsJson(step),
    attempts: stepAttemptsJson(input, (at) => files.get(attemptText(at)) ?? NO_FILES),
    artifacts: artifactsIn(own).map(({ path: file, sha256, bytes, media, name }) => ({
      ...{ path: shownFile(known, file), sha256, bytes, media, name },
    })),
    question: question ?? null,
    messages: messagesJson(run).filter((message) => message.step === path),
    explained: explainLines(explained),
  };
}

/** The path of a file from the workspace of the run; a file outside of it keeps its whole path. */
function shownFile({ run }: LoadedRun, file: string): string {
  const base = run.workspace?.path ?? run.created?.cwd ?? "";
  const path = relative(base, file);
  return path.startsWith("..") ? file : path;
}

function isOf(event: RunEvent, path: string): boolean {
  return "scope" in event && "step" in event && stepPath(event) === path;
}

function isStart(event: RunEvent): event is AttemptStart {
  return event.type === "step.started";
}

function explainedOf({ events, plan }: LoadedRun, path: string): Explained {
  const hash = fingerprintsOf(plan).get(path)?.hash;
  const nothing = { step: path, attempts: [], kept: [], now: "It has not run yet." };
  return explainStep(events, path, hash) ?? nothing;
}

/** The step in the plan; undefined for one that an update removed. */
function planned({ run, plan }: LoadedRun, path: string): Step | undefined {
  const record = findStep(run, path);
  if (record !== undefined) return stepOf(record);
  const position = indexOf(plan.graph).byId.get(path);
  return position === undefined ? undefined : plan.graph.steps[position];
}

const NO_FILES: AttemptFiles = { agent: null, prompt: null, output: [], conversation: false };

async function attemptFiles(
  known: LoadedRun,
  starts: readonly AttemptStart[],
): Promise<ReadonlyMap<string, AttemptFiles>> {
  const found = new Map<string, AttemptFiles>();
  for (const at of starts.slice(-ATTEMPTS_LOOKED_AT)) {
    const visit = findVisit(known.run, at);
    const step = visit && stepOf(visit);
    if (step === undefined || isComposite(step)) continue;
    const command = step.work.kind === "shell" ? step.work.run : undefined;
    const output = await writtenOutput(known, at);
    found.set(attemptText(at), {
      agent: agentOf(known, at) ?? null,
      prompt: promptOf(known, at) ?? command ?? null,
      output: output.map(({ name, mark, bytes }) => ({
        file: name,
        label: mark ?? (name.startsWith("stderr") ? "errors" : "output"),
        bytes,
      })),
      conversation: hasConversation(known, at),
    });
  }
  return found;
}
