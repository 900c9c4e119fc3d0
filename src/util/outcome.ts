/** The outcomes of a step, and the canonical form of other spellings. */

/** Other words for the same outcomes. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  succeeded: "success",
  failed: "fail",
  failure: "fail",
  error: "fail",
  partially_succeeded: "partial_success",
};

const WORDS: ReadonlySet<string> = new Set([
  ...["success", "partial_success", "retry", "fail", "skipped"],
  ...Object.keys(OTHER_WORDS),
]);

/** True for a word that means an outcome; case does not matter. */
export function isOutcome(text: string): boolean {
  return WORDS.has(text.trim().toLowerCase());
}

/** The canonical word for an outcome; any other word stays as it is. */
export function canonicalOutcome(outcome: string): string {
  return Object.hasOwn(OTHER_WORDS, outcome) ? (OTHER_WORDS[outcome] ?? outcome) : outcome;
}

/** The outcome in a text that a step wrote; case does not matter. */
export function writtenOutcome(text: string): string {
  const word = text.trim();
  const lower = word.toLowerCase();
  return isOutcome(word) ? canonicalOutcome(lower) : word;
}
