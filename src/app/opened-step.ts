/**
 * Programs that a person opened on a run (`perdure open`) and that outlived the process that holds
 * the run's lease for them.
 *
 * Owns: the refusal to use a conversation beside such a program.
 * Does not: end it: a person may be typing in it.
 */
import { findMarked, openMarker } from "../runner/process/sweep.ts";
import type { KnownRun } from "./known-run.ts";
import { after, Refusal } from "./refusal.ts";

/** Refuses to continue a run while the program of an earlier `perdure open` is still there. */
export function refuseOpened({ id, plan, shortId }: KnownRun): void {
  if (Object.values(plan.agents).every(({ adapter }) => adapter === "command")) return;
  const pids = findMarked(openMarker(id));
  if (pids.length === 0) return;
  const message = `the program that perdure open started on run ${shortId} is still running`;
  throw new Refusal(
    "agent-open",
    message,
    after(`end it (kill ${pids.join(" ")})`, "resume", shortId),
  );
}
