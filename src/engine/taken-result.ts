/**
 * Puts the result of an earlier run into a workspace, in place of a process; and finds what the
 * process of a step changed that no later run could put there.
 *
 * Owns: making the changes of a result path by path, and undoing them when they do not fit.
 * Does not: choose the result (executors/results.ts).
 * Invariants:
 * - taken-result/X1 Making the same changes again changes nothing, so a kill needs no record beside
 *   the event that names the result.
 * - taken-result/X2 A path that somebody changed meanwhile stays as it is; then the other paths are
 *   put back, and the step runs.
 */
import type { AttemptRef, FoundResult, Saved } from "../core/event.ts";
import { findVisit, stepOf } from "../core/run.ts";
import { failpoint } from "../util/failpoint.ts";
import { describeFile, putArtifact, targetOutside } from "../workspace/artifact.ts";
import { applyChanges } from "../workspace/snapshot/apply.ts";
import { changedUnsaved } from "../workspace/snapshot/recorded-change.ts";
import type { Workspace } from "../workspace/snapshot/workspace.ts";
import { type LaunchInput, outputPaths } from "./launch.ts";

/** Why a result was not taken, if it was not. */
export interface ReuseReport {
  readonly problem: { readonly why: "damaged" | "changed"; readonly message: string } | undefined;
}

const PATHS_SHOWN_MAX = 5;

/** Makes the changes of a result in a workspace that was as in the snapshot `start`. */
export async function reuseResult(
  place: Workspace,
  { base, after, held }: FoundResult,
  { start, artifacts }: { readonly start: string; readonly artifacts: string },
): Promise<ReuseReport> {
  failpoint("reuse.begun");
  const { changedMeanwhile } = await applyChanges(place, { from: base, to: after });
  failpoint("reuse.files");
  let problem: ReuseReport["problem"];
  if (changedMeanwhile.length > 0) {
    const shown = changedMeanwhile.slice(0, PATHS_SHOWN_MAX).join(", ");
    problem = { why: "changed", message: `somebody changed these files meanwhile: ${shown}` };
  }
  for (const [name, output] of Object.entries(held.outputs)) {
    if (problem !== undefined) break;
    if ((await describeFile(output.path))?.sha256 === output.sha256) continue;
    const outside = targetOutside([place.path], output.path);
    const isPut = outside === undefined && (await putArtifact(artifacts, output, output.path));
    if (isPut) continue;
    const message = `its output "${name}" cannot be put at ${output.path}`;
    problem = { why: "damaged", message };
  }
  if (problem !== undefined) await applyChanges(place, { from: after, to: start });
  failpoint("reuse.taken");
  return { problem };
}

/** The files that ended steps with `cache` changed and that the snapshot after them does not hold. */
export async function unsavedOf(
  site: LaunchInput,
  ended: readonly AttemptRef[],
  place: Workspace,
  { skipped = [] }: Saved,
): Promise<readonly string[]> {
  const found = new Set<string>();
  for (const at of ended) {
    const visit = findVisit(site.run, at);
    const settings = visit && stepOf(visit).cache;
    if (visit?.recall?.key === undefined || settings === undefined) continue;
    // A result that was taken changed what its snapshots and its outputs say.
    if (settings.dropsIgnored === true || visit.recall.found !== undefined) continue;
    const search = {
      since: visit.startedAt ?? 0,
      skipped: skipped.map(({ path }) => path),
      // Its outputs are kept beside the snapshots.
      except: Object.values(outputPaths(site, visit)),
    };
    for (const path of await changedUnsaved(place, search)) found.add(path);
  }
  return [...found];
}
