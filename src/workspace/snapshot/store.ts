/**
 * The store of snapshots: a private git directory in the state of the project, with commits and a
 * list of names for each run.
 *
 * Owns: `<stateDir>/snapshots.git`, the names of snapshots, and lookups by name.
 * Does not: read files of a workspace (scan, snapshot, restore do), or write to the user's
 * repository.
 *
 * - store/S1 The store has its own objects and names. Objects of the user's repository are linked
 *   or copied, so a change there cannot break a snapshot.
 * - store/S3 Names are lines that are appended to a file of the run and flushed. There is no lock,
 *   so no kill leaves one; an incomplete line does not count.
 */

import { appendFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import { absent, flush } from "../disk.ts";
import { type GitCall, git, gitFailure, startGit } from "../git.ts";
import { type Repository, repositoryOf, theirs } from "../repository.ts";
import { WorkspaceError } from "../workspace-error.ts";
import { linkObjects, makeFolders, makeSafe, replaceFile } from "./store-files.ts";

/** The refs of snapshots. */
export const REFS = "refs/perdure/";
/** The refs of the commits that were checked out at snapshots. */
export const HEAD_REFS = "refs/perdure-heads/";

const ABOUT_FILE = "perdure.json";
const VERSION = 2;
const NAME_LINE = /^([0-9a-f]{40}|[0-9a-f]{64}) (refs\/perdure(?:-heads)?\/.+)$/;
const NEWLINE = 10;

export interface SnapshotStore {
  /** The private git directory. */
  readonly gitDir: string;
  /** The state directory of the project, which is in no snapshot. */
  readonly stateDir: string;
  /** The repository that the project's files belong to. */
  readonly repository: Repository | undefined;
  readonly objectDir: string;
  readonly format: Repository["objectFormat"];
}

/** A name in the store, and its snapshot. */
export interface SnapshotRef {
  readonly ref: string;
  readonly commit: string;
}

/** The version and the format of a store. */
interface About {
  readonly version: number;
  readonly format: Repository["objectFormat"];
}

/** Opens the store of a project; creates it if there is none. */
export async function openStore(options: {
  readonly project: string;
  readonly stateDir: string;
}): Promise<SnapshotStore> {
  const { stateDir } = options;
  const gitDir = join(stateDir, "snapshots.git");
  const repository = await repositoryOf(options.project);
  const about = (await readAbout(gitDir)) ?? (await makeStore(gitDir, repository));
  await makeSafe(gitDir, about.format);
  const objectDir = join(gitDir, "objects");
  const store = { gitDir, stateDir, repository, objectDir, format: about.format };
  if (about.version !== VERSION) throw otherVersion(gitDir);
  return store;
}

function otherVersion(gitDir: string): WorkspaceError {
  return new WorkspaceError(
    "store-unknown",
    `another version of perdure wrote the snapshots in ${gitDir}, in a form that this one cannot read`,
    `use that version here; or give the snapshots up with: rm -r '${gitDir}'`,
  );
}

/** The call for git on the store, without the settings of the project. */
export function inStore(store: SnapshotStore): GitCall {
  const env = { GIT_DIR: store.gitDir, GIT_OBJECT_DIRECTORY: store.objectDir };
  return { cwd: store.gitDir, as: "ours", env };
}

/** The same call, with the objects of the user's repository. */
export function inStoreAndProject(store: SnapshotStore): GitCall {
  const call = inStore(store);
  if (!isSameFormat(store)) return call;
  const also = join(store.repository?.commonDir ?? "", "objects");
  return { ...call, env: { ...call.env, GIT_ALTERNATE_OBJECT_DIRECTORIES: JSON.stringify(also) } };
}

/** Imports commits of the user's repository, with all their objects, into the store. */
export async function importCommits(
  store: SnapshotStore,
  commits: readonly string[],
  without: readonly string[] = [],
): Promise<void> {
  if (commits.length === 0 || (await linkProject(store))) return;
  const { repository } = store;
  if (repository === undefined || !isSameFormat(store)) return;
  const revisions = [...commits, ...without.map((commit) => `^${commit}`)];
  const from = theirs(repository.commonDir);
  const packing = await startGit(from, "pack-objects", "--revs", "--stdout", "--quiet");
  packing.stdin?.end(`${revisions.join("\n")}\n`);
  const input = packing.stdout ?? "";
  await git({ ...inStore(store), input }, "index-pack", "--stdin", "--fix-thin");
}

/** Returns a commit to a repository that has lost it; the store still has it. */
export async function returnCommit(
  store: SnapshotStore,
  repository: Repository,
  commit: string,
): Promise<void> {
  const to = theirs(repository.commonDir);
  const asked = await git({ ...to, answers: [1, 128] }, "cat-file", "-e", `${commit}^{commit}`);
  if (asked.exit === 0) return;
  const packing = await startGit(inStore(store), "pack-objects", "--revs", "--stdout", "--quiet");
  packing.stdin?.end(`${commit}\n`);
  await git({ ...to, input: packing.stdout ?? "" }, "index-pack", "--stdin");
}

/** Links the objects of the project's repository; false when that is impossible. */
export async function linkProject(store: SnapshotStore): Promise<boolean> {
  if (store.repository === undefined || !isSameFormat(store)) return false;
  return linkObjects(join(store.repository.commonDir, "objects"), store.objectDir);
}

/** The same, unless it was already done for this commit. */
export async function linkHead(store: SnapshotStore, commit: string): Promise<boolean> {
  const mark = join(indexesOf(store), "linked");
  if ((await fs.readFile(mark, "utf8").catch(absent)) === commit) return true;
  if (!(await linkProject(store))) return false;
  await fs.mkdir(indexesOf(store), { recursive: true, mode: 0o700 });
  await replaceFile(mark, commit);
  return true;
}

/** Gives snapshots their names; durable when it returns. */
export async function writeRefs(store: SnapshotStore, refs: readonly SnapshotRef[]): Promise<void> {
  for (const [file, some] of Map.groupBy(refs, ({ ref }) => namesFileOf(store, ref))) {
    await fs.mkdir(dirname(file), { recursive: true });
    await append(file, some.map(({ ref, commit }) => `${commit} ${ref}\n`).join(""));
  }
}

/**
 * Gives a commit another name in a file that this process has written to. It is not flushed: the
 * earlier name keeps the commit, and if this one is lost, the same snapshot is taken again.
 */
export function nameAgain(store: SnapshotStore, { ref, commit }: SnapshotRef): void {
  appendFileSync(namesFileOf(store, ref), `${commit} ${ref}\n`);
}

/** Removes snapshots by their names, with their head commits; a missing one is no error. */
export async function dropRefs(store: SnapshotStore, refs: readonly string[]): Promise<void> {
  for (const [file, some] of Map.groupBy(refs, (ref) => namesFileOf(store, ref))) {
    const gone = new Set([...some, ...some.map(headRefOf)]);
    const kept = (await namesIn(file)).filter(({ ref }) => !gone.has(ref));
    if (!kept.some(({ ref }) => ref.startsWith(REFS))) await fs.rm(file, { force: true });
    else {
      const text = kept.map(({ ref, commit }) => `${commit} ${ref}\n`).join("");
      await replaceFile(file, text);
    }
    await flush(dirname(file));
  }
  failpoint("workspace.refs-dropped");
}

/** The snapshots whose names begin with this, such as "refs/perdure/<run>/", sorted. */
export async function listRefs(
  store: SnapshotStore,
  prefix: string = REFS,
): Promise<readonly SnapshotRef[]> {
  const run = prefix.split("/")[2] ?? "";
  const files = run === "" ? await namesFiles(store) : [namesFileOf(store, prefix)];
  const start = prefix.endsWith("/") ? prefix : `${prefix}/`;
  const all = (await Promise.all(files.map(namesIn))).flat();
  return all
    .filter(({ ref }) => ref === prefix || ref.startsWith(start))
    .sort((a, b) => (a.ref < b.ref ? -1 : 1));
}

/** The ref of the commit that was checked out at a snapshot. */
export function headRefOf(ref: string): string {
  return ref.replace(REFS, HEAD_REFS);
}

/** True when the store, or the project's repository, has this commit. */
export async function hasCommit(store: SnapshotStore, commit: string): Promise<boolean> {
  const call = { ...inStoreAndProject(store), answers: [1, 128] };
  return (await git(call, "cat-file", "-e", `${commit}^{commit}`)).exit === 0;
}

/** The bytes of a file in a snapshot, or undefined when the snapshot has no such file. */
export async function readSnapshotFile(
  store: SnapshotStore,
  commit: string,
  path: string,
): Promise<Buffer | undefined> {
  await needCommit(store, commit);
  const call = { ...inStoreAndProject(store), answers: [128] };
  const result = await git(call, "cat-file", "blob", `${commit}:${path}`);
  return result.exit === 0 ? result.stdout : undefined;
}

/** Throws if the store does not have this commit. */
export async function needCommit(store: SnapshotStore, commit: string): Promise<void> {
  if (!(await hasCommit(store, commit))) throw missingCommit(store, commit);
}

/** The error for a missing snapshot. */
export function missingCommit(store: SnapshotStore, commit: string): WorkspaceError {
  return new WorkspaceError(
    "snapshot-missing",
    `the snapshot ${commit} is not in ${store.gitDir}`,
    "it may have been cleaned; choose another checkpoint, or import the run again",
  );
}

/** Packs the named snapshots, so that many snapshots need only the space of their differences. */
export async function packStore(store: SnapshotStore): Promise<void> {
  const refs = await listRefs(store);
  if (refs.length === 0) return;
  const input = [...new Set(refs.map(({ commit }) => `${commit}\n`))].join("");
  const pack = join(store.objectDir, "pack", "pack");
  const flags = ["--revs", "--unpacked", "--incremental", "--non-empty", "--quiet"];
  await git({ ...inStoreAndProject(store), input }, "pack-objects", ...flags, pack);
  failpoint("workspace.packed");
  await git(inStore(store), "prune-packed", "--quiet");
}

/**
 * Frees the space of removed snapshots. `others` says whether a run may be taking a snapshot now,
 * whose objects have no name yet; then young objects stay.
 */
export async function tidyStore(
  store: SnapshotStore,
  { others }: { readonly others: boolean },
): Promise<void> {
  // An index may name objects that are removed now.
  await fs.rm(indexesOf(store), { recursive: true, force: true });
  // Head commits need their history, which is complete only if it is linked.
  const heads = (await linkProject(store)) ? await listRefs(store, HEAD_REFS) : [];
  const refs = [...(await listRefs(store)), ...heads];
  if (refs.length === 0 && !others) {
    await fs.rm(store.objectDir, { recursive: true, force: true });
    makeFolders(store.gitDir);
    return;
  }
  await keepLinkedPacks(join(store.objectDir, "pack"));
  const unreachable = others ? ["-A", "--unpack-unreachable=1.day.ago"] : ["-a"];
  await withRefs(inStore(store), refs, async (call) => {
    await git(call, "repack", "-d", "-q", ...unreachable);
    failpoint("workspace.repacked");
    await git(call, "prune", `--expire=${others ? "1.day.ago" : "now"}`);
  });
  failpoint("workspace.tidied");
}

/** A pack that is linked from the user's repository costs no space, so it is not packed again. */
async function keepLinkedPacks(directory: string): Promise<void> {
  for (const name of await fs.readdir(directory)) {
    if (!name.endsWith(".pack")) continue;
    const keep = join(directory, name.replace(/pack$/, "keep"));
    const { nlink } = await fs.stat(join(directory, name));
    if (nlink > 1) await fs.writeFile(keep, "");
    else await fs.rm(keep, { force: true });
  }
}

/** Runs git with the names as refs, for commands that need refs: the store itself has none. */
export async function withRefs(
  call: GitCall,
  refs: readonly SnapshotRef[],
  work: (call: GitCall) => Promise<void>,
): Promise<void> {
  const gitDir = await fs.mkdtemp(join(tmpdir(), "perdure-refs-"));
  try {
    for (const name of ["HEAD", "config"]) {
      await fs.copyFile(join(call.cwd, name), join(gitDir, name));
    }
    await fs.mkdir(join(gitDir, "refs"));
    const lines = refs
      .toSorted((a, b) => (a.ref < b.ref ? -1 : 1))
      .map(({ ref, commit }) => `${commit} ${ref}\n`);
    const text = `# pack-refs with: sorted \n${lines.join("")}`;
    await fs.writeFile(join(gitDir, "packed-refs"), text);
    await work({ ...call, cwd: gitDir, env: { ...call.env, GIT_DIR: gitDir } });
  } finally {
    await fs.rm(gitDir, { recursive: true, force: true });
  }
}

/** The problems that git finds in the objects of the named snapshots, as lines. */
export async function checkStore(store: SnapshotStore): Promise<readonly string[]> {
  const refs = await listRefs(store);
  if (refs.length === 0) return [];
  const call = { ...inStore(store), answers: [1, 2, 3, 4, 5, 6, 7, 8] };
  const commits = [...new Set(refs.map(({ commit }) => commit))];
  const flags = ["--no-dangling", "--no-progress", "--connectivity-only"];
  const { stdout, stderr, exit } = await git(call, "fsck", ...flags, ...commits);
  const lines = `${stdout.toString("utf8")}${stderr}`
    .split("\n")
    .filter((line) => line !== "" && !/^notice: |^dangling /.test(line));
  if (lines.length === 0 && exit !== 0) throw gitFailure(call, ["fsck"], { exit, stderr });
  return lines;
}

/** The directory of the indexes for later runs. */
export function indexesOf({ gitDir }: SnapshotStore): string {
  return join(gitDir, "indexes");
}

function isSameFormat({ repository, format }: SnapshotStore): boolean {
  return repository?.objectFormat === format;
}

async function readAbout(gitDir: string): Promise<About | undefined> {
  const text = await fs.readFile(join(gitDir, ABOUT_FILE), "utf8").catch(absent);
  if (text === undefined) return undefined;
  const { version = 1, format } = JSON.parse(text) as Partial<About>;
  return { version, format: format === "sha256" ? "sha256" : "sha1" };
}

async function writeAbout(gitDir: string, about: About): Promise<void> {
  await replaceFile(join(gitDir, ABOUT_FILE), `${JSON.stringify(about)}\n`);
}

let making = 0;

/** Makes the private directory under another name, then renames it. */
async function makeStore(gitDir: string, repository: Repository | undefined): Promise<About> {
  const format = repository?.objectFormat ?? "sha1";
  const about: About = { version: VERSION, format };
  const made = `${gitDir}.${process.pid}-${making++}`;
  await fs.rm(made, { recursive: true, force: true });
  await fs.mkdir(made, { recursive: true, mode: 0o700 });
  await makeSafe(made, format);
  await writeAbout(made, about);
  failpoint("workspace.store-made");
  await fs.rename(made, gitDir).catch(async (error: NodeJS.ErrnoException) => {
    // Somebody else has just created it.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    await fs.rm(made, { recursive: true, force: true });
  });
  return (await readAbout(gitDir)) ?? about;
}

/** The run that a name belongs to. */
export function runOf(ref: string): string {
  return ref.split("/")[2] ?? "";
}

function namesFileOf(store: SnapshotStore, ref: string): string {
  const ours = ref.startsWith(REFS) || ref.startsWith(HEAD_REFS);
  const run = runOf(ref);
  assert(ours && run !== "" && run !== "..", `${ref} is not a name of ours`);
  return join(store.gitDir, "names", run);
}

async function namesFiles({ gitDir }: SnapshotStore): Promise<readonly string[]> {
  const names = await fs.readdir(join(gitDir, "names"));
  return names.filter((name) => !name.endsWith(".new")).map((name) => join(gitDir, "names", name));
}

/** The names in the file of a run: the last line of a name counts, an incomplete line does not. */
async function namesIn(file: string): Promise<readonly SnapshotRef[]> {
  const text = (await fs.readFile(file, "utf8").catch(absent)) ?? "";
  const found = new Map<string, string>();
  for (const line of text.split("\n").slice(0, -1)) {
    const [, commit, ref] = NAME_LINE.exec(line) ?? [];
    if (commit !== undefined && ref !== undefined) found.set(ref, commit);
  }
  return [...found].map(([ref, commit]) => ({ ref, commit }));
}

async function append(file: string, text: string): Promise<void> {
  const handle = await fs.open(file, "a+", 0o600);
  try {
    const { size } = await handle.stat();
    const last = Buffer.alloc(1);
    if (size > 0) await handle.read(last, 0, 1, size - 1);
    // A power failure may have cut the last line short; it is removed.
    if (size > 0 && last[0] !== NEWLINE) await handle.truncate(await wholeLines(handle));
    await handle.write(text);
    await handle.sync();
    if (size === 0) await flush(dirname(file));
  } finally {
    await handle.close();
  }
}

async function wholeLines(handle: fs.FileHandle): Promise<number> {
  return (await handle.readFile()).lastIndexOf(NEWLINE) + 1;
}
