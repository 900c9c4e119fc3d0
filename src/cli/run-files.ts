/**
 * The files of a run for people and tools: events.jsonl, plan.json (and plans/ once the run was
 * updated), checkpoint.json, receipts and handoffs. All are projections of the journal; deleting
 * them loses nothing but convenience.
 *
 * Owns: when each file is written, and that it is whole whenever it is there.
 * Does not: decide what stands in them (room `view`) or be read by the engine.
 * Invariants:
 * - J5 Every file here can be made anew from the events.
 * - O1 A file appears by rename or link, complete; only events.jsonl grows, line by line.
 * - O2 Nothing of an earlier attempt is overwritten: each attempt's folder keeps its own receipt.
 * - O4 Secrets are masked in receipts and handoffs, which nothing reads back. Events and checkpoint
 *   are data: a broken journal is rebuilt from them, so they hold every value as it is.
 * - O3 The receipt in the attempt's folder is written last: where it is, its other files are too.
 */
import { existsSync, linkSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AttemptEnd, AttemptRef, Recorded } from "../core/event.ts";
import { stepPath } from "../core/place.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { attemptDirOf, type RunDir } from "../engine/state-dir.ts";
import { EventsFile } from "../journal/events-file.ts";
import { failpoint } from "../util/failpoint.ts";
import type { JsonObject } from "../util/json.ts";
import { AttemptClock, attemptEnd } from "../view/attempt-history.ts";
import { checkpointJson } from "../view/checkpoint.ts";
import { NodeHistory } from "../view/node-history.ts";
import { agentName, handoffJson, receiptFileName, receiptJson } from "../view/receipt.ts";
import type { KnownRun } from "./known-run.ts";
import { maskedJson } from "./print.ts";
import { packageVersion } from "./version.ts";

/** The checkpoint grows with the run, so at most one part in so many of the time is spent on it. */
const CHECKPOINT_TIME_SHARE = 20;

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

  /** Opens the files of a run and brings them to what the journal says; `run` is its replay. */
  static open(dir: RunDir, run: Run, plans: RunPlans, events: readonly Recorded[]): RunFiles {
    for (const path of [dir.root, dir.receipts, dir.handoffs]) {
      mkdirSync(path, { recursive: true, mode: 0o700 });
    }
    writePlans(dir, plans);
    const file = EventsFile.open(dir.events, run.id);
    file.catchUp(events);
    const files = new RunFiles(dir, file);
    files.#catchUp(events, run);
    return files;
  }

  /** Takes a batch that is in the journal. */
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

  /** Writes what is still due; the run is over, or its owner goes. */
  close(run: Run): void {
    this.#writeCheckpoint(run);
    this.#events.sync();
    this.#events.close();
  }

  /** Takes in what happened before, and writes the receipts that a killed owner still owed. */
  #catchUp(events: readonly Recorded[], run: Run): void {
    const ended: { end: Recorded<AttemptEnd>; startedAt: number }[] = [];
    for (const recorded of events) {
      const startedAt = this.#follow(recorded);
      const end = attemptEnd(recorded.event);
      if (end === undefined || startedAt === undefined) continue;
      ended.push({ end: { ...recorded, event: end }, startedAt });
    }
    // Receipts are written in their order: before one that is there, none is owed.
    const last = ended.findLastIndex(({ end }) => existsSync(this.#attemptReceipt(end.event)));
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
    const input = { run, end, startedAt, engineVersion: this.#version };
    writeJson(join(this.#dir.receipts, name), maskedJson(receiptJson(input)));
    failpoint("run-files.receipt");
    if (event.type === "step.completed") {
      const handoff = handoffJson({ ...input, end: { ...end, event } });
      writeJson(join(this.#dir.handoffs, name), maskedJson(handoff));
    }
    mkdirSync(attemptDirOf(this.#dir, event), { recursive: true, mode: 0o700 });
    linkWhole(join(this.#dir.receipts, name), this.#attemptReceipt(event));
  }

  #attemptReceipt(at: AttemptRef): string {
    return join(attemptDirOf(this.#dir, at), "receipt.json");
  }

  #writeCheckpoint(run: Run): void {
    const begun = performance.now();
    writeJson(this.#dir.checkpoint, checkpointJson(run, this.#history, run.updatedAt));
    const cost = performance.now() - begun;
    this.#nextCheckpointAt = begun + cost * CHECKPOINT_TIME_SHARE;
  }
}

/** The text of the plan that a run goes by, and of an updated one the texts of all that it had. */
type RunPlans = Pick<KnownRun, "planText" | "planTexts">;

/** Before the events that name them, so that a repair finds all that it needs. */
function writePlans(dir: RunDir, { planText, planTexts }: RunPlans): void {
  if (planTexts.size > 0) mkdirSync(dir.plans, { recursive: true, mode: 0o700 });
  for (const [name, text] of planTexts) writeWhole(join(dir.plans, `${name}.json`), text);
  writeWhole(dir.plan, planText);
}

function receiptName(run: Run, at: AttemptRef): string {
  const visit = findVisit(run, at);
  return receiptFileName(stepPath(at), visit === undefined ? "shell" : agentName(stepOf(visit)));
}

function writeJson(path: string, value: JsonObject): void {
  writeWhole(path, `${JSON.stringify(value, null, 2)}\n`);
}

function writeWhole(path: string, text: string): void {
  const draft = `${path}.new`;
  // With the encoding given, Node opens, writes and closes in one call.
  writeFileSync(draft, text, { encoding: "utf8", mode: 0o600 });
  renameSync(draft, path);
}

/** Gives a whole file a second name; where there are no links, a copy of it. */
function linkWhole(path: string, name: string): void {
  try {
    linkSync(path, name);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EMLINK"].includes(code ?? "")) throw error;
    writeWhole(name, readFileSync(path, "utf8"));
  }
}
