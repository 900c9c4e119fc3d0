/**
 * Where snapshots live: commits under refs of ours.
 *
 * Owns: the private git directory `<stateDir>/snapshots.git`, the choice of where objects and refs
 * go, and what is asked of a snapshot by its name.
 * Does not: look at working files (scan, snapshot, restore do).
 *
 * S1 In a project with git, objects and refs go into the project's own repository (refs protect them
 *    from its garbage collection); otherwise into the private one. The choice is made once.
 * S2 Git runs with the private directory as its GIT_DIR in both cases: the project's settings,
 *    attributes and filters are not seen, so bytes are stored as they are.
 * S3 Only refs under refs/perdure and refs/perdure-heads are ever written.
 */
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { assert } from "../util/assert.ts";
import { failpoint } from "../util/failpoint.ts";
import { absent } from "./disk.ts";
import { type GitCall, git, gitFailure } from "./git.ts";
import { findRepository, isIgnored, type Repository } from "./repository.ts";
import { WorkspaceError } from "./workspace-error.ts";

/** Snapshots have their refs here. */
export const REFS = "refs/perdure/";
/** The commit that was checked out at a snapshot is kept alive here, under the same name. */
export const HEAD_REFS = "refs/perdure-heads/";

/** Turns off everything that would change bytes on their way in or out, whatever a project says. */
const ATTRIBUTES = "* -text !eol -crlf -ident -filter !working-tree-encoding\n";
const CHOICE_FILE = "perdure.json";

export interface SnapshotStore {
  /** The private git directory. */
  readonly gitDir: string;
  /** The project's state directory, which no snapshot holds. */
  readonly stateDir: string;
  /** The project's repository, when it holds the objects. */
  readonly repository: Repository | undefined;
  /** The git directory that holds the refs. */
  readonly refsDir: string;
  readonly objectDir: string;
}

interface Choice {
  readonly objects: "project" | "private";
  readonly format: "sha1" | "sha256";
}

/** A ref of the store and the snapshot that it names. */
export interface SnapshotRef {
  readonly ref: string;
  readonly commit: string;
}

/** Opens the store of a project, and makes it if there is none. */
export async function openStore(options: {
  readonly project: string;
  readonly stateDir: string;
}): Promise<SnapshotStore> {
  const { stateDir } = options;
  const gitDir = join(stateDir, "snapshots.git");
  const repository = await repositoryOf(options.project);
  const choice = (await readChoice(gitDir)) ?? (await makePrivate(gitDir, repository));
  if (choice.objects === "private") {
    const objectDir = join(gitDir, "objects");
    return { gitDir, stateDir, repository: undefined, refsDir: gitDir, objectDir };
  }
  if (repository === undefined || repository.objectFormat !== choice.format) {
    throw new WorkspaceError(
      "store-moved",
      `the snapshots were kept in the git repository of ${options.project}, which is ${
        repository === undefined ? "not there any more" : "another one now"
      }`,
      `put the repository back; or give the snapshots up with: rm -r '${gitDir}'`,
    );
  }
  const refsDir = repository.commonDir;
  return { gitDir, stateDir, repository, refsDir, objectDir: join(refsDir, "objects") };
}

/** The call for git on the store's objects, with nothing of the project's settings (S2). */
export function inStore(store: SnapshotStore): GitCall {
  const env = { GIT_DIR: store.gitDir, GIT_OBJECT_DIRECTORY: store.objectDir };
  return { cwd: store.gitDir, as: "ours", env };
}

/** The call for git on the store's refs. */
function inRefs(store: SnapshotStore): GitCall {
  return { cwd: store.refsDir, as: "ours", env: { GIT_DIR: store.refsDir } };
}

/** Points refs at commits, all or none; durable when it returns. */
export async function writeRefs(store: SnapshotStore, refs: readonly SnapshotRef[]): Promise<void> {
  for (const { ref } of refs) assertOurs(ref);
  const input = refs.map(({ ref, commit }) => `update ${ref}\0${commit}\0\0`).join("");
  await git({ ...inRefs(store), input }, "update-ref", "-z", "--stdin");
}

/** Removes snapshots by their refs, and the heads kept with them; those that are gone are no error. */
export async function dropRefs(store: SnapshotStore, refs: readonly string[]): Promise<void> {
  for (const ref of refs) assertOurs(ref);
  if (refs.length === 0) return;
  const all = [...refs, ...refs.map(headRefOf)];
  const input = all.map((ref) => `delete ${ref}\0\0`).join("");
  await git({ ...inRefs(store), input }, "update-ref", "-z", "--stdin");
  failpoint("workspace.refs-dropped");
}

/** The snapshots whose refs begin with this, such as "refs/perdure/<run>/", by name. */
export async function listRefs(
  store: SnapshotStore,
  prefix: string = REFS,
): Promise<readonly SnapshotRef[]> {
  const format = "--format=%(objectname) %(refname)";
  const output = (await git(inRefs(store), "for-each-ref", format, prefix)).stdout;
  const lines = output.toString("utf8").split("\n").slice(0, -1);
  return lines.map((line) => {
    const space = line.indexOf(" ");
    return { commit: line.slice(0, space), ref: line.slice(space + 1) };
  });
}

/** The ref under which the commit that was checked out at a snapshot is kept. */
export function headRefOf(ref: string): string {
  return ref.replace(REFS, HEAD_REFS);
}

/** True when the store holds this commit. */
export async function hasCommit(store: SnapshotStore, commit: string): Promise<boolean> {
  const call = { ...inStore(store), answers: [1, 128] };
  return (await git(call, "cat-file", "-e", `${commit}^{commit}`)).exit === 0;
}

/** The bytes of a file in a snapshot, or undefined when the snapshot has no such file. */
export async function readSnapshotFile(
  store: SnapshotStore,
  commit: string,
  path: string,
): Promise<Buffer | undefined> {
  await needCommit(store, commit);
  const call = { ...inStore(store), answers: [128] };
  const result = await git(call, "cat-file", "blob", `${commit}:${path}`);
  return result.exit === 0 ? result.stdout : undefined;
}

/** Fails in words when the store does not hold this commit. */
export async function needCommit(store: SnapshotStore, commit: string): Promise<void> {
  if (await hasCommit(store, commit)) return;
  throw new WorkspaceError(
    "snapshot-missing",
    `the snapshot ${commit} is not in ${store.refsDir}`,
    "it may have been cleaned; choose another checkpoint, or import the run again",
  );
}

/** Packs what our refs hold, so that many snapshots cost what changed between them. */
export async function packStore(store: SnapshotStore): Promise<void> {
  const refs = await listRefs(store);
  if (refs.length === 0) return;
  const input = refs.map(({ commit }) => `${commit}\n`).join("");
  const pack = join(store.objectDir, "pack", "pack");
  const flags = ["--revs", "--unpacked", "--incremental", "--non-empty", "--quiet"];
  await git({ ...inStore(store), input }, "pack-objects", ...flags, pack);
  failpoint("workspace.packed");
  await git(inStore(store), "prune-packed", "--quiet");
}

/**
 * After snapshots were dropped: packs what remains, and gives back the space of a private store. What
 * the user's own repository no longer needs is up to the user's git.
 */
export async function tidyStore(store: SnapshotStore): Promise<void> {
  if (store.repository !== undefined) return packStore(store);
  // What is young may belong to a snapshot that somebody is just taking.
  await git(inStore(store), "gc", "--quiet", "--prune=1.day.ago");
  failpoint("workspace.tidied");
}

/** What git finds wrong with the objects and refs, as lines; none when all is well. */
export async function checkStore(store: SnapshotStore): Promise<readonly string[]> {
  const call = { ...inRefs(store), answers: [1, 2, 3, 4, 5, 6, 7, 8] };
  const { stdout, stderr, exit } = await git(call, "fsck", "--no-dangling", "--no-progress");
  // A repository without a commit yet has a HEAD that points at nothing: that is no damage.
  const lines = `${stdout.toString("utf8")}${stderr}`
    .split("\n")
    .filter((line) => line !== "" && !/^notice: |^dangling /.test(line));
  if (lines.length === 0 && exit !== 0) throw gitFailure(call, ["fsck"], { exit, stderr });
  return lines;
}

/** The repository that a project's files belong to; one that ignores them does not count. */
async function repositoryOf(project: string): Promise<Repository | undefined> {
  const repository = await findRepository(project);
  if (repository === undefined || (await isIgnored(repository, project))) return undefined;
  return repository;
}

async function readChoice(gitDir: string): Promise<Choice | undefined> {
  const text = await readFile(join(gitDir, CHOICE_FILE), "utf8").catch(absent);
  if (text === undefined) return undefined;
  const { objects, format } = JSON.parse(text) as Partial<Choice>;
  return {
    objects: objects === "private" ? "private" : "project",
    format: format === "sha256" ? "sha256" : "sha1",
  };
}

/** Makes the private directory whole beside its place, then puts it there. */
async function makePrivate(gitDir: string, repository: Repository | undefined): Promise<Choice> {
  const choice: Choice = {
    objects: repository === undefined ? "private" : "project",
    format: repository?.objectFormat ?? "sha1",
  };
  const made = `${gitDir}.${process.pid}`;
  await rm(made, { recursive: true, force: true });
  await mkdir(made, { recursive: true, mode: 0o700 });
  const flags = ["--bare", "--template=", `--object-format=${choice.format}`];
  await git({ cwd: made, as: "ours" }, "init", "--quiet", ...flags, ".");
  await mkdir(join(made, "info"), { recursive: true });
  await writeFile(join(made, "info", "attributes"), ATTRIBUTES);
  await writeFile(join(made, CHOICE_FILE), `${JSON.stringify(choice)}\n`);
  failpoint("workspace.store-made");
  await rename(made, gitDir).catch(async (error: NodeJS.ErrnoException) => {
    // Another process has just made it.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    await rm(made, { recursive: true, force: true });
  });
  return (await readChoice(gitDir)) ?? choice;
}

function assertOurs(ref: string): void {
  assert(ref.startsWith(REFS) || ref.startsWith(HEAD_REFS), `${ref} is not a ref of ours`);
}
