import { hash } from "node:crypto";

/** The hex SHA-256 of a text. Deterministic, so the pure rooms may call it. */
export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
