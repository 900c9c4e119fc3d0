/**
 * Reading of JSON that others wrote: a path that is not there is undefined, never an exception.
 */

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/** What lies at a path of keys and indexes. */
export function at(
  value: Json | undefined,
  ...path: readonly (string | number)[]
): Json | undefined {
  let here: Json | undefined = value;
  for (const key of path) {
    if (typeof here !== "object" || here === null) return undefined;
    here = (here as { readonly [key: string]: Json })[String(key)];
  }
  return here;
}

/** The list at a path; empty if there is none. */
export function listAt(
  value: Json | undefined,
  ...path: readonly (string | number)[]
): readonly Json[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The text at a path; empty if there is none. */
export function textAt(value: Json | undefined, ...path: readonly (string | number)[]): string {
  const found = at(value, ...path);
  return typeof found === "string" ? found : "";
}

/** All text of a content: a text, or a list of parts that have a `text`. */
export function plainText(content: Json | undefined): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as readonly Json[])
    .map((part) => (typeof part === "string" ? part : textAt(part, "text")))
    .join("");
}

/** The value that a text spells, or undefined where it spells none. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
