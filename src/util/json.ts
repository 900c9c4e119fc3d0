/** The type of JSON values, their canonical text for fingerprints, and the hash of a text. */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** The canonical text of a JSON value; it does not depend on the order of keys. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isObject(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : inner,
  );
}

/** True for a plain JSON object: not null, not a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses JSON; returns an error instead of throwing it. */
export function parseJson(
  text: string,
):
  | { readonly ok: true; readonly json: unknown }
  | { readonly ok: false; readonly message: string } {
  try {
    return { ok: true, json: JSON.parse(text) as unknown };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * The hex SHA-256 of a text. It is deterministic, so the pure rooms may call it. The module is
 * not imported, because loading it would cost `list runs` 5 ms.
 */
export function sha256(text: string): string {
  return process.getBuiltinModule("node:crypto").hash("sha256", text, "hex");
}
