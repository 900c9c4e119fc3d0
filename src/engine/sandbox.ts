/**
 * The part of this machine that a step in a sandbox can see.
 *
 * Owns: its mounts and its variables.
 * Does not: make the sandbox (runner/process/sandbox.ts).
 * Invariants:
 * - engine/Z1 The step can write to its workspace, its attempt's folder, a home that ends with it, and
 *   what its pipeline mounts; an agent also to its own directories. The state of Perdure is read-only.
 * - engine/Z2 Nothing that the step writes to a repository is run by git outside of the sandbox: the
 *   settings and hooks of the repository, and the files that say where they are, are read-only.
 */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import type { Step } from "../plan/plan.ts";
import type { agentHome } from "../runner/agents/agent-home.ts";
import { textOf } from "../runner/file-text.ts";
import type { Mount, Sandbox } from "../runner/process/sandbox.ts";

type SandboxSettings = NonNullable<Step["runsIn"]>;
type Variables = Readonly<Record<string, string | undefined>>;

/** Variables that every step in a sandbox takes from the runner. */
const EVERYWHERE = /^(LANG|LANGUAGE|LC_\w+|TERM|TZ|CI|HOME)$/;
/** Programs of the host need these, too; a container has its own. */
const ON_HOST = /^(PATH|USER|LOGNAME|SHELL)$/;
/** The client of a container needs these; the step does not get them. */
const OF_CLIENT =
  /^(PATH|USER|LOGNAME|XDG_RUNTIME_DIR|DBUS_\w+|SSH_AUTH_SOCK|(DOCKER|CONTAINERS?|PODMAN)_\w+)$/;

/** True for a variable of the runner that a step in this sandbox, or its client, gets. */
export function isInherited(
  name: string,
  { image, variables = [] }: SandboxSettings,
  agent: ReturnType<typeof agentHome>,
): boolean {
  const place = image === undefined ? ON_HOST : OF_CLIENT;
  return (
    variables.includes(name) ||
    [EVERYWHERE, place, ...(agent === undefined ? [] : [agent.variables])].some((one) =>
      one.test(name),
    )
  );
}

/** What the mounts of a step depend on. */
interface SandboxSite {
  readonly settings: SandboxSettings;
  /** The root of the workspace. */
  readonly root: string;
  /** The directory of the project, from which relative mounts are counted. */
  readonly project: string;
  /** The folder of the run in `.perdure`. */
  readonly runDir: string;
  readonly attemptDir: string;
  /** Git does not look for a repository above the workspace. */
  readonly endsAtRoot: boolean;
  readonly env: Readonly<Record<string, string>>;
  /** Variables that the pipeline sets, for the client of a container as well. */
  readonly explicit: Variables;
  readonly agent: ReturnType<typeof agentHome>;
}

/** The sandbox of a step; throws a MountError for a mount that is not there. */
export function sandboxFor(site: SandboxSite): Sandbox {
  const { settings, env, explicit } = site;
  const { image, offline } = settings;
  const named = new Set([...Object.keys(explicit), ...(settings.variables ?? [])]);
  const clientOnly = Object.keys(env).filter((name) => OF_CLIENT.test(name) && !named.has(name));
  return {
    ...(image === undefined ? {} : { image }),
    ...(offline === true ? { offline } : {}),
    mounts: ordered([
      ...(image === undefined ? [{ path: "/tmp", mode: "fresh" } as const] : []),
      ...homeMounts(site),
      { path: dirname(dirname(site.runDir)), mode: "read-only" },
      ...repositoryMounts(site),
      { path: site.root, mode: "writable" },
      { path: site.attemptDir, mode: "writable" },
      ...givenMounts(site),
    ]),
    clientOnly: image === undefined ? [] : clientOnly,
  };
}

/** The sandbox with further directories of the host that the step may work in. */
export function withDirectories(sandbox: Sandbox, paths: readonly string[]): Sandbox {
  const mounts = paths.map((path): Mount => ({ path, mode: "writable" }));
  return { ...sandbox, mounts: ordered([...sandbox.mounts, ...mounts]) };
}

/** A mount that the pipeline names and that cannot be made. */
export class MountError extends Error {
  override readonly name = "MountError";
}

/** Mounts with each directory before its content. Of several mounts of a path, the last one counts. */
function ordered(mounts: readonly Mount[]): readonly Mount[] {
  const last = new Map(mounts.map((mount) => [mount.path, mount]));
  return [...last.values()].sort((one, other) => depthOf(one.path) - depthOf(other.path));
}

function depthOf(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}

/** An empty home, with the settings of git and the directories of the agent. */
function homeMounts({ env, agent }: SandboxSite): readonly Mount[] {
  const home = env.HOME ?? homedir();
  const own = agent?.directories(env) ?? [];
  // A login by a variable works without them, and the agent cannot make them in a sandbox.
  for (const path of own) mkdirSync(path, { recursive: true, mode: 0o700 });
  const settings = [join(home, ".gitconfig"), join(home, ".config", "git")].filter(existsSync);
  const isHome = isAbsolute(home) && home !== "/" && existsSync(home);
  return [
    ...(isHome ? [{ path: home, mode: "fresh" } as const] : []),
    ...settings.map((path): Mount => ({ path, mode: "read-only" })),
    ...own.map((path): Mount => ({ path, mode: "writable" })),
  ];
}

/** The mounts that the pipeline names. */
function givenMounts({ settings, project, env }: SandboxSite): readonly Mount[] {
  return (settings.mounts ?? []).map((written): Mount => {
    const path = mountPath(written, project, env.HOME);
    if (!existsSync(path)) throw new MountError(`its mount ${path} is not there`);
    return { path, mode: written.endsWith(":ro") ? "read-only" : "writable" };
  });
}

/** The path of a mount as the author wrote it. */
export function mountPath(written: string, project: string, home = homedir()): string {
  return resolve(project, written.replace(/:ro$/, "").replace(/^~(?=\/|$)/, home));
}

/** What git needs, even where the workspace is a worktree whose repository is elsewhere. */
function repositoryMounts({ root, runDir, endsAtRoot }: SandboxSite): readonly Mount[] {
  const top = topLevelOf(root, endsAtRoot);
  if (top === undefined) return [];
  const dotGit = join(top, ".git");
  const link = statSync(dotGit).isFile() ? textOf(dotGit) : undefined;
  const gitDir = link === undefined ? dotGit : resolve(top, link.replace(/^gitdir: /, "").trim());
  const common = resolve(gitDir, textOf(join(gitDir, "commondir"))?.trim() ?? ".");
  if (!existsSync(common)) return [];
  // Git does not need the folder, but a step could make it.
  mkdirSync(join(common, "hooks"), { recursive: true });
  const isLinked = common !== gitDir;
  // The whole of a worktree of the run belongs to it, even if the run works in a subdirectory.
  const isOurs = !relative(runDir, top).startsWith("..");
  const writable = [
    ...(isOurs ? [top] : []),
    gitDir,
    // A commit in a worktree adds objects and moves its branch; the user's checkout is not touched.
    ...(isLinked ? COMMITTED : []).map((name) => join(common, name)),
  ];
  const fixed = [
    ...(isOurs ? [] : [top]),
    ...(link === undefined ? [] : [dotGit]),
    ...(isLinked ? [common] : []),
    ...["commondir", "gitdir", "config.worktree"].map((name) => join(gitDir, name)),
    ...["config", "hooks"].map((name) => join(common, name)),
  ];
  const mount = (mode: Mount["mode"], paths: readonly string[]): readonly Mount[] =>
    paths.filter(existsSync).map((path) => ({ path, mode }));
  return [...mount("writable", writable), ...mount("read-only", fixed)];
}

/** What a commit changes in the repository that several worktrees share. */
const COMMITTED = ["objects", "refs", "logs"];

/** The directory with the `.git` of a workspace, if it is in a repository. */
function topLevelOf(root: string, endsAtRoot: boolean): string | undefined {
  for (let at = root; ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at;
    if (endsAtRoot || at === dirname(at)) return undefined;
  }
}
