/**
 * The files of a run for people and tools: events.jsonl, plan.json, checkpoint.json, receipts and
 * handoffs. All are projections of the journal; deleting them loses nothing but convenience.
 *
 * Owns: when each file is written, and that it is whole whenever it is there.
 * Does not: decide what stands in them (room `view`) or be read by the engine.
 * Invariants:
 * - J5 Every file here can be made anew from the events.
 * - O1 A file appears by rename, complete; only events.jsonl grows, line by line.
 * - O2 Nothing of an earlier attempt is overwritten: each attempt's folder keeps its own receipt.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Recorded } from "../core/event.ts";
import { stepPath } from "../core/place.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { attemptDirOf, type RunDir } from "../engine/state-dir.ts";
import { EventsFile } from "../journal/events-file.ts";
import { failpoint } from "../util/failpoint.ts";
import type { JsonObject } from "../util/json.ts";
import { AttemptClock, type AttemptEnd, attemptEnd } from "../view/attempt-history.ts";
import { checkpointJson } from "../view/checkpoint.ts";
import { NodeHistory } from "../view/node-history.ts";
import { agentName, handoffJson, receiptFileName, receiptJson } from "../view/receipt.ts";
import { packageVersion } from "./version.ts";

/** The checkpoint grows with the run, so at most one part in so many of the time is spent on it. */
const CHECKPOINT_TIME_SHARE = 20;

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

  /** Opens the files of a run and brings them to what the journal says. */
  static open(dir: RunDir, runId: string, planText: string, events: readonly Recorded[]): RunFiles {
    for (const path of [dir.root, dir.receipts, dir.handoffs]) {
      mkdirSync(path, { recursive: true, mode: 0o700 });
    }
    writeWhole(dir.plan, planText);
    const file = EventsFile.open(dir.events, runId);
    file.catchUp(events);
    const files = new RunFiles(dir, file);
    for (const recorded of events) files.#follow(recorded);
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

  #follow(recorded: Recorded): number | undefined {
    this.#history.add(recorded);
    return this.#clock.startOf(recorded);
  }

  #writeReceipt(run: Run, end: Recorded<AttemptEnd>, startedAt: number): void {
    const { event } = end;
    const visit = findVisit(run, event);
    const agent = visit === undefined ? "shell" : agentName(stepOf(visit));
    const name = receiptFileName(stepPath(event), agent);
    const input = { run, end, startedAt, engineVersion: this.#version };
    const receipt = receiptJson(input);
    const folder = attemptDirOf(this.#dir, event);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeJson(join(folder, "receipt.json"), receipt);
    writeJson(join(this.#dir.receipts, name), receipt);
    failpoint("run-files.receipt");
    if (event.type !== "step.completed") return;
    writeJson(join(this.#dir.handoffs, name), handoffJson({ ...input, end: { ...end, event } }));
  }

  #writeCheckpoint(run: Run): void {
    const begun = performance.now();
    writeJson(this.#dir.checkpoint, checkpointJson(run, this.#history, run.updatedAt));
    const cost = performance.now() - begun;
    this.#nextCheckpointAt = begun + cost * CHECKPOINT_TIME_SHARE;
  }
}

function writeJson(path: string, value: JsonObject): void {
  writeWhole(path, `${JSON.stringify(value, null, 2)}\n`);
}

function writeWhole(path: string, text: string): void {
  const draft = `${path}.new`;
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, path);
}
