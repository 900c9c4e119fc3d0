/** The lines that a worker prints: one for each thing that a person may want to know. */
import type { WorkerMessage } from "../app/fleet/worker-message.ts";
import { formatDuration } from "../util/duration.ts";

const SHORT_ID_LENGTH = 8;

const LOSSES = {
  "not-renewed": "its lease could not be renewed in time",
  "another-owner": "another worker has it",
  "slow-clock": "the clock of this machine runs slow",
} as const;

/** A message of a worker as one line, with the time in front. */
export function workerLine(message: WorkerMessage, now: Date): string {
  return `${now.toISOString().slice(0, 19)}Z ${textOf(message, now.getTime())}`;
}

function textOf(message: WorkerMessage, now: number): string {
  const run = "runId" in message ? `run ${message.runId.slice(0, SHORT_ID_LENGTH)}` : "";
  switch (message.type) {
    case "ready":
      return `worker ${message.worker.slice(0, SHORT_ID_LENGTH)} takes runs`;
    case "took":
      return message.how === "adopt" ? `${run}: continues here after a restart` : `${run}: taken`;
    case "ended":
      return `${run}: ${endText(message.result, now)}`;
    case "failed":
      return message.next === "dead"
        ? `${run}: could not be driven, and is a dead letter now: ${message.reason}`
        : `${run}: could not be driven, and is queued again: ${message.reason}`;
    case "lost":
      return `${run}: given up, and its steps are ended: ${LOSSES[message.why]}`;
    case "scheduled":
      return `${run}: started by the schedule of ${message.name}`;
    case "store-away":
      return `the store does not answer: ${message.reason}`;
    case "store-back":
      return "the store answers again";
    case "not-removed":
      return `the disk keeps what is not needed any more: ${message.reason}`;
    case "draining":
      return `takes no more runs; hands over ${message.runs}`;
  }
}

function endText(result: Extract<WorkerMessage, { type: "ended" }>["result"], now: number): string {
  switch (result.how) {
    case "left":
      return result.status === "running" ? "waits for a person" : result.status;
    case "waits":
      return `waits for ${formatDuration(Math.max(0, result.until - now))}`;
    case "handed-over":
      return "handed over";
    case "lost":
      return "given up";
  }
}
