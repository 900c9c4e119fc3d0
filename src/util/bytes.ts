/** Parses sizes ("500MB", "2 GB") and formats them. */

const UNITS = ["bytes", "KB", "MB", "GB", "TB"] as const;
const STEP = 1024;
const WRITTEN = /^\s*(\d+(?:\.\d+)?)\s*(b|bytes|kb|mb|gb|tb)?\s*$/i;

/** The bytes of a written size; undefined if the text is not a size. */
export function parseBytes(text: string): number | undefined {
  const [, amount, unit = "b"] = WRITTEN.exec(text) ?? [];
  if (amount === undefined) return undefined;
  const power = Math.max(
    0,
    UNITS.findIndex((name) => name.toLowerCase() === unit.toLowerCase()),
  );
  return Math.round(Number(amount) * STEP ** power);
}

/** "1 byte", "512 bytes", "4.2 KB", "1.0 GB". */
export function formatBytes(bytes: number): string {
  if (bytes < STEP) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log(bytes) / Math.log(STEP)));
  return `${(bytes / STEP ** power).toFixed(1)} ${UNITS[power]}`;
}
