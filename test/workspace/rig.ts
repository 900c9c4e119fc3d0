/** What the tests of workspaces share: real directories, real git, and what is compared. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import {
  listRefs,
  openStore,
  readSnapshotFile,
  type SnapshotStore,
} from "../../src/workspace/snapshot/store.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/snapshot/workspace.ts";
import { bundledProgram } from "../rig/bundled-program.ts";

const PROCESS = await bundledProgram(join(import.meta.dirname, "workspace-process.ts"));

/** A directory that is gone when the test is over. */
export function scratch(): string {
  const path = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "perdure-workspace-")));
  onTestFinished(() => fs.rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Git as a user types it, in a home of its own. */
export function userGit(cwd: string, ...args: readonly string[]): string {
  const env = {
    PATH: process.env.PATH,
    HOME: "/nonexistent",
    GIT_CONFIG_NOSYSTEM: "1",
    // Looking at the state must not refresh the index.
    GIT_OPTIONAL_LOCKS: "0",
    GIT_AUTHOR_NAME: "user",
    GIT_AUTHOR_EMAIL: "user@localhost",
    GIT_COMMITTER_NAME: "user",
    GIT_COMMITTER_EMAIL: "user@localhost",
  };
  return execFileSync("git", ["-c", "protocol.file.allow=always", ...args], {
    cwd,
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Git on the objects of a store. */
export function storeGit({ gitDir }: SnapshotStore, ...args: readonly string[]): string {
  return userGit(gitDir, `--git-dir=${gitDir}`, ...args);
}

/** The names of the snapshots of a project, and their commits: the last one of a name counts. */
export function snapshotNames(project: string): ReadonlyMap<string, string> {
  const directory = join(project, ".perdure", "snapshots.git", "names");
  const texts = fs
    .readdirSync(directory)
    .map((name) => fs.readFileSync(join(directory, name), "utf8"));
  const lines = texts.flatMap((text) => text.split("\n").slice(0, -1));
  return new Map(
    lines.map((line) => [line.slice(line.indexOf(" ") + 1), line.split(" ")[0] ?? ""]),
  );
}

/** A file of a snapshot of a project, by the name of the snapshot. */
export function snapshotFile(project: string, ref: string, path: string): string {
  const gitDir = join(project, ".perdure", "snapshots.git");
  const commit = snapshotNames(project).get(ref) ?? `no ${ref}`;
  return userGit(gitDir, `--git-dir=${gitDir}`, "show", `${commit}:${path}`);
}

/** Writes files by their names; a name that ends with a slash is an empty directory. */
export function write(directory: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name);
    if (name.endsWith("/")) {
      fs.mkdirSync(path, { recursive: true });
      continue;
    }
    fs.mkdirSync(dirname(path), { recursive: true });
    fs.writeFileSync(path, content);
  }
}

/** A project with git and one commit of these files. */
export function gitProject(
  files: Readonly<Record<string, string | Buffer>>,
  ...flags: readonly string[]
): string {
  const path = scratch();
  userGit(path, "init", "-q", "-b", "main", ...flags);
  write(path, files);
  userGit(path, "add", "-A");
  userGit(path, "commit", "-q", "-m", "first");
  return path;
}

/** The store of a project and a workspace in it. */
export async function open(
  project: string,
  options: {
    readonly path?: string;
    readonly include?: readonly string[];
    readonly fileBytesMax?: number;
    readonly index?: string;
  } = {},
): Promise<{ store: SnapshotStore; workspace: Workspace }> {
  const { path = project, index = "index", ...rest } = options;
  const stateDir = join(project, ".perdure");
  fs.mkdirSync(stateDir, { recursive: true });
  fs.writeFileSync(join(stateDir, ".gitignore"), "*\n");
  const store = await openStore({ project, stateDir });
  const indexFile = join(stateDir, "runs", "r1", index);
  return { store, workspace: await openWorkspace(store, { path, indexFile, ...rest }) };
}

/** What directories take on the disk, in kilobytes; a file with several names counts once. */
export function kilobytes(...paths: readonly string[]): number {
  const blocks = new Map<number, number>();
  const add = (path: string): void => {
    const facts = fs.lstatSync(path);
    blocks.set(facts.ino, facts.blocks);
    if (facts.isDirectory()) for (const name of fs.readdirSync(path)) add(join(path, name));
  };
  for (const path of paths) add(path);
  return [...blocks.values()].reduce((sum, one) => sum + one, 0) / 2;
}

/** Everything in a directory but .git and .perdure: kind, permission to run, bytes. */
export function contentOf(directory: string): Readonly<Record<string, string>> {
  const content: Record<string, string> = {};
  const walk = (path: Buffer, name: string): void => {
    const facts = fs.lstatSync(path);
    if (facts.isSymbolicLink()) {
      content[name] = `link ${fs.readlinkSync(path, "buffer").toString("latin1")}`;
    } else if (facts.isFile()) {
      const kind = (facts.mode & 0o100) === 0 ? "file" : "program";
      content[name] = `${kind} ${fs.readFileSync(path).toString("latin1")}`;
    } else if (facts.isDirectory()) {
      const names = fs.readdirSync(path, "latin1").filter((one) => !/^\.(git|perdure)$/.test(one));
      if (names.length === 0 && name !== "") content[name] = "empty directory";
      for (const one of names) {
        const inner = Buffer.concat([path, Buffer.from("/"), Buffer.from(one, "latin1")]);
        walk(inner, name === "" ? one : `${name}/${one}`);
      }
    } else content[name] = "other";
  };
  walk(Buffer.from(directory), "");
  return content;
}

/** All that belongs to the user in a repository: none of it may change. */
export function userState(directory: string): Readonly<Record<string, string>> {
  const gitDir = userGit(directory, "rev-parse", "--absolute-git-dir").trim();
  const common = resolve(directory, userGit(directory, "rev-parse", "--git-common-dir").trim());
  const textOf = (file: string): string =>
    fs.existsSync(file) ? fs.readFileSync(file).toString("latin1") : "(none)";
  return {
    index: textOf(join(gitDir, "index")),
    head: textOf(join(gitDir, "HEAD")),
    config: textOf(join(common, "config")),
    attributes: textOf(join(common, "info", "attributes")),
    exclude: textOf(join(common, "info", "exclude")),
    refs: userGit(directory, "for-each-ref", "--format=%(refname) %(objectname)"),
    objects: userGit(directory, "count-objects", "-v"),
    stash: userGit(directory, "stash", "list"),
    reflog: userGit(directory, "reflog", "--all"),
    status: userGit(directory, "status", "--porcelain", "--untracked-files=all", "--ignored")
      .split("\n")
      .filter((line) => !line.includes(" .perdure/"))
      .join("\n"),
  };
}

/** Removes all files, whatever their names are. */
export function wipe(directory: string): void {
  const kept = ["!", "-name", ".git", "!", "-name", ".perdure"];
  const flags = [
    ".",
    "-mindepth",
    "1",
    "-maxdepth",
    "1",
    ...kept,
    "-exec",
    "rm",
    "-rf",
    "--",
    "{}",
    "+",
  ];
  execFileSync("find", flags, { cwd: directory });
}

/** A file of the snapshot that a ref names, as text. */
export async function fileAt(
  store: SnapshotStore,
  ref: string,
  path: string,
): Promise<string | undefined> {
  const found = (await listRefs(store, ref))[0];
  if (found === undefined) throw new Error(`no snapshot ${ref}`);
  return (await readSnapshotFile(store, found.commit, path))?.toString("latin1");
}

/** How many objects a repository has. */
export function objectCount(gitDir: string): string {
  const text = execFileSync("git", ["count-objects", "-v"], {
    env: { ...process.env, GIT_DIR: gitDir },
  });
  return String(text)
    .split("\n")
    .filter((line) => /^(count|in-pack):/.test(line))
    .join(" ");
}

export interface Ended {
  readonly signal: NodeJS.Signals | null;
  readonly exit: number | null;
  readonly output: string;
}

/** Does something to a workspace in a process of its own, which dies at its n-th failpoint. */
export async function inProcess(dieAt: number, ...args: readonly string[]): Promise<Ended> {
  return inEnvironment({ PERDURE_FAILPOINT: String(dieAt) }, ...args);
}

/** Does something to a workspace in a process of its own. */
export async function inEnvironment(
  variables: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<Ended> {
  const env = { ...process.env, ...variables };
  const child = spawn(process.execPath, [PROCESS, ...args], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += String(chunk);
    });
  }
  const [exit, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return { exit, signal, output };
}

/**
 * Snapshots and restores in a process of its own until it has said so often that one is done, then
 * ends it with all its children: the next one is under way by then.
 */
export async function killedLoop(project: string, commit: string, times: number): Promise<void> {
  const child = spawn(process.execPath, [PROCESS, "loop", project, commit], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "close");
  let lines = 0;
  for await (const chunk of child.stdout) {
    lines += String(chunk).split("\n").length - 1;
    if (lines > times) break;
  }
  process.kill(-(child.pid as number), "SIGKILL");
  await ended;
}
