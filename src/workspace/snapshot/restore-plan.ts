/**
 * The changes that restoring a snapshot would make in a workspace.
 *
 * Owns: the difference between the workspace and the snapshot, and which files are protected;
 * reading many objects through one git process, without keeping them in memory.
 * Does not: change a file of the workspace.
 *
 * restore-plan/R1 A file is removed only if a snapshot would contain it now and would have
 *   contained it then: files that the current rules or those of the snapshot ignore stay, and
 *   skipped ones, too.
 * restore-plan/R2 A file that is in no snapshot and has the path of another file of the snapshot is
 *   never removed; it blocks the plan.
 */

import { once } from "node:events";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  directoriesAbove,
  joinNul,
  kindAt,
  pathUnder,
  type RawPath,
  shownPath,
  splitNul,
} from "../disk.ts";
import { changesBetween, type FileChange, git, gitFailure, startGit } from "../git.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { type Details, isAtOrBelow, readSnapshot } from "./details.ts";
import { isRulesFile } from "./quick-scan.ts";
import { readContent } from "./snapshot.ts";
import { inStore, type SnapshotStore } from "./store.ts";
import { type Content, inWorkspace, readNote, type Workspace } from "./workspace.ts";

/** A file that a restore writes. */
export type PlannedFile = NonNullable<FileChange["to"]> & {
  readonly path: RawPath;
  readonly status: "added" | "changed";
};

export interface RestorePlan {
  readonly commit: string;
  /** The tree of the snapshot. */
  readonly tree: string;
  /** The content that the workspace has now. */
  readonly now: Content;
  /** The details of the snapshot. */
  readonly was: Details;
  readonly write: readonly PlannedFile[];
  readonly remove: readonly RawPath[];
  /** The files that a repeated restore after a kill may remove: not more than the first. */
  readonly mayRemove: readonly RawPath[];
  /** Files that are not in the snapshot but stay (restore-plan/R1). */
  readonly left: readonly RawPath[];
  /** Files that are overwritten although a snapshot now would not contain them. */
  readonly unsaved: readonly RawPath[];
  /** The files that block the plan (restore-plan/R2). */
  readonly blocked: readonly RawPath[];
}

/** A plan for people: paths as text. */
export interface RestorePreview {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly left: readonly string[];
  readonly unsaved: readonly string[];
  readonly blocked: readonly string[];
}

/** Compares a workspace with a snapshot of it. */
export async function planRestore(workspace: Workspace, commit: string): Promise<RestorePlan> {
  const snapshot = await readSnapshot(workspace.store, commit);
  const now = await readContent(workspace);
  const { write, gone } = await changesTo(workspace.store, now.tree, snapshot.tree);
  const rulesDiffer = [...write.map(({ path }) => path), ...gone].some(isRulesFile);
  const ignoredThen = rulesDiffer
    ? await ignoredBy(workspace, snapshot.tree, gone)
    : new Set<RawPath>();
  const note = await readNote(workspace);
  const spared = new Set(note?.status === "done" ? note.spared : []);
  const going =
    note?.status === "open" && note.commit === commit ? new Set(note.remove) : undefined;
  const stays = (path: RawPath): boolean =>
    ignoredThen.has(path) ||
    isAtOrBelow(snapshot.details.skipped, path) ||
    spared.has(path) ||
    going?.has(path) === false;
  const remove = gone.filter((path) => !stays(path));
  return {
    commit,
    tree: snapshot.tree,
    now,
    was: snapshot.details,
    write,
    remove,
    mayRemove: going === undefined ? remove : [...going],
    left: gone.filter(stays),
    ...(await obstacles(workspace, write, remove)),
  };
}

/** A plan with paths as text. */
export function shownPlan({ write, remove, left, unsaved, blocked }: RestorePlan): RestorePreview {
  const withStatus = (status: PlannedFile["status"]): readonly string[] =>
    write.filter((file) => file.status === status).map(({ path }) => shownPath(path));
  return {
    added: withStatus("added"),
    changed: withStatus("changed"),
    removed: remove.map(shownPath),
    left: left.map(shownPath),
    unsaved: unsaved.map(shownPath),
    blocked: blocked.map(shownPath),
  };
}

/** The files to write and to remove, so that one tree becomes another. */
export async function changesTo(
  store: SnapshotStore,
  from: string,
  to: string,
): Promise<{ write: readonly PlannedFile[]; gone: readonly RawPath[] }> {
  const changes = await changesBetween(inStore(store), from, to);
  const write = changes.flatMap(({ path, from: before, to: after }): readonly PlannedFile[] => {
    const status = before === undefined ? "added" : "changed";
    return after === undefined ? [] : [{ path, status, ...after }];
  });
  return {
    write,
    gone: changes.filter((change) => change.to === undefined).map(({ path }) => path),
  };
}

/** The paths that the rules of a tree ignore; git checks them in a directory with these rules. */
export async function ignoredBy(
  workspace: Workspace,
  tree: string,
  paths: readonly RawPath[],
): Promise<ReadonlySet<RawPath>> {
  const directory = `${workspace.indexFile}.work-${process.pid}-rules`;
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const flags = ["-r", "-z", tree];
  const entries = splitNul((await git(inStore(workspace.store), "ls-tree", ...flags)).stdout);
  const reader = await openBlobReader(workspace.store);
  try {
    for (const entry of entries.filter(isRulesFileEntry)) {
      const path = entry.slice(entry.indexOf("\t") + 1);
      const file = join(directory, shownPath(path));
      reader.ask([entry.split(/[ \t]/)[2] ?? ""]);
      const content = await wholeOf(await reader.read());
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, content);
    }
  } finally {
    await reader.close();
  }
  const call = inWorkspace(
    { ...workspace, root: directory, path: directory },
    `${directory}/.none`,
  );
  const asking = { ...call, input: joinNul(paths), answers: [1] };
  const result = await git(asking, "check-ignore", "--no-index", "-z", "--stdin");
  await rm(directory, { recursive: true, force: true });
  return new Set(splitNul(result.stdout));
}

function isRulesFileEntry(entry: string): boolean {
  return entry.startsWith("100") && isRulesFile(entry.slice(entry.indexOf("\t") + 1));
}

async function obstacles(
  workspace: Workspace,
  write: readonly PlannedFile[],
  remove: readonly RawPath[],
): Promise<{ unsaved: readonly RawPath[]; blocked: readonly RawPath[] }> {
  const removed = new Set(remove);
  const kinds = new Map<RawPath, "directory" | "other" | undefined>();
  const unsaved: RawPath[] = [];
  const blocked: RawPath[] = [];
  for (const { path, kind } of write.filter(({ status }) => status === "added")) {
    const above = directoriesAbove(path);
    for (const directory of above) {
      if (kinds.has(directory)) break;
      const there = await kindAt(workspace.path, directory);
      kinds.set(directory, there);
      if (there === "other" && !removed.has(directory)) blocked.push(directory);
    }
    if (above[0] !== undefined && kinds.get(above[0]) !== "directory") continue;
    const there = await kindAt(workspace.path, path);
    if (there === "directory" && kind !== "repository") {
      blocked.push(...(await keptBelow(workspace, path, removed)));
    } else if (there === "other" && !removed.has(path)) unsaved.push(path);
  }
  return { unsaved, blocked };
}

/** Files below a directory that would remain after the removal. */
async function keptBelow(
  workspace: Workspace,
  path: RawPath,
  removed: ReadonlySet<RawPath>,
): Promise<readonly RawPath[]> {
  const options = { withFileTypes: true, encoding: "latin1" } as const;
  const entries = await readdir(pathUnder(workspace.path, path), options);
  const kept: RawPath[] = [];
  for (const entry of entries) {
    const inner = `${path}/${entry.name}` as RawPath;
    if (entry.isDirectory()) kept.push(...(await keptBelow(workspace, inner, removed)));
    else if (!removed.has(inner)) kept.push(inner);
  }
  return kept;
}

const NEWLINE = 10;

/** One object: its size and its content, which must be read completely. */
interface Blob {
  readonly bytes: number;
  readonly pieces: AsyncGenerator<Buffer>;
}

/** Reads objects one after another, each completely, in the order of the requests. */
interface BlobReader {
  ask(hashes: readonly string[]): void;
  read(): Promise<Blob>;
  close(): Promise<void>;
}

/** Starts a reader of a store's objects. */
export async function openBlobReader(store: SnapshotStore): Promise<BlobReader> {
  const call = inStore(store);
  const child = await startGit(call, "cat-file", "--batch");
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error("git has no streams");
  const ended = once(child, "close");
  let words = "";
  stderr.on("data", (chunk) => {
    words += String(chunk);
  });
  const chunks = stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest = Buffer.alloc(0);
  const more = async (): Promise<Buffer> => {
    const { value, done } = await chunks.next();
    if (done === true) throw gitFailure(call, ["cat-file"], { exit: 0, stderr: words });
    return value;
  };
  async function header(): Promise<string> {
    for (;;) {
      const end = rest.indexOf(NEWLINE);
      if (end < 0) {
        rest = Buffer.concat([rest, await more()]);
        continue;
      }
      const line = rest.subarray(0, end).toString("latin1");
      rest = rest.subarray(end + 1);
      return line;
    }
  }
  function ask(hashes: readonly string[]): void {
    stdin?.write(hashes.map((hash) => `${hash}\n`).join(""));
  }
  async function* piecesOf(bytes: number): AsyncGenerator<Buffer> {
    // Git adds a newline after the content.
    for (let left = bytes + 1; left > 0; ) {
      if (rest.length === 0) rest = Buffer.from(await more());
      const piece = rest.subarray(0, left);
      rest = rest.subarray(piece.length);
      left -= piece.length;
      yield left === 0 ? piece.subarray(0, -1) : piece;
    }
  }
  async function read(): Promise<Blob> {
    const [hash = "", type, size] = (await header()).split(" ");
    if (type === "missing") throw missing(store, hash);
    return { bytes: Number(size), pieces: piecesOf(Number(size)) };
  }
  async function close(): Promise<void> {
    stdin?.end();
    stdout?.destroy();
    await ended;
  }
  return { ask, read, close };
}

/** The whole content of a small blob. */
export async function wholeOf({ pieces }: Blob): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

function missing(store: SnapshotStore, hash: string): WorkspaceError {
  return new WorkspaceError(
    "snapshot-missing",
    `an object of the snapshot, ${hash}, is not in ${store.objectDir}`,
    "look at the repository with: git fsck",
  );
}
