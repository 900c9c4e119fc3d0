/**
 * Places the parts of a run on this machine: its folder, artifacts, snapshots and transcripts. A run
 * comes from an exported file, or from the store of a fleet.
 *
 * Owns: where each part belongs, and the order: the run's folder comes after everything that its
 * attempts need.
 * Does not: verify parts (workspace/archive.ts, fleet/fetch.ts), or record that the run is here.
 */
import { existsSync } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Run } from "../core/run.ts";
import { transcriptHere } from "../engine/agent/open-conversations.ts";
import { placeOwnFiles } from "../engine/export-files.ts";
import type { RunDir } from "../engine/state-dir.ts";
import type { Plan } from "../plan/plan.ts";
import type { TranscriptTarget } from "../runner/agents/adapter.ts";
import { failpoint } from "../util/failpoint.ts";
import type { Part } from "../workspace/archive.ts";
import { keepArtifact } from "../workspace/artifact.ts";
import { flush } from "../workspace/disk.ts";
import { readBundle } from "../workspace/snapshot/bundle.ts";
import {
  hasCommit,
  openStore,
  type SnapshotRef,
  type SnapshotStore,
  writeRefs,
} from "../workspace/snapshot/store.ts";
import { runEnvironment } from "./drive/run-environment.ts";
import { advice, Refusal } from "./refusal.ts";
import {
  ARTIFACT_PART,
  type ArchivedConversation,
  type ArchivedRun,
  BUNDLE_PART,
  BUNDLES_PART,
  NAMES_PART,
  RUN_PART,
} from "./transfer/run-archive.ts";

const OWNER_EXECUTES = 0o100;

/** A run on its way in. */
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
