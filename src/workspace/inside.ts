/** Whether a path stays below directories, links on the way followed. */
import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative } from "node:path";

/** Where a path leads when that is out of all these directories, as it is written or by a link. */
export function targetOutside(directories: readonly string[], path: string): string | undefined {
  const target = realPath(path);
  const holds = (directory: string): boolean =>
    !isOutside(directory, path) && !isOutside(realPath(directory), target);
  return directories.some(holds) ? undefined : target;
}

function isOutside(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way === ".." || way.startsWith("../") || isAbsolute(way);
}

/** The path without links; what does not exist yet is taken as it is written. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if ((code !== "ENOENT" && code !== "ENOTDIR") || dirname(path) === path) throw error;
    return join(realPath(dirname(path)), basename(path));
  }
}
