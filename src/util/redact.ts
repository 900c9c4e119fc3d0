/**
 * Masks secrets in texts that are shown.
 *
 * Owns: which variables of an environment count as secrets by their names, and how a text is masked.
 * Does not: touch what a run records or uses. Only what leaves the program for people is masked.
 */
import type { Json } from "./json.ts";

/** `MONKEY` and `GIT_AUTHOR_NAME` are no secrets; `API_KEY`, `GH_TOKEN` and `PGPASSWORD` are. */
const SECRET_NAME =
  /(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|(^|_)(KEY|PAT)|_PWD)$/i;
/** Shorter values of variables that only look like secrets would blank out ordinary words. */
const SECRET_LENGTH_MIN = 8;
/** The author knows what a declared secret is; even so a letter or two cannot be masked. */
const DECLARED_LENGTH_MIN = 4;
/** How much of a secret is looked for where a text was cut off in the middle of it. */
const CUT_LENGTH_MAX = 100;
export const REDACTED = "[redacted]";

export type Redact = (text: string) => string;

type Environment = Readonly<Record<string, string | undefined>>;

/** The values in an environment that are secrets by their variables' names. */
export function secretsIn(env: Environment): readonly string[] {
  return Object.entries(env).flatMap(([name, value = ""]) => {
    const path = value.startsWith("/");
    return SECRET_NAME.test(name) && value.length >= SECRET_LENGTH_MIN && !path ? [value] : [];
  });
}

/** Every text in a value that its author declared secret, such as an input of that name. */
export function textsIn(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null || typeof value === "boolean") return [];
  if (typeof value === "object") return Object.values(value).flatMap((inner) => textsIn(inner));
  const text = String(value);
  return text.length >= DECLARED_LENGTH_MIN ? [text] : [];
}

/** A function that masks these values in a text, also where the text was cut off within one. */
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

/** A short secret is masked as a word of its own: its letters may stand in an id by chance. */
function patternOf(secret: string): string {
  const text = RegExp.escape(secret);
  return secret.length < SECRET_LENGTH_MIN ? `(?<![A-Za-z0-9])${text}(?![A-Za-z0-9])` : text;
}

/** A pattern for the beginning of a secret, as long as it is there. */
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
