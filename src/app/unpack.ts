/**
 * The parts of an imported run, put where they belong here.
 *
 * Owns: the run's folder, its artifacts, snapshots and transcripts, before the journal has the run.
 * Does not: verify hashes (workspace/archive.ts has) or write the journal.
 * Invariants: M2 and M3 of commands/import.ts; each file and the folder appear whole.
 */

import { existsSync } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Recorded } from "../core/event.ts";
import type { Run } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { transcriptHere } from "../engine/agent/open-conversations.ts";
import type { RunDir } from "../engine/state-dir.ts";
import type { Plan } from "../plan/plan.ts";
import type { TranscriptTarget } from "../runner/agents/adapter.ts";
import { failpoint } from "../util/failpoint.ts";
import type { Part } from "../workspace/archive.ts";
import { describeFile, keepArtifact } from "../workspace/artifact.ts";
import { flush } from "../workspace/disk.ts";
import { readBundle } from "../workspace/snapshot/bundle.ts";
import { hasCommit, openStore, type SnapshotStore } from "../workspace/snapshot/store.ts";
import { advice, command, Refusal } from "./refusal.ts";
import {
  ARTIFACT_PART,
  type ArchivedConversation,
  type ArchivedRun,
  BUNDLE_PART,
  RUN_PART,
} from "./run-archive.ts";
import { runEnvironment } from "./run-environment.ts";

const OWNER_EXECUTES = 0o100;

/** A run from an archive that is not stored yet. */
export interface IncomingRun {
  readonly about: ArchivedRun;
  readonly plan: Plan;
  /** After the move. */
  readonly run: Run;
  readonly events: readonly Recorded[];
  readonly dir: RunDir;
  readonly stateDir: string;
  readonly parts: readonly Part[];
}

/** A transcript that is to be put here. */
export interface NewTranscript {
  readonly target: TranscriptTarget;
  readonly sha256: string;
}

/** The transcripts that are missing here; refuses what would have to be overwritten (M3). */
export async function missingTranscripts(incoming: IncomingRun): Promise<readonly NewTranscript[]> {
  const { about, plan, run, dir, parts } = incoming;
  const site = { plan, run, dir, env: runEnvironment(run) };
  const missing: NewTranscript[] = [];
  for (const conversation of about.conversations) {
    const part = parts.find(({ path }) => path === conversation.part);
    const { known, target } = transcriptHere(site, conversation, conversation.file);
    if (part === undefined || target === undefined) continue;
    const there = await describeFile(known ?? target.path);
    if (there === undefined) missing.push({ target, sha256: part.sha256 });
    else if (there.sha256 !== part.sha256) throw anotherTranscript(conversation, there.path);
  }
  return missing;
}

function anotherTranscript({ place }: ArchivedConversation, path: string): Refusal {
  const step = stepPath(place);
  const message = `another transcript of the conversation of ${step} is here already: ${path}`;
  return new Refusal("files-in-the-way", message, advice("move it away, then import again"));
}

/** Refuses to take the place of a run that only its folder knows. */
export function checkFolder({ dir }: IncomingRun): void {
  if (!existsSync(dir.events)) return;
  const message = `${dir.root} holds a run that the journal does not know`;
  throw new Refusal("missing-journal", message, command("doctor", "--repair"));
}

/** Puts all parts in their places; `staging` has them under their hashes. */
export async function unpack(
  incoming: IncomingRun,
  transcripts: readonly NewTranscript[],
  staging: string,
): Promise<void> {
  const { about, run, dir, stateDir, parts } = incoming;
  for (const part of parts) {
    if (!part.path.startsWith(ARTIFACT_PART)) continue;
    await keepArtifact(dir.artifacts, join(staging, part.sha256));
  }
  const project = run.created?.cwd ?? dirname(stateDir);
  await fs.mkdir(project, { recursive: true });
  const bundle = parts.find(({ path }) => path === BUNDLE_PART);
  if (bundle !== undefined) {
    const store = await openStore({ project, stateDir });
    for (const commit of about.base) await needBase(store, commit);
    await readBundle(store, join(staging, bundle.sha256));
  }
  for (const one of transcripts) await placeTranscript(one, staging);
  failpoint("import.placed");
  await placeFolder(incoming, staging);
  failpoint("import.folder");
}

async function needBase(store: SnapshotStore, commit: string): Promise<void> {
  if (await hasCommit(store, commit)) return;
  const message = `the run was exported without its base, and the commit ${commit} is not here`;
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
  // Not renamed: a link never takes the place of a file that has appeared meanwhile.
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
    // Of what the archive says only this counts: nobody else gets to read, write or be anything.
    await fs.chmod(target, (mode & OWNER_EXECUTES) === 0 ? 0o600 : 0o700);
    await flush(target);
  }
  // What an import that was killed had put there; without events it is no run (M2).
  await fs.rm(dir.root, { recursive: true, force: true });
  await fs.mkdir(dirname(dir.root), { recursive: true, mode: 0o700 });
  await fs.rename(folder, dir.root);
  await flush(dirname(dir.root));
}
