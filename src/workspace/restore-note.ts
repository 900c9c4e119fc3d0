/**
 * What a restore must remember over a kill, beside the index of its workspace.
 *
 * Owns: the note: while it is open, what may be removed; when it is done, what was spared.
 * Does not: decide what that is (restore-plan.ts does).
 *
 * R5 Files that were ignored, and are not any more because the rules went back too, are in no
 *    snapshot: no later restore removes them either, until a snapshot has been taken.
 */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { absent, flush } from "./disk.ts";
import type { RawPath } from "./raw-path.ts";
import type { Workspace } from "./workspace.ts";

export type RestoreNote =
  | { readonly status: "open"; readonly commit: string; readonly remove: readonly RawPath[] }
  | { readonly status: "done"; readonly spared: readonly RawPath[] };

/** The note of a workspace, if there is one. */
export async function readNote(workspace: Workspace): Promise<RestoreNote | undefined> {
  const text = await readFile(noteFileOf(workspace), "utf8").catch(absent);
  return text === undefined ? undefined : (JSON.parse(text) as RestoreNote);
}

/** Writes the note; durable when it returns. */
export async function writeNote(workspace: Workspace, note: RestoreNote): Promise<void> {
  const file = noteFileOf(workspace);
  await writeFile(`${file}.new`, JSON.stringify(note), { flush: true });
  await rename(`${file}.new`, file);
  await flush(dirname(file));
}

/** Forgets what was spared: a snapshot holds it now. A restore that is not finished stays open. */
export async function clearNote(workspace: Workspace): Promise<void> {
  const note = await readNote(workspace);
  if (note?.status === "done") await rm(noteFileOf(workspace), { force: true });
}

function noteFileOf({ indexFile }: Workspace): string {
  return `${indexFile}.restore`;
}
