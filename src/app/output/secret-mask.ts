/**
 * Masks the secrets that this process must not show.
 *
 * Owns: the list of secrets: variables whose names look like a secret's, values that the loaded runs
 * declare (`hideSecrets`), and values of which the runs only have marks (`hideMarked`).
 * Does not: print; every face masks its output with `masked`.
 */
import {
  isMarked,
  markedRedactor,
  type Redact,
  redactJson,
  redactorOf,
  type SecretMarks,
  secretsIn,
} from "../../util/secrets.ts";

const secrets = new Set<string>();
/** The marks whose values this process does not know, by their salts. */
const marked = new Map<string, SecretMarks>();
let redact: Redact | undefined;

/** From now on this process masks these values. */
export function hideSecrets(values: readonly string[]): void {
  const before = secrets.size;
  for (const value of values) secrets.add(value);
  if (secrets.size > before) redact = undefined;
}

/** From now on this process masks what these marks recognise. */
export function hideMarked(sets: readonly SecretMarks[]): void {
  for (const set of sets) {
    if (marked.has(set.salt)) continue;
    const unknown = Object.entries(set.marks).filter(([name, marks]) => {
      const value = process.env[name];
      if (marks.length === 0) return false;
      if (value === undefined || !isMarked(set, name, value)) return true;
      hideSecrets([value]);
      return false;
    });
    marked.set(set.salt, { salt: set.salt, marks: Object.fromEntries(unknown) });
    redact = undefined;
  }
}

/** Everything that this process masks, for a thread that masks the same. */
export function hiddenSecrets(): {
  readonly values: readonly string[];
  readonly marks: readonly SecretMarks[];
} {
  return { values: [...secrets], marks: [...marked.values()] };
}

/** True when this process knows some secrets only by their marks. */
export function hidesMarked(): boolean {
  return [...marked.values()].some(({ marks }) => Object.keys(marks).length > 0);
}

/** A text with all secrets masked. */
export function masked(text: string): string {
  redact ??= redactor();
  return redact(text);
}

function redactor(): Redact {
  const known = redactorOf([...secretsIn(process.env).values(), ...secrets]);
  const unknown = markedRedactor([...marked.values()]);
  return (text) => unknown(known(text));
}

/** A JSON value with all secrets masked. */
export function maskedJson<T>(value: T): T {
  return redactJson(masked, value);
}
