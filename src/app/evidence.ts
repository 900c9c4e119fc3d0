import { attemptText } from "../core/place.ts";
import { attemptOf } from "../core/run.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { lookAt } from "../runner/process/adopt.ts";
import type { Evidence } from "../view/resume-plan.ts";
import type { KnownRun } from "./known-run.ts";

/** What became of each attempt that the journal says is running. */
export function evidenceOf({ run, dir }: KnownRun): ReadonlyMap<string, Evidence> {
  const evidence = new Map<string, Evidence>();
  for (const visit of run.running) {
    const at = attemptOf(visit);
    evidence.set(attemptText(at), lookAt(attemptDirOf(dir, at)));
  }
  return evidence;
}
