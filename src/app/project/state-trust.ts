/**
 * Decides whether a `.perdure` may be used. Its journal names commands and its snapshot store has git
 * settings, so its creator decides what runs. A state directory that came with a repository or
 * an archive, or that belongs to another user, is refused before anything in it is read.
 *
 * Owns: the rules, their messages, and the record of a passed check.
 * Does not: look for the directory (project.ts) or open anything but its own record.
 * Invariants:
 * - app/Y2 Nothing in a state directory is opened, and no program but git's `ls-files` in the
 *   project is started, before the directory has been checked.
 * - app/Y3 Files that come with a repository cannot forge the record: it names the directory and
 *   git's index by inode and time, which are unknown before they exist.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  type Dirent,
  lstatSync,
  mkdtempSync,
  readdirSync,
  rmdirSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { textOf } from "../../runner/file-text.ts";
import { shellWord } from "../../view/text.ts";
import { advice, Refusal } from "../refusal.ts";

/** The file that records the directory and the git index of the passed check. */
const RECORD = "checked";
const OTHERS_MAY = 0o077;
const PRIVATE = 0o700;

/** The user that owns a state directory; undefined when that is the user of this process. */
export function foreignOwner(root: string): number | undefined {
  const uid = process.geteuid?.();
  const stats = lstatSync(root, { throwIfNoEntry: false });
  if (uid === undefined || stats === undefined || stats.uid === uid) return undefined;
  // `sudo perdure` accepts the directories of the user behind sudo, as git does.
  if (uid === 0 && process.env.SUDO_UID === String(stats.uid)) return undefined;
  return stats.uid;
}

/** Refuses a state directory that Perdure has not made here; a missing one is fine. */
export function refuseUntrusted(root: string): void {
  const owner = foreignOwner(root);
  if (owner !== undefined) throw foreign(root, owner);
  const now = identityOf(root);
  const known = recordOf(root);
  if (known?.index !== now.index || known.directory !== now.directory) refuseTracked(root);
  const stats = lstatSync(root, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isDirectory()) {
    const what = stats.isSymbolicLink() ? "a symbolic link" : "not a directory";
    throw refusal(`${root} is ${what}`, `rm ${shellWord(root)}`);
  }
  const entries = readdirSync(root, { withFileTypes: true });
  const link = entries.find((entry) => entry.isSymbolicLink());
  if (link !== undefined) throw linked(root, link);
  if (known?.directory === now.directory) return;
  if (isPrivate(stats) || entries.length === 0 || !keepsModes(dirname(root))) return;
  throw unknownMaker(root);
}

/** Records that a state directory passed the check, and closes it to other users. */
export function rememberTrust(root: string): void {
  const { directory, index } = identityOf(root);
  const text = `${directory}\n${index}\n`;
  try {
    if (!isPrivate(statSync(root))) chmodSync(root, PRIVATE);
    const path = join(root, RECORD);
    if (textOf(path) !== text) writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    // Without the record the next command checks again. The journal reports problems of the disk.
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
}

function isPrivate({ mode }: Stats): boolean {
  return (mode & OTHERS_MAY) === 0;
}

/** False on file systems without modes, such as mounted drives of Windows. */
function keepsModes(directory: string): boolean {
  const probe = mkdtempSync(join(directory, ".perdure-"));
  try {
    return isPrivate(statSync(probe));
  } finally {
    rmdirSync(probe);
  }
}

interface Identity {
  readonly directory: string;
  readonly index: string;
}

function identityOf(root: string): Identity {
  return { directory: `directory ${fileIdentity(root)}`, index: indexIdentity(dirname(root)) };
}

/** The identity of a directory is its birth time; that of a file changes with its content. */
function fileIdentity(path: string): string {
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) return "none";
  const { dev, ino, birthtimeNs, mtimeNs, size } = stats;
  return stats.isDirectory() ? `${dev} ${ino} ${birthtimeNs}` : `${dev} ${ino} ${mtimeNs} ${size}`;
}

/** The identity of the git index of the repository around a directory. */
function indexIdentity(project: string): string {
  for (let at = resolve(project); ; at = dirname(at)) {
    const git = lstatSync(join(at, ".git"), { throwIfNoEntry: false });
    if (git !== undefined) return `index ${fileIdentity(indexPath(join(at, ".git")))}`;
    if (dirname(at) === at) return "no repository";
  }
}

/** The path of the index. In worktrees and submodules, `.git` is a file that names a directory. */
function indexPath(git: string): string {
  const named = lstatSync(git).isFile()
    ? /^gitdir: (.*)$/m.exec(textOf(git) ?? "")?.[1]
    : undefined;
  return join(named === undefined ? git : resolve(dirname(git), named), "index");
}

function recordOf(root: string): Identity | undefined {
  const path = join(root, RECORD);
  if (lstatSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  if (lstatSync(path, { throwIfNoEntry: false })?.isFile() !== true) return undefined;
  const [directory = "", index = ""] = (textOf(path) ?? "").split("\n");
  return { directory, index };
}

/** Refuses a state directory with files that git tracks: a checkout writes them. */
function refuseTracked(root: string): void {
  const project = dirname(root);
  if (indexIdentity(project) === "no repository") return;
  const name = basename(root);
  const args = ["-c", "core.fsmonitor=false", "ls-files", "-z", "--", `:(icase)${name}`];
  const environment = Object.entries(process.env).filter(([key]) => !key.startsWith("GIT_"));
  const env = Object.fromEntries(environment);
  // Without git, or where git does not trust the repository, only the other rules apply.
  const { stdout } = spawnSync("git", args, { cwd: project, env, encoding: "utf8" });
  const [file = ""] = (stdout ?? "").split("\0");
  if (file === "") return;
  throw refusal(
    `${root} came with the repository: git tracks ${file}`,
    `git -C ${shellWord(project)} rm -r -f -q ${name}`,
  );
}

function foreign(root: string, owner: number): Refusal {
  const uid = process.geteuid?.() ?? 0;
  return refusal(
    `${root} belongs to user ${owner}, and perdure runs as user ${uid}`,
    `run perdure as user ${owner}, or take it over: chown -R ${uid} ${shellWord(root)}`,
  );
}

function linked(root: string, entry: Dirent): Refusal {
  const path = join(root, entry.name);
  return refusal(
    `${path} is a symbolic link, which perdure does not make`,
    `rm ${shellWord(path)}`,
  );
}

function unknownMaker(root: string): Refusal {
  return refusal(
    `${root} is open to other users, so perdure did not create it; it may come from an archive`,
    `rm -r ${shellWord(root)}; or, if the runs in it are yours: chmod 700 ${shellWord(root)}`,
  );
}

function refusal(message: string, next: string): Refusal {
  return new Refusal("untrusted-state", `${message}; perdure does not use it`, advice(next));
}
