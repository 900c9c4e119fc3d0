/**
 * The repository of a project on another machine: described here, and made there, from its remote
 * and from commits that were sent along.
 *
 * Owns: which commits the other machine can fetch itself, and what a step finds in the repository
 * there: the branch and the commit that were checked out, its remote, and the names of other
 * commits that the run needs.
 * Does not: bring files into the directory, or carry the history of branches that nobody needs.
 */
import { existsSync, statSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { failpoint } from "../util/failpoint.ts";
import { sha256 } from "../util/json.ts";
import { git, gitLine } from "./git.ts";
import { headIn, type Repository, repositoryOf, theirs } from "./repository.ts";
import { hasCommit, inStore, returnCommit, type SnapshotStore } from "./snapshot/store.ts";
import { WorkspaceError } from "./workspace-error.ts";
import { commitOf } from "./worktree/worktree-list.ts";

/** A repository, as another machine makes it. */
export interface RepositoryCopy {
  readonly objectFormat: Repository["objectFormat"];
  /** The path of its top, relative to the project's directory; "" when they are the same. */
  readonly top: string;
  /** The commit that was checked out; absent before the first one. */
  readonly head?: string;
  /** The branch that was checked out: `refs/heads/main`. */
  readonly branch?: string;
  /** Further names that the run needs, and their commits. */
  readonly refs: Readonly<Record<string, string>>;
  /** The address of its remote `origin`, without a password. */
  readonly remote?: string;
  /** Commits that the other machine fetches from the remote. */
  readonly base: readonly string[];
}

const ORIGIN = "origin";
/** `https://host/path`, `ssh://host/path`, `file:///path` or `user@host:path`. */
const ADDRESS = /^[a-z][a-z+.-]*:\/\/|^[^/:]+:/i;
/** The folder of a worker with what was fetched from the remotes of its runs. */
export const MIRRORS = "repositories";
/** The part of a hash that names the mirror of a remote. */
const MIRROR_LENGTH = 32;
/** Where a repository is cloned to, before it is moved to its place. */
const CLONE = ".perdure-clone";
/** The file that says that no fetch into a mirror was interrupted. */
const FETCHED = "perdure-fetched";
/** A transfer that is slower than this for a minute is given up. */
const SLOW = { "http.lowSpeedLimit": "1000", "http.lowSpeedTime": "60" };
const FAILED = [1, 128];

/**
 * Describes the repository of a project; `names` are names of commits that the run will look up.
 */
export async function describeRepository(
  project: string,
  repository: Repository,
  names: readonly string[],
  how: "with-base" | "without-base",
): Promise<RepositoryCopy> {
  const head = await headIn(repository);
  const top = relative(await fs.realpath(project), await fs.realpath(repository.topLevel));
  const refs: Record<string, string> = {};
  for (const name of names) {
    const commit = await commitOf(repository, name);
    const ref = await gitLine(
      { ...theirs(repository.topLevel), answers: FAILED },
      ...["rev-parse", "--symbolic-full-name", name],
    );
    if (commit !== undefined && ref.startsWith("refs/")) refs[ref] = commit;
  }
  const wanted = [...Object.values(refs), ...(head === undefined ? [] : [head.commit])];
  const remote = await remoteOf(repository);
  const isThere = remote !== undefined && how === "without-base";
  const base = isThere ? await onRemote(repository, wanted) : [];
  return {
    ...{ objectFormat: repository.objectFormat, top, refs, base },
    ...(head === undefined ? {} : { head: head.commit }),
    ...(head?.branch === undefined ? {} : { branch: head.branch }),
    ...(remote === undefined ? {} : { remote }),
  };
}

/** The address of the remote; undefined for none, and for a directory of this machine. */
async function remoteOf({ topLevel }: Repository): Promise<string | undefined> {
  const call = { ...theirs(topLevel), answers: [1, 2, 128] };
  const { exit, stdout } = await git(call, "remote", "get-url", ORIGIN);
  const address = stdout.toString("utf8").trim();
  if (exit !== 0 || !ADDRESS.test(address)) return undefined;
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  // A token in the address is a secret of this machine.
  if (url.password === "") return address;
  url.username = "";
  url.password = "";
  return url.href;
}

/** The newest commits that both these commits and the branches of the remote have. */
async function onRemote(
  { topLevel }: Repository,
  commits: readonly string[],
): Promise<readonly string[]> {
  if (commits.length === 0) return [];
  const not = ["--not", `--remotes=${ORIGIN}`];
  const { stdout } = await git(theirs(topLevel), "rev-list", "--boundary", ...commits, ...not);
  const lines = stdout.toString("utf8").split("\n");
  const local = new Set(lines.filter((line) => /^[0-9a-f]/.test(line)));
  const boundary = lines.filter((line) => line.startsWith("-")).map((line) => line.slice(1));
  return [...new Set([...boundary, ...commits.filter((commit) => !local.has(commit))])];
}

/**
 * Makes the repository of a project with what its remote has. What an earlier repository of the
 * same remote has fetched into the folder `known` is used again, without the network.
 */
export async function makeRepository(
  project: string,
  copy: RepositoryCopy,
  known: string,
): Promise<Repository> {
  const top = resolve(project, copy.top);
  await fs.mkdir(top, { recursive: true });
  const call = { ...theirs(top), settings: SLOW };
  if (!existsSync(join(top, ".git"))) await initialise(top, copy, known);
  if (copy.remote !== undefined) {
    const { exit } = await git({ ...call, answers: [2, 3, 128] }, "remote", "get-url", ORIGIN);
    if (exit !== 0) await git(call, "remote", "add", ORIGIN, copy.remote);
  }
  failpoint("repository.made");
  await fetchBase(top, copy);
  failpoint("repository.fetched");
  const repository = await repositoryOf(top);
  if (repository !== undefined) return repository;
  throw new WorkspaceError("git-failed", `git made no repository in ${top}`, "look at the disk");
}

/** The mirrors into which this process fetches; git allows one fetch at a time. */
const fetching = new Map<string, Promise<void>>();

/**
 * Makes a repository with everything that was fetched from its remote before, and the base. The
 * objects are links to the same files on the disk, so neither repository needs the other
 * afterwards.
 */
async function initialise(top: string, copy: RepositoryCopy, known: string): Promise<void> {
  const { remote, base, objectFormat } = copy;
  if (remote === undefined || base.length === 0) {
    const format = `--object-format=${objectFormat}`;
    await git(theirs(top), "init", "--quiet", "--template=", format);
    return;
  }
  const mirror = join(known, `${sha256(`${objectFormat} ${remote}`).slice(0, MIRROR_LENGTH)}.git`);
  await mirrored(mirror, copy);
  // Beside the files of the project, which git would not clone into.
  const clone = join(top, CLONE);
  const flags = ["--quiet", "--template=", "--local", "--no-checkout", `--origin=${ORIGIN}`];
  try {
    await git(theirs(top), "clone", ...flags, mirror, CLONE);
  } catch (error) {
    // Whatever has happened to its files: the next run makes it again.
    await fs.rm(mirror, { recursive: true, force: true });
    throw error;
  }
  failpoint("repository.cloned");
  await git(theirs(clone), "remote", "set-url", ORIGIN, remote);
  await fs.rename(join(clone, ".git"), join(top, ".git"));
  await fs.rmdir(clone);
}

/** When a mirror was used last. */
export function lastUseOfMirror(mirror: string): number {
  const mark = join(mirror, FETCHED);
  return statSync(existsSync(mark) ? mark : mirror).mtimeMs;
}

/** Brings the base into the mirror of a remote, one fetch after the other. */
async function mirrored(mirror: string, copy: RepositoryCopy): Promise<void> {
  const before = fetching.get(mirror) ?? Promise.resolve();
  const fetched = before.then(() => fetchMirror(mirror, copy));
  const ended = fetched.catch(() => undefined);
  fetching.set(mirror, ended);
  try {
    await fetched;
  } finally {
    if (fetching.get(mirror) === ended) fetching.delete(mirror);
  }
}

async function fetchMirror(mirror: string, copy: RepositoryCopy): Promise<void> {
  const mark = join(mirror, FETCHED);
  // A git that was killed may have left a lock, with which every further fetch would fail.
  if (!existsSync(mark)) {
    await fs.rm(mirror, { recursive: true, force: true });
    await makeMirror(mirror, copy);
  }
  await fs.rm(mark, { force: true });
  failpoint("repository.mirrored");
  try {
    await fetchBase(mirror, copy);
  } finally {
    await fs.writeFile(mark, "");
  }
}

/** A repository without files that has the branches of a remote, and checks none of them out. */
async function makeMirror(mirror: string, copy: RepositoryCopy): Promise<void> {
  const { remote = "", objectFormat } = copy;
  await fs.mkdir(mirror, { recursive: true, mode: 0o700 });
  const call = theirs(mirror);
  const format = `--object-format=${objectFormat}`;
  await git(call, "init", "--quiet", "--bare", "--template=", format);
  await git(call, "symbolic-ref", "HEAD", "refs/heads/perdure/none");
  await git(call, "remote", "add", ORIGIN, remote);
  await git(call, "config", `remote.${ORIGIN}.fetch`, "+refs/heads/*:refs/heads/*");
}

async function fetchBase(top: string, { remote, base }: RepositoryCopy): Promise<void> {
  const call = { ...theirs(top), settings: SLOW, answers: FAILED };
  const lacks = async (): Promise<string | undefined> => {
    for (const commit of base) {
      const { exit } = await git(call, "cat-file", "-e", `${commit}^{commit}`);
      if (exit !== 0) return commit;
    }
    return undefined;
  };
  if (remote === undefined || (await lacks()) === undefined) return;
  const fetched = await git(call, "fetch", "--quiet", ORIGIN);
  // A commit may be on no branch any more, and still be there.
  for (const commit of fetched.exit === 0 ? base : []) {
    if ((await lacks()) === undefined) return;
    await git(call, "fetch", "--quiet", ORIGIN, commit);
  }
  const missing = await lacks();
  if (missing === undefined) return;
  throw baseMissing(missing, remote, fetched.exit === 0 ? "" : fetched.stderr.trim());
}

function baseMissing(commit: string, remote: string, words: string): WorkspaceError {
  const why = words === "" ? "it is not there any more" : words;
  return new WorkspaceError(
    "base-missing",
    `the run starts from commit ${commit}, which cannot be fetched from ${remote}: ${why}`,
    `push it there again (git push ${ORIGIN} ${commit}:refs/heads/NAME), or let this machine read ` +
      "the remote",
  );
}

/** Checks out the branch and the commit, without files, once the store has all commits. */
export async function placeHead(
  store: SnapshotStore,
  repository: Repository,
  { head, branch, refs }: RepositoryCopy,
): Promise<void> {
  const call = theirs(repository.topLevel);
  const named = {
    ...refs,
    ...(branch === undefined || head === undefined ? {} : { [branch]: head }),
  };
  for (const [ref, commit] of Object.entries(named)) {
    await returnCommit(store, repository, commit);
    await git(call, "update-ref", ref, commit);
  }
  if (branch !== undefined) await git(call, "symbolic-ref", "HEAD", branch);
  else if (head !== undefined) {
    await returnCommit(store, repository, head);
    await git(call, "update-ref", "--no-deref", "HEAD", head);
  }
  if (head !== undefined) await git(call, "reset", "--quiet", "--mixed", head);
  failpoint("repository.checked-out");
}

/** Makes a branch at a commit that the store has. */
export async function placeBranch(
  store: SnapshotStore,
  repository: Repository,
  { branch, commit }: { readonly branch: string; readonly commit: string },
): Promise<void> {
  await returnCommit(store, repository, commit);
  await git(theirs(repository.topLevel), "update-ref", branch, commit);
}

/**
 * Brings the commits that a run starts from into a store: from a near repository, or the remote.
 */
export async function bringCommits(
  store: SnapshotStore,
  { remote, base }: RepositoryCopy,
  near: string | undefined,
): Promise<void> {
  const missing = async (): Promise<string | undefined> => {
    for (const commit of base) if (!(await hasCommit(store, commit))) return commit;
    return undefined;
  };
  const { cwd, env = {} } = inStore(store);
  const call = { cwd, env, as: "theirs", settings: SLOW, answers: FAILED } as const;
  let why = "";
  for (const from of [near, remote]) {
    if (from === undefined || (await missing()) === undefined) continue;
    const flags = ["--quiet", "--no-tags", "--no-write-fetch-head"];
    const { exit, stderr } = await git(call, "fetch", ...flags, from, ...base);
    if (exit !== 0) why = stderr.trim();
  }
  const commit = await missing();
  if (commit !== undefined) throw baseMissing(commit, remote ?? "no remote", why);
}
