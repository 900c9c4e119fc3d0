/**
 * What must be on the disk before what, held against a recording of system calls: a kill never
 * loses what the kernel has taken, so only the order of writes, syncs and effects can show that a
 * power cut loses nothing either.
 *
 * Invariants that are checked:
 * - durability/D1 An attempt's process is started after the `step.started` that names it is synced.
 * - durability/D2 When an append names an artifact, its content, its name and the names of its
 *   folders are synced.
 * - durability/D3 When an append names a snapshot, every object and ref that was created in a store
 *   of snapshots until then is synced.
 * - durability/D4 Whatever the program prints, all its appends are synced by then.
 */
import { dirname } from "node:path";
import type { Call } from "../rig/system-calls.ts";

/** A recorded run, and what its events say. */
export interface Recording {
  readonly calls: readonly Call[];
  /** The project's directory. */
  readonly directory: string;
  /** The text of each event's data, as the journal stores it. */
  readonly events: readonly { readonly type: string; readonly data: string }[];
}

/**
 * How often each rule was looked at, so that no rule holds for want of a case; and what broke it.
 */
export interface Verdict {
  readonly attempts: number;
  readonly artifacts: number;
  readonly snapshots: number;
  readonly storeFiles: number;
  readonly prints: number;
  readonly broken: readonly string[];
}

/** Holds a recording against the rules. */
export function judge(recording: Recording): Verdict {
  const judge = new Judge(recording);
  for (const call of recording.calls) judge.take(call);
  return judge.verdict();
}

const WRITES = ["write", "writev", "pwrite64", "pwritev", "ftruncate"];
const COPIES = ["copy_file_range", "sendfile"];

class Judge {
  readonly #directory: string;
  readonly #database: string;
  readonly #wal: string;
  readonly #stores: readonly string[];
  /**
   * Files whose content is not synced, and directories with names that are not; with the line of
   * the last change.
   */
  readonly #content = new Map<string, number>();
  readonly #names = new Map<string, number>();
  readonly #broken: string[] = [];
  /** Texts that an append has to hold before something else may happen, until one does. */
  readonly #artifacts: Set<string>;
  readonly #snapshots: Set<string>;
  readonly #starts: Map<string, string>;
  readonly #appended = new Set<string>();
  readonly #started = new Set<string>();
  readonly #opened = new Set<string>();
  readonly #storeFiles = new Set<string>();
  readonly #counts = { attempts: 0, artifacts: 0, snapshots: 0, prints: 0 };
  #program: number | undefined;

  constructor({ directory, events }: Recording) {
    this.#directory = directory;
    this.#database = `${directory}/.perdure/state.db`;
    this.#wal = `${this.#database}-wal`;
    this.#stores = [`${directory}/.perdure/snapshots.git`, `${directory}/.git`];
    const data = events.map((event) => event.data).join("\n");
    const found = (pattern: RegExp): Set<string> =>
      new Set([...data.matchAll(pattern)].map((match) => match[1] ?? ""));
    this.#artifacts = found(/"path":"[^"]*","sha256":"([0-9a-f]{64})"/g);
    this.#snapshots = found(/"(?:commit|base)":"([0-9a-f]{40,64})"/g);
    const starts = events.filter(({ type }) => type === "step.started");
    this.#starts = new Map(starts.map((event) => [attemptIn(event.data), event.data]));
  }

  take(call: Call): void {
    this.#program ??= call.process;
    if (call.name === "execve") this.#checkStart(call);
    if (call.result.startsWith("-1")) return;
    const path = /^\d+<([^>]*)>/.exec(call.text)?.[1] ?? "";
    if (WRITES.includes(call.name)) this.#write(call, path);
    if (COPIES.includes(call.name)) this.#change(copyTarget(call), call);
    if (call.name === "fsync" || call.name === "fdatasync") this.#sync(call, path);
    if (/^(open|openat|creat)$/.test(call.name)) this.#open(call);
    if (/^(rename|link)/.test(call.name)) this.#name(call);
    if (call.name.startsWith("mkdir")) this.#names.set(pathsIn(call)[0] ?? "", call.end);
    if (call.name.startsWith("unlink")) this.#content.delete(pathsIn(call)[0] ?? "");
  }

  verdict(): Verdict {
    for (const one of [...this.#artifacts, ...this.#snapshots]) {
      this.#broken.push(`no append was seen that names ${one}`);
    }
    return { ...this.#counts, storeFiles: this.#storeFiles.size, broken: this.#broken };
  }

  #write(call: Call, path: string): void {
    if (path === this.#wal) this.#append(call);
    if (call.process === this.#program && /^[12]</.test(call.text)) {
      this.#counts.prints++;
      if (this.#content.has(this.#wal)) this.#broken.push("D4: printed before an append is synced");
    }
    this.#change(path, call);
  }

  /** The content of a file changed; it counts as changed until a later sync. */
  #change(path: string, call: Call): void {
    if (!path.startsWith(`${this.#directory}/`)) return;
    this.#content.set(path, call.end);
    if (this.#isStored(path)) this.#storeFiles.add(path);
  }

  #sync(call: Call, path: string): void {
    const changed = this.#content.get(path);
    if (changed !== undefined && changed < call.begin) this.#content.delete(path);
    for (const [name, at] of this.#names) {
      if (dirname(name) === path && at < call.begin) this.#names.delete(name);
    }
  }

  #open(call: Call): void {
    if (!/O_CREAT|O_TRUNC/.test(call.text) && call.name !== "creat") return;
    const path = /<([^>]*)>$/.exec(call.result.trim())?.[1] ?? "";
    // SQLite opens its files again and again; then their names are old.
    if (this.#opened.has(path)) return;
    this.#opened.add(path);
    this.#change(path, call);
    this.#names.set(path, call.end);
  }

  /** A rename or a link: the state of the content goes along, a directory takes what is in it. */
  #name(call: Call): void {
    const [from = "", to = ""] = pathsIn(call);
    // What was there is replaced as a whole.
    this.#content.delete(to);
    for (const map of [this.#content, this.#names]) {
      for (const [path, at] of [...map]) {
        if (path !== from && !path.startsWith(`${from}/`)) continue;
        map.set(to + path.slice(from.length), at);
        if (call.name.startsWith("rename")) map.delete(path);
      }
    }
    if (this.#isStored(to)) this.#storeFiles.add(to);
    this.#names.set(to, call.end);
  }

  /** durability/D2, durability/D3; and notes which starts are written. */
  #append(call: Call): void {
    for (const [attempt, data] of this.#starts) {
      if (call.text.includes(data)) this.#appended.add(attempt);
    }
    for (const sha256 of this.#artifacts) {
      if (!call.text.includes(`"sha256":"${sha256}"`)) continue;
      this.#artifacts.delete(sha256);
      this.#counts.artifacts++;
      this.#checkArtifact(sha256);
    }
    for (const commit of this.#snapshots) {
      if (!call.text.includes(commit)) continue;
      this.#snapshots.delete(commit);
      this.#counts.snapshots++;
      const open = [...this.#content.keys()].filter((path) => this.#isStored(path));
      for (const path of open) {
        this.#broken.push(`D3: ${commit} is appended before ${path} is synced`);
      }
    }
  }

  #checkArtifact(sha256: string): void {
    const store = `${this.#directory}/.perdure/artifacts`;
    const path = `${store}/${sha256.slice(0, 2)}/${sha256}`;
    if (this.#content.has(path)) this.#broken.push(`D2: the content of ${path} is not synced`);
    this.#checkNames("D2", path);
  }

  /** The names of a file and of the folders that lead to it from the project. */
  #checkNames(rule: string, path: string): void {
    for (let name = path; name !== this.#directory; name = dirname(name)) {
      if (this.#names.has(name)) this.#broken.push(`${rule}: the name ${name} is not synced`);
    }
  }

  /** durability/D1 */
  #checkStart(call: Call): void {
    const attempt = /"[^"]*\/attempts\/([^/"]+)["/]/.exec(call.text)?.[1];
    if (attempt === undefined || this.#started.has(attempt)) return;
    this.#started.add(attempt);
    this.#counts.attempts++;
    if (!this.#appended.has(attempt)) {
      this.#broken.push(`D1: ${attempt} is started before its step.started is written`);
    }
    if (this.#content.has(this.#wal)) {
      this.#broken.push(`D1: ${attempt} is started before its step.started is synced`);
    }
    this.#checkNames("D1", this.#wal);
    this.#checkNames("D1", this.#database);
  }

  /** The index of a store is a cache; objects and refs are what a snapshot is. */
  #isStored(path: string): boolean {
    const store = this.#stores.find((one) => path.startsWith(`${one}/`));
    const name = store === undefined ? "" : path.slice(store.length + 1);
    return /^(objects|refs|worktrees\/[^/]+\/refs)\/|^packed-refs/.test(name);
  }
}

/**
 * The absolute paths among the arguments of a call; those that are relative belong to programs of
 * steps.
 */
function pathsIn({ text }: Call): readonly string[] {
  return [...text.matchAll(/(?<!\w)"([^"]*)"/g)].map((match) => match[1] ?? "");
}

function copyTarget({ name, text }: Call): string {
  const paths = [...text.matchAll(/\d+<([^>]*)>/g)].map((match) => match[1] ?? "");
  return (name === "sendfile" ? paths[0] : paths[1]) ?? "";
}

/** The name of the attempt's folder for the data of a `step.started` at the top of a run. */
function attemptIn(data: string): string {
  const { step, visit, attempt } = JSON.parse(data) as Record<string, unknown>;
  return `${String(step)}@${String(visit)}.${String(attempt)}`;
}
