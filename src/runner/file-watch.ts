/** Being told that a file changed, where the system can do that. */
import { type FSWatcher, watch } from "node:fs";

/**
 * Calls `onChange` when the file changes. The returned function ends that; undefined means that
 * the system cannot (no such file yet, or out of watches), and the caller has its slow check.
 */
export function watchFile(file: string, onChange: () => void): (() => void) | undefined {
  let watcher: FSWatcher;
  try {
    watcher = watch(file, { persistent: false }, onChange);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
  const close = (): void => watcher.close();
  watcher.on("error", close);
  return close;
}
