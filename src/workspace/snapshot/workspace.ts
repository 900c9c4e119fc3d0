/**
 * A directory whose content is snapshotted and restored.
 *
 * Owns: the directory for git, the ignore rules and the index that apply to it, and the paths that
 * are never part of it; the note of a restore beside its index: while it is open, the removable
 * files; when it is done, the spared ones.
 * Does not: read or write the files in it.
 *
 * workspace/W1 `.git` and the state directory are never part of a workspace.
 * workspace/W2 A directory that a repository ignores does not belong to it: its own rules apply.
 * workspace/R5 Files that were ignored, and are not any more because the rules were restored, too,
 *   are in no snapshot: no later restore removes them, until a snapshot has been taken.
 * workspace/W3 An exported run does not belong to a workspace, unless the user's rules say
 *   otherwise.
 */
import { mkdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { sha256 } from "../../util/json.ts";
import { absent, flush, type RawPath, rawPath } from "../disk.ts";
import type { GitCall } from "../git.ts";
import { pathWithin, type Repository, repositoryOf, settingsOf } from "../repository.ts";
import type { Details } from "./details.ts";
import { inStore, type SnapshotStore } from "./store.ts";

/** Larger files are not in snapshots, only named. */
const FILE_BYTES_MAX = 100 * 1024 * 1024;
/** The same for files that git does not track. */
const UNTRACKED_FILE_BYTES_MAX = 10 * 1024 * 1024;

/** The files that `perdure export` writes (workspace/W3). */
const EXPORTS = "*.perdure";

export interface Workspace {
  readonly store: SnapshotStore;
  readonly path: string;
  /** The top of the files for git: the workspace, or a directory above it. */
  readonly root: string;
  /** The workspace below the root, with a slash at its end; "" when it is the root. */
  readonly prefix: RawPath;
  /** The user's checkout that the workspace belongs to. */
  readonly checkout: Repository | undefined;
  /** Ignored files that snapshots contain nevertheless: git's glob patterns. */
  readonly include: readonly string[];
  readonly fileBytesMax: number;
  /** The limit for files that git does not track. */
  readonly untrackedBytesMax: number;
  /** The index: a cache, which may be deleted at any time. */
  readonly indexFile: string;
  /** The result of the last snapshot of this process; a cache. */
  readonly memory: WorkspaceMemory;
  /** The user's settings for it. */
  readonly settings: Awaited<ReturnType<typeof settingsOf>>;
  /** The state directory, if it is in the workspace. */
  readonly stateWithin: RawPath | undefined;
}

/** The times of directories when their names were last listed. */
export type Shape = ReadonlyMap<RawPath, string>;

/** The memory of an open workspace. */
interface WorkspaceMemory {
  /** The files right before they were last read. */
  seen?: WorkspaceScan | undefined;
  /** The same for a workspace with too many files for a quick scan. */
  outline?: Outline | undefined;
  /** The content that was read. */
  content?: Content | undefined;
  /** The snapshot of exactly that content. */
  commit?: string | undefined;
  /** The user's commit that was imported into the store. */
  head?: string | undefined;
  /** True when all its objects are linked into the store. */
  isLinked?: boolean;
  /** The last of these commits that has a name in the store. */
  namedHead?: string | undefined;
  /** The run and the commit of the last durable name that this process has given. */
  named?: string | undefined;
}

/** The state of a workspace as a quick scan finds it, without reading a file. */
export interface WorkspaceScan {
  /** A text that differs for each state of a file, for each file of a snapshot. */
  readonly files: ReadonlyMap<RawPath, string>;
  /** The names in each directory that is read. */
  readonly directories: ReadonlyMap<RawPath, string>;
  /** Files that are so young that another change could leave the same times: their hashes. */
  readonly young: ReadonlyMap<RawPath, string>;
  /** The state of files outside of the workspace: rules, and the user's index. */
  readonly outside: string;
  /** The times of the directories, if they can be trusted. */
  readonly shape: Shape | undefined;
}

/** The state of a workspace with very many files. */
export interface Outline {
  readonly shape: Shape;
  /** As in `WorkspaceScan`. */
  readonly outside: string;
}

/** The content of a workspace, in the store but without a name. */
export interface Content {
  readonly tree: string;
  readonly details: Details;
}

/** Opens a directory as a workspace; its index is in `indexFile`. */
export async function openWorkspace(
  store: SnapshotStore,
  options: {
    readonly path: string;
    readonly indexFile: string;
    readonly include?: readonly string[];
    readonly fileBytesMax?: number;
  },
): Promise<Workspace> {
  const path = await realpath(options.path);
  const { repository } = store;
  const isProject = repository !== undefined && (await realpath(repository.topLevel)) === path;
  const checkout = isProject ? repository : await repositoryOf(path);
  const within = checkout === undefined ? "" : await pathWithin(checkout, path);
  const stateWithin = relative(path, await realpath(store.stateDir));
  await mkdir(dirname(options.indexFile), { recursive: true, mode: 0o700 });
  return {
    store,
    path,
    root: checkout === undefined ? path : await realpath(checkout.topLevel),
    prefix: rawPath(within === "" ? "" : `${within}/`),
    checkout,
    include: options.include ?? [],
    fileBytesMax: options.fileBytesMax ?? FILE_BYTES_MAX,
    untrackedBytesMax: options.fileBytesMax ?? UNTRACKED_FILE_BYTES_MAX,
    indexFile: resolve(options.indexFile),
    memory: {},
    settings: await settingsOf(path, checkout),
    stateWithin: stateWithin.startsWith("..") ? undefined : rawPath(stateWithin),
  };
}

/** The call for git on the workspace with an index; paths are relative to the workspace. */
export function inWorkspace(workspace: Workspace, indexFile: string): GitCall {
  const call = inStore(workspace.store);
  return {
    ...call,
    cwd: workspace.path,
    env: { ...call.env, GIT_WORK_TREE: workspace.root, GIT_INDEX_FILE: indexFile },
    settings: { "core.bare": "false", "core.excludesFile": rulesFileOf(workspace) },
  };
}

/** Collects the rules outside of .gitignore files for git; returns their hash. */
export async function collectRules(workspace: Workspace): Promise<string> {
  const texts = await Promise.all(workspace.settings.excludeFiles.map(textOf));
  const rules = [EXPORTS, ...texts].map((text) => `${text}\n`).join("");
  const file = rulesFileOf(workspace);
  if ((await textOf(file)) !== rules) await writeFile(file, rules);
  return sha256(rules);
}

/** True for a path that is never part of a workspace (workspace/W1). */
export function isOutside(workspace: Workspace, path: string): boolean {
  return [".git", ".perdure", workspace.stateWithin].some(
    (name) => name !== undefined && name !== "" && (path === name || path.startsWith(`${name}/`)),
  );
}

function rulesFileOf({ indexFile }: Workspace): string {
  return `${indexFile}.excludes`;
}

async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "EACCES") return "";
    throw error;
  });
}

/** The data that a restore needs after a kill. */
type RestoreNote =
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

/** Forgets spared files, which a snapshot has now. An unfinished restore stays open. */
export async function clearNote(workspace: Workspace): Promise<void> {
  const note = await readNote(workspace);
  if (note?.status === "done") await rm(noteFileOf(workspace), { force: true });
}

function noteFileOf({ indexFile }: Workspace): string {
  return `${indexFile}.restore`;
}
