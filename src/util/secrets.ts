/**
 * Masks secrets in texts that people see. A run keeps marks of its secrets, so that a shell without
 * the secrets masks them, too: a mark recognises a value in a text and does not reveal it.
 *
 * Each line of a value gets a mark: its length, 8 bits of a rolling sum and 32 bits of a salted
 * hash. The sum is computed for every position of a text at a constant cost and leaves one position
 * in 256 for the hash. Both are so short that many values have the same mark: it confirms no guess.
 *
 * Owns: which environment variables are secrets, the masking of a text, and marks.
 * Does not: change what a run records or uses (only output for people is masked), or choose a salt.
 * Invariants:
 * - mark/M1 Masking takes time linear in the text for each length of a secret.
 */
import { isObject, type Json, sha256 } from "./json.ts";

/**
 * `MONKEY`, `GIT_AUTHOR_NAME` and `SSH_AUTH_SOCK` are not secrets; `API_KEY` and `PGPASSWORD` are.
 */
const SECRET_NAME =
  /(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|(^|_)(KEY|PAT|AUTH)|_PWD)$/i;
/** A password in an address: `postgres://ann:pw@host`. */
const PASSWORD_IN_ADDRESS = /:\/\/[^\s/@:]*:[^\s/@]+@/;
/** Shorter values of variables that only look like secrets would blank out ordinary words. */
const SECRET_LENGTH_MIN = 8;
/** Declared secrets may be shorter, but a letter or two cannot be masked. */
const DECLARED_LENGTH_MIN = 4;
/** How much of a secret is searched for at the end of a text, which may truncate it. */
const CUT_LENGTH_MAX = 100;
const REDACTED = "[redacted]";

export type Redact = (text: string) => string;

type Environment = Readonly<Record<string, string | undefined>>;

/** True for a variable or an input whose name is that of a secret. */
function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** True for a variable that a run does not keep: its name or value looks like a secret. */
export function isSecretVariable(name: string, value = ""): boolean {
  return isSecretName(name) || PASSWORD_IN_ADDRESS.test(value);
}

/** The secrets in an environment: the declared ones, and those that look like secrets. */
export function secretsIn(
  env: Environment,
  declared: readonly string[] = [],
): ReadonlyMap<string, string> {
  const names = new Set(declared);
  return new Map(
    Object.entries(env).flatMap(([name, value = ""]) => {
      const known = names.has(name) && value.length >= DECLARED_LENGTH_MIN;
      const path = value.startsWith("/");
      const looks = isSecretVariable(name, value) && value.length >= SECRET_LENGTH_MIN && !path;
      return known || looks ? [[name, value]] : [];
    }),
  );
}

/** All texts in a value that the author declared secret, such as an input. */
export function textsIn(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null || typeof value === "boolean") return [];
  if (typeof value === "object") return Object.values(value).flatMap((inner) => textsIn(inner));
  const text = String(value);
  return text.length >= DECLARED_LENGTH_MIN ? [text] : [];
}

/** The texts of the secret inputs: the declared ones, and those with the name of a secret. */
export function secretInputs(
  input: Json,
  declared: readonly string[] = [],
): ReadonlyMap<string, readonly string[]> {
  const entries = isObject(input) ? Object.entries(input) : [];
  return new Map(
    entries.flatMap(([name, value]) => {
      const texts = textsIn(value);
      if (declared.includes(name)) return [[name, texts]];
      const long = texts.filter((text) => text.length >= SECRET_LENGTH_MIN);
      return isSecretName(name) ? [[name, long]] : [];
    }),
  );
}

/** A function that masks these values in a text, including a value that is truncated at its end. */
export function redactorOf(secrets: Iterable<string>): Redact {
  // A key of several lines is printed line by line.
  const parts = Array.from(secrets).flatMap((secret) =>
    secret.includes("\n")
      ? [secret, ...secret.split(/\r?\n/).filter((line) => line.length >= SECRET_LENGTH_MIN)]
      : [secret],
  );
  const longestFirst = [...new Set(parts)].sort((a, b) => b.length - a.length);
  if (longestFirst.length === 0) return (text) => text;
  const whole = new RegExp(longestFirst.map(patternOf).join("|"), "g");
  const cut = new RegExp(`(?:${longestFirst.map(beginningOf).join("|")})(?=…)`, "g");
  return (text) => {
    const masked = text.replace(whole, REDACTED);
    return masked.includes("…") ? masked.replace(cut, REDACTED) : masked;
  };
}

/** A short secret is masked only as a whole word: an id may contain its letters by chance. */
function patternOf(secret: string): string {
  const text = RegExp.escape(secret);
  return secret.length < SECRET_LENGTH_MIN ? `(?<![A-Za-z0-9])${text}(?![A-Za-z0-9])` : text;
}

/** A pattern for the longest start of a secret. */
function beginningOf(secret: string): string {
  const letters = Array.from(secret.slice(0, CUT_LENGTH_MAX));
  const must = letters.slice(0, DECLARED_LENGTH_MIN).join("");
  const may = letters.slice(DECLARED_LENGTH_MIN);
  const rest = may.reduceRight((inner, letter) => `(?:${RegExp.escape(letter)}${inner})?`, "");
  return RegExp.escape(must) + rest;
}

/** The same for every string inside a value. */
export function redactJson<T>(redact: Redact, value: T): T {
  if (typeof value === "string") return redact(value) as T;
  if (Array.isArray(value)) return value.map((inner: unknown) => redactJson(redact, inner)) as T;
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, redactJson(redact, inner)]);
  return Object.fromEntries(entries) as T;
}

/** The marks of secrets by their names; `20.a7.1f2e3d4c` is length, sum and hash of one line. */
export interface SecretMarks {
  readonly salt: string;
  readonly marks: Readonly<Record<string, readonly string[]>>;
}

/** How many lines of a secret, such as a private key, are marked. */
const LINES_MAX = 64;
/** The digits of the hash. */
const HASH_LENGTH = 8;
/** How many candidates are cached, so that a repetitive text is not hashed repeatedly. */
const CANDIDATES_MAX = 4_096;

/** Marks each of these values. */
export function markSecrets(values: ReadonlyMap<string, string>, salt: string): SecretMarks {
  const base = baseOf(salt);
  const marks = Array.from(values, ([name, value]) => [name, marksOf(value, salt, base)] as const);
  return { salt, marks: Object.fromEntries(marks) };
}

/**
 * True when these are the marks of this value; values that are too short for marks are all equal.
 */
export function isMarked({ salt, marks }: SecretMarks, name: string, value: string): boolean {
  const own = marksOf(value, salt, baseOf(salt));
  return Object.hasOwn(marks, name) && marks[name]?.join(" ") === own.join(" ");
}

/** A function that masks every value that one of these marks recognises. */
export function markedRedactor(sets: readonly SecretMarks[]): Redact {
  const finders = sets.flatMap(findersOf);
  if (finders.length === 0) return (text) => text;
  return (text) => {
    const spans = finders.flatMap((finder) => finder.spans(text));
    if (spans.length === 0) return text;
    let masked = "";
    let at = 0;
    for (const [start, end] of spans.sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
      if (start >= at) masked += text.slice(at, start) + REDACTED;
      at = Math.max(at, end);
    }
    return masked + text.slice(at);
  };
}

function marksOf(value: string, salt: string, base: number): readonly string[] {
  const lines = value.split(/\r?\n/).filter((line) => line.length >= SECRET_LENGTH_MIN);
  return lines.slice(0, LINES_MAX).map((line) => {
    let sum = 0;
    for (let at = 0; at < line.length; at++) sum = append(sum, base, line.charCodeAt(at));
    const high = (sum >>> 24).toString(16).padStart(2, "0");
    return `${line.length}.${high}.${hashOf(line, salt)}`;
  });
}

function hashOf(line: string, salt: string): string {
  return sha256(`${salt}:${line}`).slice(0, HASH_LENGTH);
}

/** The base of the rolling sum: an odd number that depends on the salt. */
function baseOf(salt: string): number {
  return Number.parseInt(sha256(salt).slice(0, 8), 16) | 1;
}

function append(sum: number, base: number, code: number): number {
  return (Math.imul(sum, base) + code) | 0;
}

function findersOf({ salt, marks }: SecretMarks): readonly MarkFinder[] {
  const byLength = new Map<number, { sums: Set<number>; hashes: Set<string> }>();
  for (const mark of Object.values(marks).flat()) {
    const [length = "", sum = "", hash = ""] = mark.split(".");
    const found = byLength.get(Number(length)) ?? { sums: new Set(), hashes: new Set() };
    found.sums.add(Number.parseInt(sum, 16));
    found.hashes.add(hash);
    byLength.set(Number(length), found);
  }
  return Array.from(byLength, ([length, found]) => new MarkFinder(salt, length, found));
}

/** Finds the marked values of one length. */
class MarkFinder {
  readonly #salt: string;
  readonly #length: number;
  readonly #base: number;
  /** The factor of the character code that leaves the window. */
  readonly #power: number;
  readonly #sums = new Uint8Array(256);
  readonly #hashes: ReadonlySet<string>;
  readonly #seen = new Map<number, { readonly text: string; readonly marked: boolean }>();

  constructor(
    salt: string,
    length: number,
    { sums, hashes }: { readonly sums: Iterable<number>; readonly hashes: ReadonlySet<string> },
  ) {
    this.#salt = salt;
    this.#length = length;
    this.#base = baseOf(salt);
    let power = 1;
    for (let left = length; left > 0; left--) power = Math.imul(power, this.#base);
    this.#power = power;
    for (const sum of sums) this.#sums[sum] = 1;
    this.#hashes = hashes;
  }

  /** The positions of these values in a text, from and to. */
  spans(text: string): readonly (readonly [number, number])[] {
    const found: [number, number][] = [];
    const [length, base, power, sums] = [this.#length, this.#base, this.#power, this.#sums];
    let sum = 0;
    for (let end = 1; end <= text.length; end++) {
      sum = append(sum, base, text.charCodeAt(end - 1));
      const start = end - length;
      if (start > 0) sum = (sum - Math.imul(text.charCodeAt(start - 1), power)) | 0;
      if (start < 0 || sums[sum >>> 24] === 0) continue;
      if (this.#isMarked(sum, text.slice(start, end))) found.push([start, end]);
    }
    return found;
  }

  #isMarked(sum: number, text: string): boolean {
    const before = this.#seen.get(sum);
    if (before?.text === text) return before.marked;
    const marked = this.#hashes.has(hashOf(text, this.#salt));
    if (this.#seen.size >= CANDIDATES_MAX) this.#seen.clear();
    this.#seen.set(sum, { text, marked });
    return marked;
  }
}
