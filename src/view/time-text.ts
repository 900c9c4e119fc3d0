/** Moments as text. Always UTC, so that two people who compare notes read the same. */

/** "2026-02-01 10:00:00". */
export function utcText(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replace("T", " ");
}

/** "2026-02-01T10:00:00Z". */
export function isoSeconds(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`;
}

/** "2026-02-01T10:00:00.250Z". */
export function isoText(time: number): string {
  return new Date(time).toISOString();
}
