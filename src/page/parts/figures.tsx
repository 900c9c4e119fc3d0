/** Figures: durations that run on, moments, money, tokens, and bars of progress. */
import { type ReactNode, useState, useSyncExternalStore } from "react";
import { formatDuration } from "../../util/duration.ts";

const SECOND_MS = 1_000;

/** One clock for everything on the page that shows the time; it stops when nothing does. */
const clock = { now: Date.now(), timer: 0, watchers: new Set<() => void>() };

function watchClock(watcher: () => void): () => void {
  if (clock.watchers.size === 0) {
    clock.now = Date.now();
    clock.timer = window.setInterval(() => {
      clock.now = Date.now();
      for (const one of clock.watchers) one();
    }, SECOND_MS);
  }
  clock.watchers.add(watcher);
  return () => {
    clock.watchers.delete(watcher);
    if (clock.watchers.size === 0) window.clearInterval(clock.timer);
  };
}

const watchNothing = (): (() => void) => () => undefined;

/** The present time, once a second while `isRunning`. */
export function useNow(isRunning: boolean): number {
  const [first] = useState(Date.now);
  return useSyncExternalStore(isRunning ? watchClock : watchNothing, () =>
    isRunning ? Math.max(first, clock.now) : first,
  );
}

/** A duration; with `runningSince` it grows every second. */
export function Duration(props: { ms?: number; runningSince?: string | undefined }): ReactNode {
  const { ms = 0, runningSince } = props;
  const now = useNow(runningSince !== undefined);
  const shown = runningSince === undefined ? ms : Math.max(ms, now - Date.parse(runningSince));
  return <span className="figure">{durationText(shown)}</span>;
}

/** Without tenths from ten seconds on: they only flicker. */
export function durationText(ms: number): string {
  return ms >= 10_000 && ms < 60_000 ? `${Math.floor(ms / SECOND_MS)}s` : formatDuration(ms);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;

// Made once: each takes a thousand times as long as using it.
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const DATE_AND_TIME = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
});
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hour12: false });

/** How long ago, in one unit; older moments by their date. */
function agoText(time: number, now: number): string {
  const ago = Math.max(0, now - time);
  if (ago < 10 * SECOND_MS) return "just now";
  if (ago < MINUTE_MS) return `${Math.floor(ago / SECOND_MS)}s ago`;
  if (ago < HOUR_MS) return `${Math.floor(ago / MINUTE_MS)}m ago`;
  if (ago < DAY_MS) return `${Math.floor(ago / HOUR_MS)}h ago`;
  if (ago < WEEK_MS) return `${Math.floor(ago / DAY_MS)}d ago`;
  return DATE.format(time);
}

/** A moment: how long ago, and the full time on hover. */
export function Ago({ time }: { time: string }): ReactNode {
  const at = Date.parse(time);
  const now = useNow(Date.now() - at < HOUR_MS);
  return (
    <time className="figure" dateTime={time} title={fullTime(time)}>
      {agoText(at, now)}
    </time>
  );
}

/** The date and the time in the reader's own form. */
export function fullTime(time: string): string {
  return DATE_AND_TIME.format(new Date(time));
}

/** The time of the day, for lists in which all rows are of one day. */
export function ClockTime({ time }: { time: string }): ReactNode {
  return (
    <time className="figure" dateTime={time} title={fullTime(time)}>
      {TIME.format(new Date(time))}
    </time>
  );
}

/** `$1.25`; less than a cent with four digits. */
export function moneyText(usd: number): string {
  return usd !== 0 && Math.abs(usd) < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function Money({ usd }: { usd: number | null | undefined }): ReactNode {
  if (usd === null || usd === undefined) return <span className="faint">–</span>;
  return <span className="figure">{moneyText(usd)}</span>;
}

/** `12.5k` for a large count. */
export function countText(count: number): string {
  if (count < 10_000) return count.toLocaleString("en");
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 100_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** `1.4 MB`. */
export function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

interface Part {
  readonly tint: string;
  readonly count: number;
}

/** A bar whose parts add up to the total. */
export function Progress(props: {
  parts: readonly Part[];
  total: number;
  label: string;
}): ReactNode {
  const { parts, total, label } = props;
  return (
    <span className="progress" role="img" aria-label={label} title={label}>
      {parts
        .filter(({ count }) => count > 0)
        .map(({ tint, count }) => (
          <span
            key={tint}
            data-tint={tint}
            style={{ width: `${(100 * count) / Math.max(1, total)}%` }}
          />
        ))}
    </span>
  );
}
