/**
 * The parts of a run on its way to another machine: its description, its folder, artifacts, snapshots
 * and transcripts. An exported file and the store of a fleet have the same parts.
 *
 * Owns: the shape of the description, which comes from outside, so it is checked; the names of parts,
 * which files of a run they are, and where each belongs on this machine. A run's folder is placed after
 * everything that its attempts need.
 * Does not: read or write archives (workspace/archive.ts) or a store (fleet/ship.ts), verify parts, or
 * record that the run is here.
 */
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Answer, RunEvent, VisitRef } from "../../core/event.ts";
import { outputsNamedBy } from "../../core/outputs.ts";
import type { Run } from "../../core/run.ts";
import type { OpenConversation } from "../../engine/agent/open-conversations.ts";
import { transcriptHere } from "../../engine/agent/open-conversations.ts";
import type { FilesExport } from "../../engine/export-files.ts";
import { placeOwnFiles } from "../../engine/export-files.ts";
import type { RunDir } from "../../engine/state-dir.ts";
import { isAnswer } from "../../journal/inbox.ts";
import type { Plan } from "../../plan/plan.ts";
import type { TranscriptTarget } from "../../runner/agents/adapter.ts";
import { failpoint } from "../../util/failpoint.ts";
import { isObject, type JsonObject } from "../../util/json.ts";
import type { Part, PartSource } from "../../workspace/archive.ts";
import { artifactPath, keepArtifact } from "../../workspace/artifact.ts";
import { flush } from "../../workspace/disk.ts";
import type { RepositoryCopy } from "../../workspace/repository-copy.ts";
import { readBundle } from "../../workspace/snapshot/bundle.ts";
import {
  hasCommit,
  openStore,
  type SnapshotRef,
  type SnapshotStore,
  writeRefs,
} from "../../workspace/snapshot/store.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { advice, Refusal } from "../refusal.ts";

/** The names of parts; those below RUN_PART are files of the run's folder. */
export const EVENTS_PART = "events.jsonl";
export const PLAN_PART = "plan.json";
export const BUNDLE_PART = "snapshots.bundle";
export const RUN_PART = "run/";
export const ARTIFACT_PART = "artifacts/";
const TRANSCRIPT_PART = "transcripts/";
/** In a store: the description; bundles, each without what the ones before it hold; their names. */
export const ABOUT_PART = "about.json";
export const BUNDLES_PART = "bundles/";
export const NAMES_PART = "snapshots";

/** A conversation whose transcript is a part of the archive. */
export interface ArchivedConversation {
  readonly place: VisitRef;
  readonly session: string;
  /** Its path on the other machine. */
  readonly file: string;
  readonly part: string;
}

/** The description of the run in an archive. */
export interface ArchivedRun {
  readonly perdure: string;
  readonly run: string;
  readonly pipeline: string;
  /** The project's directory on the other machine. */
  readonly project: string;
  readonly exportedAt: string;
  /** The snapshot of the files at the export. */
  readonly commit?: string;
  /** The same for the workspaces of single steps and instances, by name. */
  readonly own?: Readonly<Record<string, string>>;
  /** In a store: the last event before the snapshot was taken, and before those by name were. */
  readonly seq?: number;
  readonly ownSeq?: number;
  /** In a store: the project's repository, and its files before the run had a workspace. */
  readonly repository?: RepositoryCopy;
  readonly projectFiles?: string;
  /** Commits that the importing repository must have, because the archive lacks them. */
  readonly base: readonly string[];
  readonly conversations: readonly ArchivedConversation[];
  /** Answers that are not in its events yet, by attempt. */
  readonly answers?: Readonly<Record<string, Answer>>;
}

/** The parts of a run that are not in its journal. */
export interface ExportParts {
  /** The directory of its project. */
  readonly project: string;
  readonly files: FilesExport | undefined;
  readonly conversations: readonly ArchivedConversation[];
  /** The files of its folder and its transcripts. */
  readonly parts: readonly PartSource[];
  readonly notes: readonly string[];
}

/** Parses the description of a run. Throws when the archive does not hold a run. */
export function parseArchivedRun(about: JsonObject, file: string): ArchivedRun {
  const { perdure, run, pipeline, project, exportedAt, commit, base } = about;
  const { conversations, answers, own = {}, seq = 0, repository, projectFiles = "" } = about;
  const { ownSeq = 0 } = about;
  const texts = [perdure, run, pipeline, project, exportedAt];
  const good =
    texts.every((value) => typeof value === "string") &&
    (commit === undefined || typeof commit === "string") &&
    Array.isArray(base) &&
    base.every((one) => /^[0-9a-f]{40,64}$/.test(String(one))) &&
    Array.isArray(conversations) &&
    conversations.every(isConversation) &&
    isObject(own) &&
    Object.values(own).every((one) => typeof one === "string") &&
    Number.isSafeInteger(seq) &&
    Number.isSafeInteger(ownSeq) &&
    typeof projectFiles === "string" &&
    (repository === undefined || isRepository(repository)) &&
    (answers === undefined || (isObject(answers) && Object.values(answers).every(isAnswer)));
  if (good && /^[\w-]{8,64}$/.test(String(run))) return about as unknown as ArchivedRun;
  const message = `${file} cannot be imported: what it says about its run is damaged`;
  throw new Refusal("bad-archive", message, advice("export the run again"));
}

function isConversation(value: unknown): boolean {
  if (!isObject(value) || !isObject(value.place)) return false;
  const { place, session, file, part } = value;
  const { scope, step, visit } = place;
  const texts = [session, file, part, scope, step];
  return texts.every((one) => typeof one === "string") && Number.isSafeInteger(visit);
}

function isRepository(value: unknown): boolean {
  if (!isObject(value) || !isObject(value.refs) || !Array.isArray(value.base)) return false;
  const { objectFormat, top, refs, base, head = "", branch = "", remote = "" } = value;
  const texts = [top, head, branch, remote, ...Object.values(refs), ...base];
  const isKnown = objectFormat === "sha1" || objectFormat === "sha256";
  return isKnown && texts.every((one) => typeof one === "string");
}

/**
 * Entries of the run's folder that are made again elsewhere, or that only make sense on this machine.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "workspace",
  "workspace.partial",
  "own",
  "snapshots",
  "events.jsonl",
  "plan.json",
]);

/** The regular files below the run's folder, or below a path in it, without some of its entries. */
export function folderParts(
  root: string,
  below: string,
  notes: string[],
  without: ReadonlySet<string> = new Set(),
): readonly PartSource[] {
  return entriesOf(join(root, below)).flatMap((entry) => {
    const { name } = entry;
    const isLeftOut = LEFT_OUT.has(name) || without.has(name) || name.startsWith("export-");
    if (below === "" && isLeftOut) return [];
    const path = join(below, entry.name);
    if (entry.isDirectory()) return folderParts(root, path, notes);
    const file = join(root, path);
    // Node decodes a name that is not UTF-8 to another name, and no file has that name.
    const facts = entry.isFile() ? lstatSync(file, { throwIfNoEntry: false }) : undefined;
    if (facts === undefined) {
      notes.push(`left out, because it is not a regular file: ${file}`);
      return [];
    }
    return [{ path: RUN_PART + path, file, mode: facts.mode & 0o777 }];
  });
}

function entriesOf(
  folder: string,
): readonly { name: string; isDirectory(): boolean; isFile(): boolean }[] {
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(folder, { withFileTypes: true });
}

/** The outputs that events name, as far as they are stored here. */
export function artifactParts(dir: RunDir, events: readonly RunEvent[]): readonly PartSource[] {
  const hashes = events.flatMap((event) => outputsNamedBy(event).map(({ sha256 }) => sha256));
  return [...new Set(hashes)]
    .map((sha256) => ({ path: ARTIFACT_PART + sha256, file: artifactPath(dir.artifacts, sha256) }))
    .filter(({ file }) => statSync(file, { throwIfNoEntry: false }) !== undefined);
}

/** The conversations whose transcripts are parts; each part has the name of its conversation. */
export function carriedConversations(
  open: readonly OpenConversation[],
): readonly ArchivedConversation[] {
  return open.flatMap(({ place, session, file }) => {
    const part = `${TRANSCRIPT_PART}${encodeURIComponent(session)}`;
    return file === undefined ? [] : [{ place, session, file, part }];
  });
}

const OWNER_EXECUTES = 0o100;

/** A run that is being placed on this machine. */
export interface IncomingRun {
  readonly about: ArchivedRun;
  readonly plan: Plan;
  /** The run with the paths of this machine. */
  readonly run: Run;
  readonly dir: RunDir;
  readonly stateDir: string;
  readonly parts: readonly Part[];
}

/** A transcript to write here. */
export interface NewTranscript {
  readonly target: TranscriptTarget;
  readonly sha256: string;
}

/** A transcript that came with the run, where it belongs here, and the one that is here already. */
interface IncomingTranscript extends NewTranscript {
  readonly conversation: ArchivedConversation;
  readonly known?: string;
}

/** The transcripts of a run, and their paths here. */
export function transcriptsOf({
  about,
  plan,
  run,
  dir,
  parts,
}: IncomingRun): readonly IncomingTranscript[] {
  const site = { plan, run, dir, env: runEnvironment(run) };
  return about.conversations.flatMap((conversation) => {
    const part = parts.find(({ path }) => path === conversation.part);
    const { known, target } = transcriptHere(site, conversation, conversation.file);
    if (part === undefined || target === undefined) return [];
    const { sha256 } = part;
    return [{ conversation, target, sha256, ...(known === undefined ? {} : { known }) }];
  });
}

/** Moves all parts from `staging`, where their hashes are their names, to their destinations. */
export async function placeParts(
  incoming: IncomingRun,
  transcripts: readonly NewTranscript[],
  staging: string,
): Promise<void> {
  const { about, run, plan, dir, stateDir, parts } = incoming;
  for (const part of parts) {
    if (!part.path.startsWith(ARTIFACT_PART)) continue;
    await keepArtifact(dir.artifacts, join(staging, part.sha256));
  }
  const project = run.created?.cwd ?? dirname(stateDir);
  await fs.mkdir(project, { recursive: true });
  const store = await readSnapshots(incoming, project, staging);
  for (const one of transcripts) await placeTranscript(one, staging);
  failpoint("import.placed");
  await placeFolder(incoming, staging);
  failpoint("import.folder");
  if (store === undefined || plan.workspace === undefined) return;
  await placeOwnFiles(store, { plan: plan.workspace, run, dir }, about.own ?? {});
}

/** Reads the bundles in their order, then gives the snapshots their names. */
async function readSnapshots(
  { about, stateDir, parts }: IncomingRun,
  project: string,
  staging: string,
): Promise<SnapshotStore | undefined> {
  const bundles = parts
    .filter(({ path }) => path === BUNDLE_PART || path.startsWith(BUNDLES_PART))
    .toSorted((one, other) => (one.path < other.path ? -1 : 1));
  if (bundles.length === 0) return undefined;
  const store = await openStore({ project, stateDir });
  for (const commit of about.base) await needBase(store, commit);
  for (const { sha256 } of bundles) await readBundle(store, join(staging, sha256));
  const names = parts.find(({ path }) => path === NAMES_PART);
  if (names !== undefined) {
    await writeRefs(store, refsIn(await fs.readFile(join(staging, names.sha256), "utf8")));
  }
  return store;
}

/** The names of snapshots as text, one line each. */
export function refsText(refs: readonly SnapshotRef[]): string {
  return refs.map(({ ref, commit }) => `${commit} ${ref}\n`).join("");
}

/** The names of snapshots in a text of `refsText`. */
export function refsIn(text: string): readonly SnapshotRef[] {
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => ({
      commit: line.slice(0, line.indexOf(" ")),
      ref: line.slice(line.indexOf(" ") + 1),
    }));
}

async function needBase(store: SnapshotStore, commit: string): Promise<void> {
  if (await hasCommit(store, commit)) return;
  const message = `the run was exported without its base, and the commit ${commit} is missing here`;
  throw new Refusal(
    "bad-archive",
    message,
    advice("git fetch it, or export the run with its base"),
  );
}

async function placeTranscript(
  { target, sha256: hash }: NewTranscript,
  staging: string,
): Promise<void> {
  for (const [path, text] of Object.entries(target.beside)) {
    await fs.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    if (!existsSync(path)) await fs.writeFile(path, text, { mode: 0o600 });
  }
  await fs.mkdir(dirname(target.path), { recursive: true, mode: 0o700 });
  const draft = `${target.path}.perdure`;
  await fs.copyFile(join(staging, hash), draft);
  await flush(draft);
  // A link, unlike a rename, never replaces a file that has appeared meanwhile.
  await fs.link(draft, target.path);
  await fs.rm(draft);
}

async function placeFolder({ dir, parts }: IncomingRun, staging: string): Promise<void> {
  const folder = join(staging, "run");
  await fs.mkdir(folder, { mode: 0o700 });
  for (const { path, sha256: hash, mode } of parts) {
    if (!path.startsWith(RUN_PART)) continue;
    const target = join(folder, path.slice(RUN_PART.length));
    await fs.mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await fs.copyFile(join(staging, hash), target);
    // Only the owner's right to execute comes from the archive; other users get no rights.
    await fs.chmod(target, (mode & OWNER_EXECUTES) === 0 ? 0o600 : 0o700);
    await flush(target);
  }
  // The leftovers of a killed import: without events in the journal there is no run (app/M2).
  await fs.rm(dir.root, { recursive: true, force: true });
  await fs.mkdir(dirname(dir.root), { recursive: true, mode: 0o700 });
  await fs.rename(folder, dir.root);
  await flush(dirname(dir.root));
}
