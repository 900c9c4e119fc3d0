/**
 * The files of a run for people and tools: events.jsonl, plan.json (and plans/ once the run was
 * updated), checkpoint.json, receipts and handoffs. All are projections of the journal; deleting
 * them loses nothing but convenience.
 *
 * Owns: when each file is written, and that it is complete whenever it exists.
 * Does not: decide the content (room `view`). The engine does not read these files.
 * Invariants:
 * - run-files/J5 Every file here can be rebuilt from the events.
 * - run-files/O1 A file appears by rename or link, complete; only events.jsonl grows, line by line.
 * - app/O2 Nothing of an earlier attempt is overwritten: before a step's receipt is replaced by
 *   that of its next attempt, it moves into its own attempt's folder.
 * - app/O3 The receipt appears last: if it exists, the handoff exists too, and it is the same file
 *   under another name. Files that only matter while the attempt runs are removed after that.
 * - app/O4 Secrets are masked in receipts and handoffs, which nothing reads back. Events and
 *   checkpoint are data: a broken journal is rebuilt from them, so they hold every value unchanged.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import type { AttemptEnd, AttemptRef, Recorded } from "../../core/event.ts";
import { findVisit, type Run, stepOf } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { attemptDirOf, type RunDir } from "../../engine/state-dir.ts";
import { EventsFile } from "../../journal/events-file.ts";
import { clearAttempt } from "../../runner/process/attempt-folder.ts";
import { failpoint } from "../../util/failpoint.ts";
import { isObject, type JsonObject, parseJson } from "../../util/json.ts";
import { AttemptClock, attemptEnd } from "../../view/attempt-history.ts";
import {
  agentName,
  checkpointJson,
  NodeHistory,
  receiptFileName,
  receiptJson,
} from "../../view/json/run-files.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { maskedJson } from "../output/secret-mask.ts";
import { packageVersion } from "../this-process.ts";

/** The checkpoint grows with the run, so writing it may take only this fraction (1/n) of the time. */
const CHECKPOINT_TIME_SHARE = 20;

/** What the files of a run show. */
type RecordedRun = Pick<LoadedRun, "dir" | "run" | "events" | "planText" | "planTexts">;

/** The files of one run, open for its owner. */
export class RunFiles {
  readonly #dir: RunDir;
  readonly #events: EventsFile;
  readonly #clock = new AttemptClock();
  readonly #history = new NodeHistory();
  readonly #version = packageVersion();
  #nextCheckpointAt = 0;

  private constructor(dir: RunDir, events: EventsFile) {
    this.#dir = dir;
    this.#events = events;
  }

  /** Opens the files of a run and brings them up to date. */
  static open(known: RecordedRun): RunFiles {
    const { dir, run, events } = known;
    for (const path of [dir.root, dir.receipts, dir.handoffs]) {
      fs.mkdirSync(path, { recursive: true, mode: 0o700 });
    }
    writePlans(known);
    const file = EventsFile.open(dir.events, run.id);
    file.catchUp(events);
    const files = new RunFiles(dir, file);
    files.#catchUp(events, run);
    return files;
  }

  /** Writes what a batch of durable events changes. */
  record(events: readonly Recorded[], run: Run): void {
    this.#events.append(events);
    failpoint("run-files.events");
    for (const recorded of events) {
      const startedAt = this.#follow(recorded);
      const end = attemptEnd(recorded.event);
      if (end !== undefined && startedAt !== undefined) {
        this.#writeReceipt(run, { ...recorded, event: end }, startedAt);
      }
    }
    if (performance.now() >= this.#nextCheckpointAt) this.#writeCheckpoint(run);
    failpoint("run-files.done");
  }

  /** Writes the last checkpoint and closes the files. */
  close(run: Run): void {
    this.#writeCheckpoint(run);
    this.#events.sync();
    this.#events.close();
  }

  /** Reads the earlier events, and writes the receipts that a killed owner did not write. */
  #catchUp(events: readonly Recorded[], run: Run): void {
    const ended: { end: Recorded<AttemptEnd>; startedAt: number }[] = [];
    for (const recorded of events) {
      const startedAt = this.#follow(recorded);
      const end = attemptEnd(recorded.event);
      if (end === undefined || startedAt === undefined) continue;
      ended.push({ end: { ...recorded, event: end }, startedAt });
    }
    // Owners write receipts in order, so none is missing before an existing one.
    const last = ended.findLastIndex(({ end }) => this.#hasReceipt(run, end.event));
    for (const { end, startedAt } of ended.slice(last + 1)) {
      this.#writeReceipt(run, end, startedAt);
    }
  }

  #follow(recorded: Recorded): number | undefined {
    this.#history.add(recorded);
    return this.#clock.startOf(recorded);
  }

  #writeReceipt(run: Run, end: Recorded<AttemptEnd>, startedAt: number): void {
    const { event } = end;
    const name = receiptName(run, event);
    const path = join(this.#dir.receipts, name);
    const draft = `${path}.new`;
    const input = { run, end, startedAt, engineVersion: this.#version };
    writeFile(draft, jsonText(maskedJson(receiptJson(input))));
    if (event.type === "step.completed") linkOver(draft, join(this.#dir.handoffs, name));
    failpoint("run-files.receipt");
    if (event.visit > 1 || event.attempt > 1) this.#moveReceipt(path, event);
    fs.renameSync(draft, path);
    if (hasExitStatus(event)) clearAttempt(attemptDirOf(this.#dir, event));
  }

  /** Moves the receipt of an earlier attempt into that attempt's folder. */
  #moveReceipt(path: string, by: AttemptRef): void {
    const at = attemptIn(path);
    if (at === undefined || attemptText(at) === attemptText(by)) return;
    const dir = attemptDirOf(this.#dir, at);
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    fs.renameSync(path, join(dir, ATTEMPT_RECEIPT));
  }

  #hasReceipt(run: Run, at: AttemptRef): boolean {
    const found = attemptIn(join(this.#dir.receipts, receiptName(run, at)));
    if (found !== undefined && attemptText(found) === attemptText(at)) return true;
    return fs.existsSync(join(attemptDirOf(this.#dir, at), ATTEMPT_RECEIPT));
  }

  #writeCheckpoint(run: Run): void {
    const begun = performance.now();
    writeWhole(this.#dir.checkpoint, jsonText(checkpointJson(run, this.#history, run.updatedAt)));
    const cost = performance.now() - begun;
    this.#nextCheckpointAt = begun + cost * CHECKPOINT_TIME_SHARE;
  }
}

/** Writes the files that a run lacks when a kill came between its last event and them. */
export function completeRunFiles(known: LoadedRun): void {
  RunFiles.open(known).close(known.run);
}

/** Writes the plans before the events that name them, so that a repair finds all that it needs. */
function writePlans({ dir, planText, planTexts }: RecordedRun): void {
  if (planTexts.size > 0) fs.mkdirSync(dir.plans, { recursive: true, mode: 0o700 });
  for (const [name, text] of planTexts) writeWhole(join(dir.plans, `${name}.json`), text);
  writeWhole(dir.plan, planText);
}

function receiptName(run: Run, at: AttemptRef): string {
  const visit = findVisit(run, at);
  return receiptFileName(stepPath(at), visit === undefined ? "shell" : agentName(stepOf(visit)));
}

/** The name of a receipt in the folder of its attempt. */
const ATTEMPT_RECEIPT = "receipt.json";

/** The attempt that a receipt describes; undefined when the file is missing or not a receipt. */
function attemptIn(path: string): AttemptRef | undefined {
  if (!fs.existsSync(path)) return undefined;
  const parsed = parseJson(fs.readFileSync(path, "utf8"));
  if (!parsed.ok || !isObject(parsed.json)) return undefined;
  const { scope, step, visit, attempt } = parsed.json;
  if (typeof scope !== "string" || typeof step !== "string") return undefined;
  return { scope, step, visit: Number(visit), attempt: Number(attempt) };
}

/** True when the wrapper wrote the exit status, so that no process of the attempt can start any more. */
function hasExitStatus(event: AttemptEnd): boolean {
  if (event.type === "step.completed") return event.settledBy === undefined;
  return event.type === "step.failed" && event.exit !== undefined;
}

function jsonText(value: JsonObject): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function writeWhole(path: string, text: string): void {
  const draft = `${path}.new`;
  writeFile(draft, text);
  fs.renameSync(draft, path);
}

/** Writes a new file. A leftover of a killed owner goes first: it may be a link to a handoff. */
function writeFile(path: string, text: string): void {
  const options = { encoding: "utf8", mode: 0o600, flag: "wx" } as const;
  try {
    // With an encoding, Node opens, writes and closes the file in one call.
    fs.writeFileSync(path, text, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    fs.unlinkSync(path);
    fs.writeFileSync(path, text, options);
  }
}

/**
 * Links a complete file to a second name and replaces what has that name; copies it where links
 * fail.
 */
function linkOver(path: string, name: string): void {
  try {
    fs.linkSync(path, name);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") {
      fs.rmSync(`${name}.new`, { force: true });
      fs.linkSync(path, `${name}.new`);
      fs.renameSync(`${name}.new`, name);
      return;
    }
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EMLINK"].includes(code ?? "")) throw error;
    writeWhole(name, fs.readFileSync(path, "utf8"));
  }
}
