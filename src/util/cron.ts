/**
 * Schedules as cron writes them: minute, hour, day of the month, month, day of the week, in the time zone
 * of this machine, or in UTC.
 *
 * Owns: the five fields with their names, lists, ranges and steps, and the times that they mean.
 * Does not: start anything.
 *
 * Days are counted as the wall clock shows them. On the day on which clocks are set forward, a time that
 * does not exist means the one an hour later; of an hour that comes twice, only one counts.
 */
import { sha256 } from "./json.ts";

interface CronField {
  readonly min: number;
  readonly max: number;
  /** The names of the values, from `min` on. */
  readonly names?: readonly string[];
}

const FIELDS: readonly CronField[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec".split(" ") },
  // Both 0 and 7 are Sunday.
  { min: 0, max: 7, names: "sun mon tue wed thu fri sat".split(" ") },
];

/** A schedule; each field holds the values that match. */
export interface Cron {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  readonly weekdays: ReadonlySet<number>;
  /** Both kinds of days are restricted: then a day of either kind matches. */
  readonly eitherDay: boolean;
}

/** A time that was missed is made up for, but not later than this. */
export const MISSED_GRACE_MS = 7 * 24 * 3_600_000;

/** How many days are searched for the next time: 29 February comes after eight years at the latest. */
const SEARCH_DAYS_MAX = 8 * 366 + 1;

/** The clock by which the times are meant. */
type CronZone = "local" | "utc";

/** Reads a schedule such as `0 3 * * mon-fri`; undefined when the text is none, or means no day. */
export function parseCron(text: string): Cron | undefined {
  const words = text.trim().split(/\s+/);
  if (words.length !== FIELDS.length) return undefined;
  const sets = words.map((word, at) => parseField(word.toLowerCase(), FIELDS[at] as CronField));
  const [minutes, hours, days, months, weekdays] = sets;
  if (!minutes || !hours || !days || !months || !weekdays) return undefined;
  if (weekdays.delete(7)) weekdays.add(0);
  const eitherDay = !words[2]?.startsWith("*") && !words[4]?.startsWith("*");
  const cron = { minutes, hours, days, months, weekdays, eitherDay };
  return nextTime(cron, 0) === undefined ? undefined : cron;
}

function parseField(word: string, field: CronField): Set<number> | undefined {
  const values = new Set<number>();
  for (const part of word.split(",")) {
    const found = /^(?:\*|([a-z]+|\d+)(?:-([a-z]+|\d+))?)(?:\/(\d+))?$/.exec(part);
    if (found === null) return undefined;
    const [, from, to, by] = found;
    const first = from === undefined ? field.min : numberOf(from, field);
    const open = from === undefined || (to === undefined && by !== undefined);
    const last = open ? field.max : numberOf(to ?? from, field);
    const step = Number(by ?? 1);
    if (first === undefined || last === undefined || first > last || step < 1) return undefined;
    for (let value = first; value <= last; value += step) values.add(value);
  }
  return values;
}

function numberOf(word: string, { min, max, names = [] }: CronField): number | undefined {
  const named = names.indexOf(word);
  const value = named >= 0 ? named + min : /^\d+$/.test(word) ? Number(word) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

/** The last time after `after` and not after `until`; undefined when there is none. */
export function lastTime(
  cron: Cron,
  after: number,
  until: number,
  zone: CronZone = "local",
): number | undefined {
  for (let day = startOfDay(zone, until); ; day = startOfDay(zone, day, -1)) {
    const found = timesOn(cron, zone, day).findLast((time) => time <= until);
    if (found !== undefined) return found > after ? found : undefined;
    if (day <= after) return undefined;
  }
}

/** The first time after `after`. */
export function nextTime(cron: Cron, after: number, zone: CronZone = "local"): number | undefined {
  let day = startOfDay(zone, after);
  for (let searched = 0; searched <= SEARCH_DAYS_MAX; searched++, day = startOfDay(zone, day, 1)) {
    const found = timesOn(cron, zone, day).find((time) => time > after);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The id of the run of a time: a UUID (version 8) that follows from the schedule and the time. */
export function scheduledRunId(schedule: string, time: number): string {
  const hash = sha256(`schedule\n${schedule}\n${new Date(time).toISOString()}`);
  const parts = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`];
  return [...parts, `a${hash.slice(17, 20)}`, hash.slice(20, 32)].join("-");
}

/** Midnight of the day of a time, or of a day near it. */
function startOfDay(zone: CronZone, time: number, days = 0): number {
  const { year, month, number } = dayOf(zone, time);
  return timeOf(zone, [year, month, number + days, 0, 0]);
}

/** The day of a time as its clock shows it. */
function dayOf(
  zone: CronZone,
  time: number,
): Readonly<Record<"year" | "month" | "number" | "weekday", number>> {
  const date = new Date(time);
  if (zone === "utc") {
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    return { year, month, number: date.getUTCDate(), weekday: date.getUTCDay() };
  }
  const [year, month] = [date.getFullYear(), date.getMonth()];
  return { year, month, number: date.getDate(), weekday: date.getDay() };
}

/** The time of a year, month, day, hour and minute. */
function timeOf(
  zone: CronZone,
  parts: readonly [year: number, month: number, day: number, hour: number, minute: number],
): number {
  return zone === "utc" ? Date.UTC(...parts) : new Date(...parts).getTime();
}

/** The times of one day, in order. */
function timesOn(cron: Cron, zone: CronZone, day: number): readonly number[] {
  const { year, month, number, weekday } = dayOf(zone, day);
  if (!cron.months.has(month + 1)) return [];
  const [byNumber, byName] = [cron.days.has(number), cron.weekdays.has(weekday)];
  if (cron.eitherDay ? !byNumber && !byName : !byNumber || !byName) return [];
  const times = [...cron.hours].flatMap((hour) =>
    [...cron.minutes].map((minute) => timeOf(zone, [year, month, number, hour, minute])),
  );
  return [...new Set(times)].sort((one, other) => one - other);
}
