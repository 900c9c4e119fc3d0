/** Parses durations ("90s", "1h30m", "250ms", "2d") and moments, and formats durations. */

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

/** The longest duration that an author may write; Node's timers allow little more. */
export const DURATION_MAX_MS = 24 * UNIT_MS.d;

/** The milliseconds of a written duration; undefined if the text is not a duration. */
export function parseDuration(text: string): number | undefined {
  const source = text.trim();
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(source)) return undefined;
  let total = 0;
  for (const [, amount, , unit] of source.matchAll(/(\d+(\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(amount) * UNIT_MS[unit as Unit];
  }
  return total > DURATION_MAX_MS ? undefined : Math.round(total);
}

/** The milliseconds of an age such as 12h or 400d, which may be longer than any duration of a step. */
export function parseAge(text: string): number | undefined {
  const days = /^\s*(\d{1,5})d\s*$/.exec(text)?.[1];
  return days === undefined ? parseDuration(text) : Number(days) * UNIT_MS.d;
}

const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/;

/** The time of a moment such as 2026-12-01T08:00:00Z; undefined without a time zone. */
export function parseMoment(text: string): number | undefined {
  const source = text.trim();
  const time = MOMENT.test(source) ? Date.parse(source) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** "850ms", "4.2s", "3m 05s", "2h 10m": at most two units, for people. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  const [big, small, bigUnit, smallUnit] =
    ms < UNIT_MS.h
      ? [Math.floor(ms / UNIT_MS.m), Math.floor((ms % UNIT_MS.m) / UNIT_MS.s), "m", "s"]
      : [Math.floor(ms / UNIT_MS.h), Math.floor((ms % UNIT_MS.h) / UNIT_MS.m), "h", "m"];
  return `${big}${bigUnit} ${String(small).padStart(2, "0")}${smallUnit}`;
}
