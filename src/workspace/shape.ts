/**
 * Tells from the times of directories alone whether a workspace still has the same names in it, so
 * that no directory has to be listed.
 *
 * Owns: which times may be trusted: those of directories on file systems that are known to change
 * them with every name, and only when they are older than the look that found the names.
 * Does not: say anything about the content of files.
 *
 * - shape/S1 A shape is the same only if no name was added to, removed from or replaced in any of its
 *   directories. In doubt there is no shape, and the caller lists the directories.
 */
import { lstatSync, type Stats, statfsSync } from "node:fs";
import { placeOf, type RawPath } from "./raw-path.ts";

/** The times of directories when their names were last listed. */
export type Shape = ReadonlyMap<RawPath, string>;

/** The clock of a file system stands still for so long. */
const TICK_MS = 20;
/** On disks that keep whole seconds only. */
const COARSE_TICK_MS = 2_000;

/** Linux's numbers of ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, zfs and f2fs. */
const TRUSTED_FILE_SYSTEMS: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010,
]);

/** The shape of directories whose names were listed after `startMs`; undefined when in doubt. */
export function shapeOf(
  root: string,
  directories: Iterable<RawPath>,
  startMs: number,
): Shape | undefined {
  const top = lookAt(root);
  if (top === undefined || !TRUSTED_FILE_SYSTEMS.has(statfsSync(root).type)) return undefined;
  const shape = new Map<RawPath, string>();
  for (const path of directories) {
    const facts = lookAt(fastPlace(root, path));
    if (facts === undefined || facts.dev !== top.dev || isYoung(facts, startMs)) return undefined;
    shape.set(path, stampOf(facts));
  }
  return shape;
}

/** True when every directory of a shape has the same names in it (S1). */
export function hasShape(root: string, shape: Shape): boolean {
  for (const [path, stamp] of shape) {
    const facts = lookAt(fastPlace(root, path));
    if (facts === undefined || stampOf(facts) !== stamp) return false;
  }
  return true;
}

/** True for what may change again without a change of its times. */
export function isYoung(facts: Stats | undefined, startMs: number): boolean {
  if (facts === undefined) return true;
  const { ctimeMs, mtimeMs } = facts;
  const coarse = ctimeMs % 1000 === 0 && mtimeMs % 1000 === 0;
  return Math.max(ctimeMs, mtimeMs) >= startMs - (coarse ? COARSE_TICK_MS : TICK_MS);
}

/** What tells one state of a file or directory from another without reading it. */
export function stampOf({ ino, size, mtimeMs, ctimeMs, mode }: Stats): string {
  return `${ino}:${size}:${mtimeMs}:${ctimeMs}:${mode}`;
}

/** What stands at a place; a link is not followed. */
export function lookAt(place: string | Buffer): Stats | undefined {
  try {
    return lstatSync(place, { throwIfNoEntry: false });
  } catch {
    // A directory above it may not be entered: for us, there is nothing.
    return undefined;
  }
}

/** Text where that is enough: it is several times faster than bytes. */
export function fastPlace(root: string, path: RawPath): string | Buffer {
  if (path === "") return root;
  for (let at = 0; at < path.length; at++) {
    if (path.charCodeAt(at) > 0x7f) return placeOf(root, path);
  }
  return `${root}/${path}`;
}
