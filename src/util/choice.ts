/**
 * The labels of edges as choices for a person: `[Y] Yes`, `Y) Yes`, `Y - Yes`, `Yes`.
 *
 * Owns: accelerator keys, and when two labels are equal.
 * Does not: ask questions.
 */

interface Choice {
  /** The key that a person types. */
  readonly key: string;
  /** The label without its key. */
  readonly text: string;
}

const ACCELERATOR = /^\s*(?:\[(\w+)\]\s*|(\w)\)\s*|(\w)\s+-\s+)(?=\S)/;

/** The key and the text of a label; without an accelerator the key is the first letter. */
export function choiceOf(label: string): Choice {
  const found = ACCELERATOR.exec(label);
  if (found === null) {
    const text = label.trim();
    return { key: String.fromCodePoint(text.codePointAt(0) ?? 0x3f).toUpperCase(), text };
  }
  const key = found[1] ?? found[2] ?? found[3] ?? "";
  return { key: key.toUpperCase(), text: label.slice(found[0].length).trim() };
}

/** The form in which labels are compared: lower case, trimmed, without the accelerator. */
export function normalizedLabel(label: string): string {
  return label.replace(ACCELERATOR, "").trim().toLowerCase();
}

/** True when two labels name the same choice. */
export function sameLabel(one: string | undefined, other: string): boolean {
  return one !== undefined && normalizedLabel(one) === normalizedLabel(other);
}

interface Named {
  readonly key: string;
  readonly label: string;
}

/** The choice that a word names by key or label; case does not matter. */
export function choiceNamed<C extends Named>(choices: readonly C[], word: string): C | undefined {
  const wanted = word.trim().toUpperCase();
  return (
    choices.find(({ key }) => key.toUpperCase() === wanted) ??
    choices.find(({ label }) => sameLabel(label, word))
  );
}
