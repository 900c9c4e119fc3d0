/** Makes git repositories with committed files. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FOLDERS = 200;
const FILE_BYTES = 3_000;

/** Makes the directory a repository in which everything is committed. */
export function makeRepository(directory: string, files: number): void {
  for (let index = 0; index < files; index++) {
    const folder = join(directory, `d${index % FOLDERS}`);
    if (index < FOLDERS) mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `f${index}`), textOf(`file ${index}`));
  }
  git(directory, "init", "-q");
  git(directory, "add", ".");
  git(directory, "-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-qm", "bench");
}

/** A text that barely compresses, because the benchmark compares bytes. */
export function textOf(seed: string): string {
  let state = [...seed].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7);
  const words: string[] = [];
  for (let length = 0; length < FILE_BYTES; length += 9) {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    words.push(state.toString(16).padStart(8, "0"));
  }
  return `${words.join("\n")}\n`;
}

/** Runs git in the directory; throws when it fails. */
export function git(directory: string, ...args: readonly string[]): void {
  execFileSync("git", args, { cwd: directory, stdio: ["ignore", "ignore", "inherit"] });
}
