/**
 * Schedules as cron writes them: minute, hour, day of the month, month, day of the week, in the time zone
 * of this machine.
 *
 * Owns: the five fields with their names, lists, ranges and steps, and the times that they mean.
 * Does not: start anything.
 *
 * Days are counted as the wall clock shows them. On the day on which clocks are set forward, a time that
 * does not exist means the one an hour later; of an hour that comes twice, only one counts.
 */

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

/** How many days are searched for the next time: 29 February comes after eight years at the latest. */
const SEARCH_DAYS_MAX = 8 * 366 + 1;

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
export function lastTime(cron: Cron, after: number, until: number): number | undefined {
  for (let day = startOfDay(until); ; day = startOfDay(day, -1)) {
    const found = timesOn(cron, day).findLast((time) => time <= until);
    if (found !== undefined) return found > after ? found : undefined;
    if (day <= after) return undefined;
  }
}

/** The first time after `after`. */
export function nextTime(cron: Cron, after: number): number | undefined {
  let day = startOfDay(after);
  for (let searched = 0; searched <= SEARCH_DAYS_MAX; searched++, day = startOfDay(day, 1)) {
    const found = timesOn(cron, day).find((time) => time > after);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Midnight of the day of a time, or of a day near it. */
function startOfDay(time: number, days = 0): number {
  const date = new Date(time);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days).getTime();
}

/** The times of one day, in order. */
function timesOn(cron: Cron, day: number): readonly number[] {
  const date = new Date(day);
  const [year, month, number] = [date.getFullYear(), date.getMonth(), date.getDate()];
  if (!cron.months.has(month + 1)) return [];
  const [byNumber, byName] = [cron.days.has(number), cron.weekdays.has(date.getDay())];
  if (cron.eitherDay ? !byNumber && !byName : !byNumber || !byName) return [];
  const times = [...cron.hours].flatMap((hour) =>
    [...cron.minutes].map((minute) => new Date(year, month, number, hour, minute).getTime()),
  );
  return [...new Set(times)].sort((one, other) => one - other);
}
