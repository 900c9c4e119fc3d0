/**
 * Git, driven through its own program.
 *
 * Owns: the environment and the settings of git; its version; its failures; the differences between
 * two trees.
 * Does not: know what a snapshot or a worktree is.
 *
 * workspace/G1 "ours": git on the store of snapshots sees no setting of the user, the system or the
 *   project, so it does not change bytes, run hooks or sign commits.
 * workspace/G2 "theirs": git in the user's repository (worktrees, branches) sees the user's
 *   settings, because a checkout must look like the user's own, but it runs no hooks either.
 * workspace/G3 No GIT_* variable of Perdure's own environment reaches git.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { stat, writeFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { Readable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { absent, type RawPath, splitNul } from "./disk.ts";
import { WorkspaceError } from "./workspace-error.ts";

/** The oldest supported version: git 2.30. */
const GIT_MINOR_MIN = 30;
const STDERR_BYTES_MAX = 64 * 1024;
const NOT_FOUND = 127;

/** The settings of every call (workspace/G1, workspace/G2). */
const SETTINGS = {
  "core.hooksPath": "/dev/null",
  "core.fsmonitor": "false",
  "core.quotePath": "false",
  "commit.gpgSign": "false",
  "gc.auto": "0",
  "maintenance.auto": "false",
} as const;

/** Further settings for snapshots (workspace/G1). */
const STORE_SETTINGS = {
  "core.attributesFile": "/dev/null",
  "core.autocrlf": "false",
  "core.safecrlf": "false",
  "core.untrackedCache": "false",
  "core.splitIndex": "false",
  "core.sparseCheckout": "false",
  "core.trustctime": "true",
  "core.checkStat": "default",
  "core.logAllRefUpdates": "false",
  // A name that is invalid on other systems is still a file of this one.
  "core.protectHFS": "false",
  "core.protectNTFS": "false",
} as const;

/** The author of Perdure's own commits. */
export const IDENTITY = {
  GIT_AUTHOR_NAME: "perdure",
  GIT_AUTHOR_EMAIL: "perdure@localhost",
  GIT_COMMITTER_NAME: "perdure",
  GIT_COMMITTER_EMAIL: "perdure@localhost",
} as const;

interface GitVersion {
  readonly major: number;
  readonly minor: number;
}

export interface GitCall {
  readonly cwd: string;
  /** "ours" for snapshots (workspace/G1), "theirs" in the user's repository (workspace/G2). */
  readonly as: "ours" | "theirs";
  readonly env?: Readonly<Record<string, string>>;
  readonly settings?: Readonly<Record<string, string>>;
  readonly input?: Buffer | string | Readable;
  /** Exit statuses besides 0 that are answers, not failures. */
  readonly answers?: readonly number[];
  /** Reading stops, and git is ended, after this many bytes of output. */
  readonly outputBytesMax?: number;
}

/** How git ended, and what it printed. */
interface GitResult {
  readonly exit: number;
  /** The signal that ended git, when one did. */
  readonly signal: NodeJS.Signals | undefined;
  readonly stdout: Buffer;
  readonly stderr: string;
  /** True when outputBytesMax cut the output short. */
  readonly cut: boolean;
}

let versionRead: Promise<GitVersion> | undefined;

/** Runs git to its end; anything but success or an expected answer is a WorkspaceError. */
export async function git(call: GitCall, ...args: readonly string[]): Promise<GitResult> {
  const stdin = call.input === undefined ? "ignore" : "pipe";
  const result = await outcomeOf(await spawnGit(call, args, stdin), call);
  if (result.cut || result.exit === 0 || call.answers?.includes(result.exit)) return result;
  // If git is not installed, this throws the right error.
  if (result.exit === NOT_FOUND) await gitVersion();
  throw gitFailure(call, args, result);
}

/** The message of git about a worktree whose entry is incomplete. */
const HALF_MADE = /failed to read (.*?worktrees\/[^/]+\/(?:commondir|gitdir|HEAD)):/;
/** The content of the file `commondir` of every linked worktree. */
const COMMON_DIR = "../..\n";
const HALF_MADE_ATTEMPTS_MAX = 100;
const HALF_MADE_PAUSE_MS = 20;

/**
 * Runs a git command that reads all worktrees of a repository. Git fails if another git is just
 * making the entry of a worktree; then the command runs again. An entry that stays incomplete comes
 * from a power failure; it is repaired, because it would stop every such command in the repository.
 */
export async function gitAmongWorktrees(
  call: GitCall,
  ...args: readonly string[]
): Promise<GitResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await git(call, ...args);
    } catch (error) {
      const isGits = error instanceof WorkspaceError && error.code === "git-failed";
      const [, file] = (isGits && HALF_MADE.exec(error.message)) || [];
      if (file === undefined || attempt > HALF_MADE_ATTEMPTS_MAX) throw error;
      if (attempt === HALF_MADE_ATTEMPTS_MAX) await repairCommonDir(resolve(call.cwd, file));
      else await setTimeout(HALF_MADE_PAUSE_MS);
    }
  }
}

/** Writes the content of an empty `commondir`, which is the same in every worktree. */
async function repairCommonDir(file: string): Promise<void> {
  if (basename(file) !== "commondir") return;
  const facts = await stat(file).catch(absent);
  if (facts?.size === 0) await writeFile(file, COMMON_DIR, { flush: true });
}

/** The modes of files in a tree, by their kinds. */
export const MODES = {
  file: "100644",
  executable: "100755",
  link: "120000",
  repository: "160000",
} as const;

/** A file in a tree: its kind, and the hash of its content. */
interface TreeFile {
  readonly kind: keyof typeof MODES;
  readonly hash: string;
}

/** A path with its file in two trees; undefined where there is none. */
export interface FileChange {
  readonly path: RawPath;
  readonly from: TreeFile | undefined;
  readonly to: TreeFile | undefined;
}

/** The paths that differ between two trees, with both sides of each. */
export async function changesBetween(
  call: GitCall,
  from: string,
  to: string,
): Promise<readonly FileChange[]> {
  const flags = ["-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
  const items = splitNul((await git(call, "diff-tree", ...flags, from, to)).stdout);
  const changes: FileChange[] = [];
  for (let at = 0; at + 1 < items.length; at += 2) {
    const [oldMode = "", newMode = "", oldHash = "", newHash = ""] = (items[at] ?? "")
      .slice(1)
      .split(" ");
    const path = items[at + 1] as RawPath;
    changes.push({ path, from: fileOf(oldMode, oldHash), to: fileOf(newMode, newHash) });
  }
  return changes;
}

function fileOf(mode: string, hash: string): TreeFile | undefined {
  const kinds = Object.keys(MODES) as TreeFile["kind"][];
  const kind = kinds.find((one) => MODES[one] === mode);
  return kind && { kind, hash };
}

/** Runs git and returns its output as one trimmed line of text. */
export async function gitLine(call: GitCall, ...args: readonly string[]): Promise<string> {
  return (await git(call, ...args)).stdout.toString("utf8").trimEnd();
}

/** Starts git with open streams, for output that is too large for the memory. */
export function startGit(call: GitCall, ...args: readonly string[]): Promise<ChildProcess> {
  return spawnGit(call, args, "pipe");
}

async function spawnGit(
  call: GitCall,
  args: readonly string[],
  stdin: "ignore" | "pipe",
): Promise<ChildProcess> {
  const settings: Record<string, string> = {
    ...SETTINGS,
    ...(call.as === "ours" ? { ...STORE_SETTINGS, ...durability(await gitVersion()) } : {}),
    ...call.settings,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const options = { cwd: call.cwd, env: environmentOf(call) };
  return spawn("git", [...flags, ...args], { ...options, stdio: [stdin, "pipe", "pipe"] });
}

/** The version of git on this machine; a WorkspaceError when there is none or it is too old. */
export function gitVersion(): Promise<GitVersion> {
  versionRead ??= readVersion();
  return versionRead;
}

/** True when git is at least 2.minor. */
export async function gitHas(minor: number): Promise<boolean> {
  const version = await gitVersion();
  return version.major > 2 || (version.major === 2 && version.minor >= minor);
}

async function readVersion(): Promise<GitVersion> {
  const env = environmentOf({ as: "ours" });
  const child = spawn("git", ["--version"], { env, stdio: ["ignore", "pipe", "pipe"] });
  const { stdout, exit } = await outcomeOf(child, {});
  const match = /git version (\d+)\.(\d+)/.exec(stdout.toString("utf8"));
  if (exit !== 0 || match === null) {
    versionRead = undefined;
    throw new WorkspaceError(
      "git-missing",
      "git cannot be started, and snapshots of the workspace are kept by it",
      "install git 2.30 or newer and have it on the PATH",
    );
  }
  const version = { major: Number(match[1]), minor: Number(match[2]) };
  if (version.major < 2 || (version.major === 2 && version.minor < GIT_MINOR_MIN)) {
    throw new WorkspaceError(
      "git-missing",
      `git ${version.major}.${version.minor} is too old for snapshots of the workspace`,
      "install git 2.30 or newer",
    );
  }
  return version;
}

/** Recorded objects must survive a power failure; the index is only a cache. */
function durability({ major, minor }: GitVersion): Record<string, string> {
  if (major === 2 && minor < 36) return { "core.fsyncObjectFiles": "true" };
  return { "core.fsync": "all,-index" };
}

/** The same call; what it writes into the user's repository survives a power failure. */
export async function durably(call: GitCall): Promise<GitCall> {
  return { ...call, settings: { ...call.settings, ...durability(await gitVersion()) } };
}

function environmentOf(call: Pick<GitCall, "as" | "env">): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  const isolated = {
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    // Git before 2.32 does not know GIT_CONFIG_GLOBAL and reads these.
    HOME: "/nonexistent",
    XDG_CONFIG_HOME: "/nonexistent",
    ...IDENTITY,
  };
  return {
    ...Object.fromEntries(own),
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_OPTIONAL_LOCKS: "0",
    ...(call.as === "ours" ? isolated : {}),
    ...call.env,
  };
}

/** Feeds a started git and waits for its end. */
function outcomeOf(
  child: ChildProcess,
  { input, outputBytesMax = Number.POSITIVE_INFINITY }: Pick<GitCall, "input" | "outputBytesMax">,
): Promise<GitResult> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let stderr = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    if (bytes < outputBytesMax) chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > outputBytesMax) child.kill("SIGKILL");
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    if (stderr.length < STDERR_BYTES_MAX) stderr += String(chunk);
  });
  // Git may end before it has read all input; its exit status says why.
  child.stdin?.on("error", ignore);
  if (input instanceof Readable && child.stdin !== null) input.pipe(child.stdin);
  else child.stdin?.end(input ?? "");
  return new Promise((done) => {
    child.on("error", (error) => {
      const none = { signal: undefined, stdout: Buffer.alloc(0), cut: false };
      done({ exit: NOT_FOUND, stderr: error.message, ...none });
    });
    child.on("close", (exit, signal) => {
      const cut = bytes > outputBytesMax;
      const stdout = Buffer.concat(chunks).subarray(0, Math.min(bytes, outputBytesMax));
      done({ exit: exit ?? NOT_FOUND, signal: signal ?? undefined, stdout, stderr, cut });
    });
  });
}

function ignore(): void {
  // Deliberately nothing: see the caller.
}

/** The error of a git command that failed, with the message of git. */
export function gitFailure(
  call: GitCall,
  args: readonly string[],
  { exit, signal, stderr }: Pick<GitResult, "exit" | "stderr"> & Partial<GitResult>,
): WorkspaceError {
  const command = args.find((arg) => !arg.startsWith("-")) ?? "";
  // Git maps files into memory; a file that shrinks meanwhile ends git with SIGBUS.
  if (signal !== undefined && signal !== "SIGBUS") {
    return new WorkspaceError(
      "git-killed",
      `git ${command} was ended by ${signal} in ${call.cwd}`,
      "nothing recorded is lost",
    );
  }
  const words = stderr.trim() === "" ? (signal ?? `exit status ${exit}`) : stderr.trim();
  if (/dubious ownership|safe\.directory/.test(words)) {
    return new WorkspaceError(
      "not-trusted",
      `git refuses to work in ${call.cwd}: it belongs to another user`,
      `git config --global --add safe.directory '${call.cwd}'`,
    );
  }
  return new WorkspaceError(
    "git-failed",
    `git ${command} failed in ${call.cwd}: ${words}`,
    "look at the repository and the disk (space, permissions)",
  );
}
