/**
 * Somebody who works in the project, and in the workspace of a run, while the run is killed: writes
 * new files and appends to one, and finds them again as they were written.
 *
 * Owns: the files, and the verdict on them.
 * Does not: touch a file of the project or of a step.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const PAUSE_MS = 15;
const FILES_MAX = 400;
const LOG = "bystander.log";

export class Bystander {
  readonly #project: string;
  /** The workspace of the run, when it is another directory than the project and is there. */
  readonly #workspace: () => string | undefined;
  /** What was written, by path. */
  readonly #written = new Map<string, string>();
  #lines = "";
  #stopped = false;
  readonly #working: Promise<void>;

  constructor(project: string, workspace: () => string | undefined) {
    this.#project = project;
    this.#workspace = workspace;
    this.#working = this.#work();
  }

  /** Stops working; then everything that was written must be there: what is not, in words. */
  async verdict(): Promise<readonly string[]> {
    this.#stopped = true;
    await this.#working;
    const missing = [...this.#written].filter(([path, text]) => contentOf(path) !== text);
    const kept = this.#keptElsewhere(missing.map(([, text]) => text));
    // In a workspace of its own a run may set files aside, as long as a snapshot holds them.
    const lost = missing.filter(([path, text]) => this.#isInProject(path) || !kept.has(text));
    const words: string[] = [];
    const [first] = lost;
    if (first !== undefined) {
      const now = contentOf(first[0]);
      const what = now === undefined ? "missing" : `now ${quoted(now)}`;
      words.push(
        `${lost.length} of ${this.#written.size} files, the first: ${first[0]} is ${what}`,
      );
    }
    const log = contentOf(join(this.#project, LOG)) ?? "";
    if (log !== this.#lines) {
      words.push(`${LOG} has ${log.length} of ${this.#lines.length} bytes, or others`);
    }
    return words;
  }

  async #work(): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      if (n < FILES_MAX) {
        this.#write(this.#project, n);
        const workspace = this.#workspace();
        if (workspace !== undefined) this.#write(workspace, n);
        const line = `line ${n}\n`;
        fs.appendFileSync(join(this.#project, LOG), line);
        this.#lines += line;
      }
      await sleep(PAUSE_MS);
    }
  }

  #write(directory: string, n: number): void {
    const path = join(directory, `bystander-${n}.txt`);
    const text = `bystander ${path}\n`;
    try {
      fs.writeFileSync(path, text, { flag: "wx" });
    } catch (error) {
      // The workspace may be made anew just now.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      throw error;
    }
    this.#written.set(path, text);
  }

  #isInProject(path: string): boolean {
    return !path.startsWith(join(this.#project, ".perdure"));
  }

  /** Which of these texts a store of snapshots holds. */
  #keptElsewhere(texts: readonly string[]): ReadonlySet<string> {
    const byHash = new Map(texts.map((text) => [blobHash(text), text]));
    const kept = new Set<string>();
    for (const store of [
      join(this.#project, ".perdure", "snapshots.git"),
      join(this.#project, ".git"),
    ]) {
      if (!fs.existsSync(store)) continue;
      const args = ["--git-dir", store, "cat-file", "--batch-check"];
      const input = [...byHash.keys()].join("\n");
      const { stdout } = spawnSync("git", args, { input, encoding: "utf8" });
      for (const line of stdout.split("\n")) {
        const text = byHash.get(line.split(" ")[0] ?? "");
        if (text !== undefined && line.includes(" blob ")) kept.add(text);
      }
    }
    return kept;
  }
}

function blobHash(text: string): string {
  return createHash("sha1")
    .update(`blob ${Buffer.byteLength(text)}\0${text}`)
    .digest("hex");
}

function contentOf(path: string): string | undefined {
  try {
    return fs.readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}
