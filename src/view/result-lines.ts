/** What a worktree run left, as lines: its branch, how to look at it and how to take it. */
import { commandText, countText } from "./text.ts";

interface ResultSummary {
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
  const name = branch ?? tip.slice(0, SHORT_LENGTH);
  const base = target ?? place.base.slice(0, SHORT_LENGTH);
  const moved =
    newOnTarget > 0 && !isMerged && target !== undefined
      ? [`note    ${target} has ${countText(newOnTarget, "new commit")} since the run started`]
      : [];
  const take = isMerged
    ? `taken   ${target ?? "the checkout"} has all of its commits`
    : `take    ${commandText(commits === 0 ? "apply" : "merge", shortId)}`;
  return [
    `branch  ${name}: ${contentText(result)}`,
    `files   ${place.worktree}`,
    ...(commits === 0 ? [] : [`look    git diff ${base}...${name}`]),
    ...moved,
    take,
  ];
}

function contentText({ commits, files, added, removed, uncommitted }: ResultSummary): string {
  const loose =
    uncommitted.length === 0
      ? "nothing uncommitted"
      : `${countText(uncommitted.length, "uncommitted file")}`;
  const changed = `${countText(commits, "commit")}, ${countText(files, "file")}`;
  return `${changed}, +${added} -${removed}, ${loose}`;
}
