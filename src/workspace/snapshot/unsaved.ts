/**
 * Files of a workspace that no snapshot holds: those that git ignores, and those that are left out.
 *
 * Owns: finding those that changed since a time. Whoever reuses a snapshot in place of the work must
 * know that the work changed nothing else.
 * Does not: read their content.
 */
import { lstatSync, readdirSync, realpathSync, type Stats } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { pathUnder, type RawPath, rawPath, shownPath, splitNul } from "../disk.ts";
import { git } from "../git.ts";
import { inWorkspace, isOutside, type Workspace } from "./workspace.ts";

/** How many files are looked at; beyond that, it is unknown whether one has changed. */
const LOOKS_MAX = 200_000;
/** How many changed paths are named. */
const NAMED_MAX = 5;
/** The clock of a file system is behind that of the system by up to one tick. */
const TICK_MS = 20;

/** The first paths that changed since a time, in files that no snapshot holds. */
export async function changedUnsaved(
  workspace: Workspace,
  { since, skipped, except }: UnsavedSearch,
): Promise<readonly string[]> {
  const flags = ["-z", "--others", "--ignored", "--exclude-standard", "--directory"];
  const call = inWorkspace(workspace, workspace.indexFile);
  const ignored = splitNul((await git(call, "ls-files", ...flags)).stdout);
  const waiting = [...ignored, ...skipped.map(rawPath)]
    .map((path) => (path.endsWith("/") ? path.slice(0, -1) : path) as RawPath)
    .filter((path) => path !== "" && !path.startsWith("../") && !isOutside(workspace, path));
  const kept = except.map((path) => within(workspace, path));
  const changed: string[] = [];
  for (let looks = 0; waiting.length > 0 && changed.length < NAMED_MAX; looks++) {
    const path = waiting.pop() as RawPath;
    if (looks >= LOOKS_MAX) return [...changed, shownPath(path)];
    const facts = lookAt(workspace, path);
    if (facts === undefined || kept.includes(path)) continue;
    if (facts.isDirectory()) waiting.push(...inside(workspace, path));
    const holdsKept = facts.isDirectory() && kept.some((one) => one.startsWith(`${path}/`));
    if (facts.ctimeMs >= since - TICK_MS && !holdsKept) changed.push(shownPath(path));
  }
  return changed;
}

interface UnsavedSearch {
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Files and directories that the last snapshot leaves out. */
  readonly skipped: readonly string[];
  /** Absolute paths that may change. */
  readonly except: readonly string[];
}

/** A path below the workspace, whatever links lead to it. */
function within({ path: root }: Workspace, path: string): string {
  const parent = resolve(dirname(path));
  const lookup = (directory: string): string => {
    try {
      return realpathSync(directory);
    } catch {
      return directory;
    }
  };
  return rawPath(relative(root, resolve(lookup(parent), relative(parent, resolve(path)))));
}

function lookAt({ path: root }: Workspace, path: RawPath): Stats | undefined {
  return lstatSync(pathUnder(root, path), { throwIfNoEntry: false });
}

function inside({ path: root }: Workspace, path: RawPath): readonly RawPath[] {
  try {
    const names = readdirSync(pathUnder(root, path), { encoding: "latin1" });
    return names.map((name) => `${path}/${name}` as RawPath);
  } catch (error) {
    // A directory that went away or cannot be read: its own times say whether it changed.
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(code)) return [];
    throw error;
  }
}
