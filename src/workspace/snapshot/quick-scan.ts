/**
 * Finds out whether a workspace has changed since it was last read, without git and without reading
 * files.
 *
 * Owns: the comparison: the names in directories, and the times, size, inode and mode of files. If
 * the times of directories can be trusted (on file systems that change them with every name, and
 * only if they are older than the scan that listed the names), it lists no directory.
 * Does not: know ignore rules; it compares the files of the last full reading, and all new ones.
 *
 * - quick-scan/W1 A workspace counts as unchanged only if it was scanned before it was read. A file
 *   that is so young that another change could leave the same times is compared by its content.
 * - quick-scan/W2 A scan that would take longer than git stops.
 * - shape/S1 A shape is the same only if no name was added to, removed from or replaced in any of
 *   its directories. If that is uncertain, there is no shape, and the directories are listed.
 */
import { createHash } from "node:crypto";
import {
  type Dirent,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
  statfsSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { directoriesAbove, pathUnder, type RawPath } from "../disk.ts";
import { isOutside, type Shape, type Workspace, type WorkspaceScan } from "./workspace.ts";

/** With more files or directories than this, git is faster. */
export const QUICK_SCAN_FILES_MAX = 4_000;
export const QUICK_SCAN_DIRECTORIES_MAX = 4_000;
const YOUNG_BYTES_MAX = 1024 * 1024;
const UNREADABLE = "\0unreadable";

/** A scan, and how it differs from the one before. */
export interface QuickScan {
  /** Absent when the files were not scanned one by one. */
  readonly seen?: WorkspaceScan;
  /** Files with changed content; undefined when there are other changes. */
  readonly touched: readonly RawPath[] | undefined;
}

interface Progress {
  readonly files: Map<RawPath, string>;
  readonly directories: Map<RawPath, string>;
  readonly young: Map<RawPath, string>;
  readonly startMs: number;
  readonly touched: RawPath[];
  youngBytes: number;
  isReshaped: boolean;
}

/**
 * Scans the files of `known`, and all new ones; undefined when the scan stopped (quick-scan/W2).
 */
export function quickScanAgain(workspace: Workspace, known: WorkspaceScan): QuickScan | undefined {
  if (isUnchanged(workspace, known)) return { seen: known, touched: [] };
  const progress = emptyProgress(Date.now());
  const waiting: RawPath[] = ["" as RawPath];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const entries = entriesOf(workspace, path);
    if (entries === undefined || exceedsLimits(progress)) return undefined;
    const names = namesOf(entries);
    const before = known.directories.get(path);
    progress.directories.set(path, names);
    if (names !== before) progress.isReshaped = true;
    const old = names === before ? undefined : new Set(before?.split("\0"));
    for (const entry of entries === "unreadable" ? [] : entries) {
      const inner = below(path, entry.name);
      const isNew = old !== undefined && !old.has(nameOf(entry));
      if (entry.isDirectory()) {
        if (isNew || known.directories.has(inner)) waiting.push(inner);
      } else if (isNew || known.files.has(inner)) stampFile(workspace, inner, progress, known);
    }
  }
  const outside = outsideOf(workspace);
  const { files, directories, young } = progress;
  const isWhole = files.size === known.files.size && directories.size === known.directories.size;
  const isAlike = !progress.isReshaped && isWhole && outside === known.outside;
  const isPlain = !progress.touched.some(isRulesFile);
  return {
    seen: { files, directories, young, outside, shape: shapeIn(workspace, progress) },
    touched: isAlike && isPlain ? progress.touched : undefined,
  };
}

/** The fast comparison: it lists no directory. */
function isUnchanged(
  workspace: Workspace,
  { files, young, outside, shape }: WorkspaceScan,
): boolean {
  if (shape === undefined || young.size > 0 || !hasShape(workspace.path, shape)) return false;
  for (const [path, stamp] of files) {
    const facts = factsOf(workspace, path);
    if (facts === undefined || stampOf(facts) !== stamp) return false;
  }
  return outsideOf(workspace) === outside;
}

function shapeIn(workspace: Workspace, { directories, startMs }: Progress): WorkspaceScan["shape"] {
  return shapeOf(workspace.path, directories.keys(), startMs);
}

/**
 * The first scan, after a workspace was read: the directories above its files, and those that git
 * named in addition. Undefined when it changed since `startMs`.
 */
export function firstQuickScan(
  workspace: Workspace,
  found: {
    readonly files: ReadonlySet<RawPath>;
    readonly directories: readonly RawPath[];
    readonly startMs: number;
  },
): WorkspaceScan | undefined {
  const progress = emptyProgress(found.startMs);
  const directories = withAbove(found.files, found.directories);
  for (const path of directories) {
    const entries = entriesOf(workspace, path);
    if (entries === undefined || exceedsLimits(progress)) return undefined;
    if (entries !== "unreadable" && isYoung(factsOf(workspace, path), found.startMs)) {
      return undefined;
    }
    progress.directories.set(path, namesOf(entries));
    for (const entry of entries === "unreadable" ? [] : entries) {
      const inner = below(path, entry.name);
      if (!found.files.has(inner) && entry.name !== ".gitignore") continue;
      const facts = factsOf(workspace, inner);
      if (isYoung(facts, found.startMs)) return undefined;
      if (facts !== undefined) progress.files.set(inner, stampOf(facts));
    }
  }
  const { files, young } = progress;
  const shape = shapeIn(workspace, progress);
  return { files, directories: progress.directories, young, outside: outsideOf(workspace), shape };
}

/** The part of a scan that belongs to a snapshot, according to git. */
export function reduceQuickScan(
  { files, directories, young, outside, shape }: WorkspaceScan,
  looked: { readonly files: ReadonlySet<RawPath>; readonly directories: readonly RawPath[] },
): WorkspaceScan {
  const inside = new Set(withAbove(looked.files, looked.directories));
  return {
    files: new Map([...files].filter(([path]) => looked.files.has(path) || isRulesFile(path))),
    directories: new Map([...directories].filter(([path]) => inside.has(path))),
    young,
    outside,
    shape: shape && new Map([...shape].filter(([path]) => inside.has(path))),
  };
}

function emptyProgress(startMs: number): Progress {
  return {
    files: new Map(),
    directories: new Map(),
    young: new Map(),
    startMs,
    touched: [],
    youngBytes: 0,
    isReshaped: false,
  };
}

function exceedsLimits({ files, directories }: Progress): boolean {
  return files.size > QUICK_SCAN_FILES_MAX || directories.size > QUICK_SCAN_DIRECTORIES_MAX;
}

/** These directories, and all directories above them and above the files. */
export function withAbove(
  files: ReadonlySet<RawPath>,
  directories: readonly RawPath[],
): readonly RawPath[] {
  const all = new Set<RawPath>(["" as RawPath]);
  for (const path of [...files, ...directories.map((one) => `${one}/`)]) {
    for (const above of directoriesAbove(path)) {
      if (all.has(above)) break;
      all.add(above);
    }
  }
  return [...all];
}

function stampFile(
  workspace: Workspace,
  path: RawPath,
  progress: Progress,
  known: WorkspaceScan,
): void {
  const facts = factsOf(workspace, path);
  if (facts === undefined) {
    progress.isReshaped = true;
    return;
  }
  const stamp = stampOf(facts);
  progress.files.set(path, stamp);
  const wasYoung = known.young.get(path);
  const isYoungNow = isYoung(facts, progress.startMs);
  const isRead = isYoungNow || wasYoung !== undefined;
  const hash = isRead ? contentOf(workspace, path, facts, progress) : undefined;
  // A young file with unknown content never counts as unchanged.
  if (isYoungNow) progress.young.set(path, hash ?? "");
  const isOther = wasYoung !== undefined && (hash === undefined || hash !== wasYoung);
  if (stamp !== known.files.get(path) || isOther) progress.touched.push(path);
}

function contentOf(
  workspace: Workspace,
  path: RawPath,
  facts: Stats,
  progress: Progress,
): string | undefined {
  progress.youngBytes += facts.size;
  if (progress.youngBytes > YOUNG_BYTES_MAX) return undefined;
  const place = fastPath(workspace.path, path);
  try {
    if (facts.isSymbolicLink()) return readlinkSync(place, "latin1");
    if (!facts.isFile()) return undefined;
    return createHash("sha1").update(readFileSync(place)).digest("hex");
  } catch {
    // It is missing or unreadable, so git must check it.
    return undefined;
  }
}

function factsOf(workspace: Workspace, path: RawPath): Stats | undefined {
  return lookAt(fastPath(workspace.path, path));
}

/** The entries of a directory; undefined for a nested repository, which only git can read. */
function entriesOf(
  workspace: Workspace,
  path: RawPath,
): readonly Dirent<string>[] | "unreadable" | undefined {
  let entries: readonly Dirent<string>[];
  try {
    const options = { withFileTypes: true, encoding: "latin1" } as const;
    entries = readdirSync(fastPath(workspace.path, path), options);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    if (code === "EACCES" || code === "EPERM") return "unreadable";
    throw error;
  }
  if (path !== "" && entries.some(({ name }) => name === ".git")) return undefined;
  return entries.filter(({ name }) => !isOutside(workspace, below(path, name)));
}

function namesOf(entries: readonly Dirent<string>[] | "unreadable"): string {
  return entries === "unreadable" ? UNREADABLE : entries.map(nameOf).join("\0");
}

function nameOf(entry: Dirent<string>): string {
  return entry.isDirectory() ? `${entry.name}/` : entry.name;
}

function below(path: RawPath, name: string): RawPath {
  return (path === "" ? name : `${path}/${name}`) as RawPath;
}

/** True for a file with ignore rules. */
export function isRulesFile(path: string): boolean {
  return path === ".gitignore" || path.endsWith("/.gitignore");
}

/** Sorts files with ignore rules after all others. */
export function rulesLast(a: { readonly path: RawPath }, b: { readonly path: RawPath }): number {
  return Number(isRulesFile(a.path)) - Number(isRulesFile(b.path));
}

/** The state of the rules and indexes outside of the workspace. */
export function outsideOf({ settings, checkout, path, root }: Workspace): string {
  const files = [...settings.excludeFiles];
  if (checkout !== undefined) files.push(checkout.indexFile);
  for (let above = path; above !== root && above !== dirname(above); ) {
    above = dirname(above);
    files.push(join(above, ".gitignore"));
  }
  return files
    .map((file) => {
      const facts = lookAt(file);
      return facts === undefined ? "" : stampOf(facts);
    })
    .join(" ");
}

/** The resolution of the clock of a file system. */
const TICK_MS = 20;
/** The same for file systems with whole seconds. */
const COARSE_TICK_MS = 2_000;

/** Linux's numbers for ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, zfs and f2fs. */
const TRUSTED_FILE_SYSTEMS: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010,
]);

/** The shape of directories whose names were listed after `startMs`; undefined when uncertain. */
export function shapeOf(
  root: string,
  directories: Iterable<RawPath>,
  startMs: number,
): Shape | undefined {
  const top = lookAt(root);
  if (top === undefined || !TRUSTED_FILE_SYSTEMS.has(statfsSync(root).type)) return undefined;
  const shape = new Map<RawPath, string>();
  for (const path of directories) {
    const facts = lookAt(fastPath(root, path));
    if (facts === undefined || facts.dev !== top.dev || isYoung(facts, startMs)) return undefined;
    shape.set(path, stampOf(facts));
  }
  return shape;
}

/** True when every directory of a shape has the same names in it (shape/S1). */
export function hasShape(root: string, shape: Shape): boolean {
  for (const [path, stamp] of shape) {
    const facts = lookAt(fastPath(root, path));
    if (facts === undefined || stampOf(facts) !== stamp) return false;
  }
  return true;
}

/** True for a file that may change again without a change of its times. */
function isYoung(facts: Stats | undefined, startMs: number): boolean {
  if (facts === undefined) return true;
  const { ctimeMs, mtimeMs } = facts;
  const coarse = ctimeMs % 1000 === 0 && mtimeMs % 1000 === 0;
  return Math.max(ctimeMs, mtimeMs) >= startMs - (coarse ? COARSE_TICK_MS : TICK_MS);
}

/** A text that differs for each state of a file or directory, without reading it. */
function stampOf({ ino, size, mtimeMs, ctimeMs, mode }: Stats): string {
  return `${ino}:${size}:${mtimeMs}:${ctimeMs}:${mode}`;
}

/** The stats of a path; a link is not followed. */
function lookAt(place: string | Buffer): Stats | undefined {
  try {
    return lstatSync(place, { throwIfNoEntry: false });
  } catch {
    // A directory above it may not be entered: it counts as missing.
    return undefined;
  }
}

/** The path as text if possible, which is several times faster than bytes. */
function fastPath(root: string, path: RawPath): string | Buffer {
  if (path === "") return root;
  for (let at = 0; at < path.length; at++) {
    if (path.charCodeAt(at) > 0x7f) return pathUnder(root, path);
  }
  return `${root}/${path}`;
}
