/** What a worktree run left, as lines and as JSON: its branch, how to look at it and how to take it. */
import type { PartOf, result as resultPart } from "./json/document-parts.ts";
import { commandText, countText } from "./text.ts";

/** What is on the branch of a worktree run. */
export interface ResultSummary {
  readonly tip: string;
  readonly branch: string | undefined;
  readonly commits: number;
  readonly files: number;
  readonly added: number;
  readonly removed: number;
  readonly uncommitted: readonly string[];
  readonly target: string | undefined;
  readonly newOnTarget: number;
  readonly isMerged: boolean;
  readonly place: { readonly worktree: string; readonly base: string };
}

const SHORT_LENGTH = 8;

/** The lines about the result of a run; none when it changed nothing. */
export function resultLines(result: ResultSummary, shortId: string): readonly string[] {
  const { branch, tip, commits, uncommitted, target, newOnTarget, place, isMerged } = result;
  if (commits === 0 && uncommitted.length === 0) return [];
  const look = lookCommand(result);
  const moved =
    newOnTarget > 0 && !isMerged && target !== undefined
      ? [`note    ${target} has ${countText(newOnTarget, "new commit")} since the run started`]
      : [];
  const others = commits === 0 ? "" : "   (or: apply, pr)";
  const take = isMerged
    ? `taken   ${target ?? "the checkout"} has all of its commits`
    : `take    ${takeCommand(result, shortId)}${others}`;
  return [
    `branch  ${branch ?? tip.slice(0, SHORT_LENGTH)}: ${contentText(result)}`,
    `files   ${place.worktree}`,
    ...(look === undefined ? [] : [`look    ${look}`]),
    ...moved,
    take,
  ].map((line) => `  ${line}`);
}

/** The lines about the result of a run that a fleet has: only taking it brings it here. */
export function fleetResultLines(branch: string, shortId: string): readonly string[] {
  const take = `${commandText("merge", shortId)}   (or: apply, pr; in a clone of its repository)`;
  return [`  branch  ${branch}, in the fleet`, `  take    ${take}`];
}

/** The same for programs. */
export function resultJson(
  result: ResultSummary | undefined,
  shortId: string,
): PartOf<typeof resultPart> {
  if (result === undefined) return null;
  const { place, target, isMerged, commits, uncommitted } = result;
  const isEmpty = commits === 0 && uncommitted.length === 0;
  return {
    branch: result.branch ?? null,
    directory: place.worktree,
    base: target ?? place.base,
    base_moved: result.newOnTarget,
    commits,
    files_changed: result.files,
    lines_added: result.added,
    lines_removed: result.removed,
    uncommitted,
    merged: isMerged,
    look: lookCommand(result) ?? null,
    take: isMerged || isEmpty ? null : takeCommand(result, shortId),
  };
}

/** Shows the commits of the run. A branch that has them is no base to compare with. */
function lookCommand(result: ResultSummary): string | undefined {
  const { branch, tip, commits, target, place, isMerged } = result;
  if (commits === 0) return undefined;
  const name = branch ?? tip.slice(0, SHORT_LENGTH);
  const base = place.base.slice(0, SHORT_LENGTH);
  return `git diff ${isMerged ? base : (target ?? base)}...${name}`;
}

function takeCommand({ commits }: ResultSummary, shortId: string): string {
  return commandText(commits === 0 ? "apply" : "merge", shortId);
}

function contentText({ commits, files, added, removed, uncommitted }: ResultSummary): string {
  const loose =
    uncommitted.length === 0
      ? "nothing uncommitted"
      : `${countText(uncommitted.length, "uncommitted file")}`;
  const changed = `${countText(commits, "commit")}, ${countText(files, "file")}`;
  return `${changed}, +${added} -${removed}, ${loose}`;
}
