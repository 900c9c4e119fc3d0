/** Keeps secrets out of what is written: the values of variables whose names look like secrets. */

const SECRET_NAME = /(key|token|secret|passw(or)?d|credential|auth)/i;
/** Shorter values would blank out ordinary words. */
const SECRET_LENGTH_MIN = 8;
export const REDACTED = "[redacted]";

export type Redact = (text: string) => string;

/** A function that replaces every secret of this environment in a text. */
export function redactor(env: Readonly<Record<string, string | undefined>>): Redact {
  const secrets = Object.entries(env)
    .filter(([name, value]) => SECRET_NAME.test(name) && (value?.length ?? 0) >= SECRET_LENGTH_MIN)
    .map(([, value]) => value as string)
    .filter((value) => !value.startsWith("/"))
    .sort((a, b) => b.length - a.length);
  if (secrets.length === 0) return (text) => text;
  const pattern = new RegExp([...new Set(secrets)].map(RegExp.escape).join("|"), "g");
  return (text) => text.replace(pattern, REDACTED);
}

/** The same for every string inside a JSON value. */
export function redactJson<T>(redact: Redact, value: T): T {
  if (typeof value === "string") return redact(value) as T;
  if (Array.isArray(value)) return value.map((inner: unknown) => redactJson(redact, inner)) as T;
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, redactJson(redact, inner)]);
  return Object.fromEntries(entries) as T;
}
