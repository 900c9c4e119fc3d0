/** The hash that tells texts apart. Not imported: loading it would cost a list of runs 5 ms. */

/** The hex SHA-256 of a text. Deterministic, so the pure rooms may call it. */
export function sha256(text: string): string {
  return process.getBuiltinModule("node:crypto").hash("sha256", text, "hex");
}
