/** The words for how a step went: other spellings of them have one form here. */

const WORDS: ReadonlySet<string> = new Set([
  ...["success", "partial_success", "retry", "fail", "skipped"],
  ...["succeeded", "failed", "partially_succeeded"],
]);

/** Other words for the same outcomes. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  succeeded: "success",
  failed: "fail",
  partially_succeeded: "partial_success",
};

/** The one word for an outcome that has several; any other word stays as it is. */
export function canonicalOutcome(outcome: string): string {
  return Object.hasOwn(OTHER_WORDS, outcome) ? (OTHER_WORDS[outcome] ?? outcome) : outcome;
}

/** The outcome that somebody wrote down, for whom `SUCCESS` is the same word. */
export function writtenOutcome(text: string): string {
  const word = text.trim();
  const lower = word.toLowerCase();
  return WORDS.has(lower) ? canonicalOutcome(lower) : word;
}
