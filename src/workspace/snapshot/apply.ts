/**
 * Applies the difference between two snapshots to a directory in which other programs may be
 * working.
 *
 * Owns: changing only the paths that differ, and each only while it equals the first snapshot.
 * Does not: make a whole directory equal to a snapshot (restore.ts does, for directories in which
 * no other program works).
 *
 * - apply/A1 A file that is overwritten or removed is in the snapshot `from`, byte for byte. All
 *   other files stay as they are and are named.
 * - apply/A2 A path that equals `to` is done, so a second call after a kill has the same result.
 * - apply/A3 A file is replaced by one rename and is never missing in between, because another step
 *   may be reading it. Its old content stays linked until it is known that no program wrote to it
 *   meanwhile. The remaining gap: a program that renames its own file to the path between two
 *   adjacent system calls.
 */

import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { failpoint } from "../../util/failpoint.ts";
import { absent, directoriesAbove, kindAt, pathUnder, type RawPath, shownPath } from "../disk.ts";
import { changesBetween, type FileChange } from "../git.ts";
import { isAtOrBelow, readSnapshot } from "./details.ts";
import { isRulesFile, rulesLast } from "./quick-scan.ts";
import { moveOver, writeFiles } from "./restore.ts";
import { ignoredBy, type PlannedFile } from "./restore-plan.ts";
import { inStore } from "./store.ts";
import type { Workspace } from "./workspace.ts";

/** The result: the paths that another program changed after the snapshot `from`. */
interface Applied {
  readonly changedMeanwhile: readonly string[];
}

/** One side of a path: nothing, or a file of a kind with a content. */
type Side = FileChange["from"];

/** Changes the paths of a directory that differ between two snapshots, and no other. */
export async function applyChanges(
  workspace: Workspace,
  options: {
    readonly from: string;
    readonly to: string;
    /** Changed files are moved to this directory; absent: they stay in place. */
    readonly aside?: string;
  },
): Promise<Applied> {
  const { store } = workspace;
  const before = await readSnapshot(store, options.from);
  const after = await readSnapshot(store, options.to);
  const all = await changesBetween(inStore(store), before.tree, after.tree);
  const spared = await sparedOf(workspace, all, after);
  const applying = new Applying(workspace, new Set(after.details.empties), options.aside);
  const changes = all.filter(({ path }) => !spared.has(path)).sort(rulesLast);
  const removals = changes.filter((change) => change.to === undefined);
  for (const change of removals.filter(({ path }) => !isRulesFile(path))) {
    await applying.remove(change);
  }
  const wanted = new Set(after.details.empties);
  for (const path of before.details.empties) if (!wanted.has(path)) applying.removeEmpty(path);
  await applying.write(changes.filter((change) => change.to !== undefined));
  for (const change of removals.filter(({ path }) => isRulesFile(path))) {
    await applying.remove(change);
  }
  await applying.makeEmpties(after.details.empties);
  failpoint("workspace.applied");
  return { changedMeanwhile: applying.changed.map(shownPath) };
}

/** The paths that stay because `to` ignores or skips them. */
async function sparedOf(
  workspace: Workspace,
  changes: readonly FileChange[],
  after: Awaited<ReturnType<typeof readSnapshot>>,
): Promise<ReadonlySet<RawPath>> {
  const gone = changes.filter((change) => change.to === undefined).map(({ path }) => path);
  const rulesDiffer = changes.some(({ path }) => isRulesFile(path));
  const ignored = rulesDiffer ? await ignoredBy(workspace, after.tree, gone) : new Set<RawPath>();
  const { skipped } = after.details;
  return new Set(gone.filter((path) => ignored.has(path) || isAtOrBelow(skipped, path)));
}

/** Applies changes to single paths, and collects the paths that another program changed. */
class Applying {
  readonly changed: RawPath[] = [];
  readonly #workspace: Workspace;
  /** Directories that stay although they are empty. */
  readonly #kept: ReadonlySet<RawPath>;
  readonly #aside: string | undefined;
  #linked = 0;

  constructor(workspace: Workspace, kept: ReadonlySet<RawPath>, aside: string | undefined) {
    this.#workspace = workspace;
    this.#kept = kept;
    this.#aside = aside;
  }

  async remove({ path, from }: FileChange): Promise<void> {
    const there = await this.#look(path, from, undefined);
    if (there === "done" || there === undefined) return;
    const place = pathUnder(this.#workspace.path, path);
    const isRemoved = there !== "changed" && this.#swap(place, there, () => fs.unlinkSync(place));
    if (!isRemoved && !this.#moveAside(path)) this.changed.push(path);
    failpoint("workspace.apply-removed");
    for (const above of directoriesAbove(path)) if (!this.removeEmpty(above)) return;
  }

  /** Writes files; those that are already correct stay untouched. */
  async write(changes: readonly FileChange[]): Promise<void> {
    const open = new Map<PlannedFile, fs.Stats | undefined>();
    for (const { path, from, to } of changes) {
      const looked = await this.#look(path, from, to);
      const there = looked === "changed" && this.#moveAside(path) ? undefined : looked;
      if (there === "changed") this.changed.push(path);
      else if (there !== "done" && to !== undefined) {
        const status = there === undefined ? "added" : "changed";
        open.set({ path, status, ...to }, there);
      }
    }
    await writeFiles(this.#workspace, [...open.keys()], (staged, place, file) => {
      if (!this.#put(staged, place, open.get(file))) this.changed.push(file.path);
      failpoint("workspace.apply-written");
    });
  }

  /** Removes an empty directory that need not stay; false when it stays. */
  removeEmpty(path: RawPath): boolean {
    if (this.#kept.has(path)) return false;
    try {
      fs.rmdirSync(pathUnder(this.#workspace.path, path));
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return true;
      if (["ENOTEMPTY", "EEXIST", "ENOTDIR", "EBUSY", "EACCES"].includes(code ?? "")) return false;
      throw error;
    }
  }

  async makeEmpties(paths: readonly RawPath[]): Promise<void> {
    for (const path of paths) {
      if (await this.#isOpen(`${path}/x` as RawPath)) {
        fs.mkdirSync(pathUnder(this.#workspace.path, path), { recursive: true });
      }
    }
  }

  /** The stats of a path that equals `from`; "done" when it equals `to`. */
  async #look(
    path: RawPath,
    from: Side,
    to: Side,
  ): Promise<"done" | "changed" | fs.Stats | undefined> {
    const place = pathUnder(this.#workspace.path, path);
    if (!(await this.#isOpen(path))) return to === undefined ? "done" : "changed";
    const facts = await fs.promises.lstat(place).catch(absent);
    if (facts === undefined) {
      if (to === undefined) return "done";
      return from === undefined ? undefined : "changed";
    }
    // A directory at the path of a file; its own files were checked separately.
    if (facts.isDirectory()) return this.#lookAtDirectory(path, from, to);
    const side = await this.#sideAt(place, facts);
    if (isSame(side, to)) return "done";
    return from !== undefined && isSame(side, from) ? facts : "changed";
  }

  #lookAtDirectory(path: RawPath, from: Side, to: Side): "done" | "changed" | undefined {
    if (to?.kind === "repository" || to === undefined) return "done";
    return from === undefined && this.removeEmpty(path) ? undefined : "changed";
  }

  /** True when all parents of a path are directories, so that no write follows a link. */
  async #isOpen(path: RawPath): Promise<boolean> {
    for (const above of directoriesAbove(path)) {
      if ((await kindAt(this.#workspace.path, above)) === "other") return false;
    }
    return true;
  }

  async #sideAt(place: Buffer, facts: fs.Stats): Promise<Side> {
    const { format } = this.#workspace.store;
    const hash = createHash(format);
    if (facts.isSymbolicLink()) {
      const target = fs.readlinkSync(place, "buffer");
      hash.update(`blob ${target.length}\0`).update(target);
      return { kind: "link", hash: hash.digest("hex") };
    }
    if (!facts.isFile()) return undefined;
    hash.update(`blob ${facts.size}\0`);
    try {
      await pipeline(fs.createReadStream(place), hash);
    } catch (error) {
      // An unreadable file is in no snapshot.
      if (["EACCES", "EPERM", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "")) {
        return undefined;
      }
      throw error;
    }
    return { kind: (facts.mode & 0o100) === 0 ? "file" : "executable", hash: hash.digest("hex") };
  }

  /** Moves a complete file to its path; false when the path has changed (apply/A3). */
  #put(staged: string, place: Buffer, there: fs.Stats | undefined): boolean {
    if (there === undefined) return placeNew(staged, place);
    return this.#swap(place, there, () => moveOver(staged, place));
  }

  /** Moves a file that is in no snapshot to the directory for such files. */
  #moveAside(path: RawPath): boolean {
    if (this.#aside === undefined) return false;
    fs.mkdirSync(this.#aside, { recursive: true, mode: 0o700 });
    const directory = fs.mkdtempSync(join(this.#aside, "kept-"));
    const name = path.slice(path.lastIndexOf("/") + 1);
    try {
      fs.renameSync(pathUnder(this.#workspace.path, path), pathUnder(directory, name));
      return true;
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (!["EXDEV", "ENOENT", "ENOTDIR", "EACCES", "EPERM"].includes(code)) throw error;
      return code === "ENOENT";
    }
  }

  /** Replaces or removes a file, and undoes it if the file changed meanwhile. */
  #swap(place: Buffer, facts: fs.Stats, take: () => void): boolean {
    const kept = `${this.#workspace.indexFile}.work-${process.pid}-kept-${this.#linked++}`;
    fs.rmSync(kept, { force: true });
    const now = lookAt(place);
    if (now === undefined || !isUntouched(now, facts) || now.ctimeMs !== facts.ctimeMs) {
      return false;
    }
    const isLinked = link(place, kept);
    take();
    if (!isLinked) return true;
    const old = lookAt(kept);
    const isSafe = old === undefined || isUntouched(old, facts);
    if (!isSafe) fs.renameSync(kept, place);
    fs.rmSync(kept, { force: true });
    return isSafe;
  }
}

function isSame(one: Side, other: Side): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.kind === other.kind && one.hash === other.hash;
}

/** Ignores the ctime, which Perdure's own link changes. */
function isUntouched(now: fs.Stats, then: fs.Stats): boolean {
  return now.ino === then.ino && now.size === then.size && now.mtimeMs === then.mtimeMs;
}

function lookAt(place: Buffer | string): fs.Stats | undefined {
  return fs.lstatSync(place, { throwIfNoEntry: false });
}

/** False if the file system has no links, and between file systems. */
function link(from: Buffer | string, to: Buffer | string): boolean {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["EXDEV", "EPERM", "EMLINK", "ENOTSUP", "ENOSYS"].includes(code)) return false;
    throw error;
  }
}

/** Gives a staged file its name; false when the name is taken. */
function placeNew(staged: string, place: Buffer): boolean {
  try {
    if (!link(staged, place)) {
      if (lookAt(place) !== undefined) return false;
      moveOver(staged, place);
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
