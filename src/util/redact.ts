/**
 * Masks secrets in texts that are shown.
 *
 * Owns: which variables of an environment count as secrets, and how a text is masked.
 * Does not: touch what a run records or uses. Only what leaves the program for people is masked.
 */
import { isObject, type Json } from "./json.ts";

/** `MONKEY`, `GIT_AUTHOR_NAME` and `SSH_AUTH_SOCK` are no secrets; `API_KEY` and `PGPASSWORD` are. */
const SECRET_NAME =
  /(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY|(^|_)(KEY|PAT|AUTH)|_PWD)$/i;
/** A password in an address: `postgres://ann:pw@host`. */
const PASSWORD_IN_ADDRESS = /:\/\/[^\s/@:]*:[^\s/@]+@/;
/** Shorter values of variables that only look like secrets would blank out ordinary words. */
export const SECRET_LENGTH_MIN = 8;
/** The author knows what a declared secret is; even so a letter or two cannot be masked. */
const DECLARED_LENGTH_MIN = 4;
/** How much of a secret is looked for where a text was cut off in the middle of it. */
const CUT_LENGTH_MAX = 100;
export const REDACTED = "[redacted]";

export type Redact = (text: string) => string;

type Environment = Readonly<Record<string, string | undefined>>;

/** True for a variable or an input whose name says that it holds a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** True for a variable that is not kept with a run: its name or its value says that it is secret. */
export function isSecretVariable(name: string, value = ""): boolean {
  return isSecretName(name) || PASSWORD_IN_ADDRESS.test(value);
}

/** The secrets in an environment: those that are declared, and those that look like it. */
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

/** Every text in a value that its author declared secret, such as an input of that name. */
export function textsIn(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null || typeof value === "boolean") return [];
  if (typeof value === "object") return Object.values(value).flatMap((inner) => textsIn(inner));
  const text = String(value);
  return text.length >= DECLARED_LENGTH_MIN ? [text] : [];
}

/** The texts of the inputs that are secret: those that are declared, and those named like it. */
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
