/** Schedules: what the five fields mean, in the time zone of the machine. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lastTime, nextTime, parseCron } from "../../src/util/cron.ts";

const zone = process.env.TZ;
beforeAll(() => {
  process.env.TZ = "Europe/Berlin";
});
afterAll(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

/** The next times of a schedule after a wall-clock time, as the wall clock shows them. */
function next(text: string, after: string, count = 1): string[] {
  const cron = parseCron(text);
  if (cron === undefined) throw new Error(`${text} is no schedule`);
  const found: string[] = [];
  let time = new Date(after).getTime();
  for (let i = 0; i < count; i++) {
    time = nextTime(cron, time) ?? Number.NaN;
    found.push(new Date(time).toLocaleString("sv-SE").slice(0, 16));
  }
  return found;
}

describe("a schedule", () => {
  it.each([
    ["0 3 * * *", "2026-05-01T03:00", ["2026-05-02 03:00"]],
    ["*/20 9-10 * * *", "2026-05-01T09:30", ["2026-05-01 09:40", "2026-05-01 10:00"]],
    ["30 8 * * mon-fri", "2026-05-01T09:00", ["2026-05-04 08:30"]],
    ["0 0 * * 7", "2026-05-01T00:00", ["2026-05-03 00:00", "2026-05-10 00:00"]],
    // A day of either kind, when both are restricted.
    ["0 0 13 * FRI", "2026-05-09T00:00", ["2026-05-13 00:00", "2026-05-15 00:00"]],
    ["5/25 0 1 jan,jul *", "2026-05-01T00:00", ["2026-07-01 00:05", "2026-07-01 00:30"]],
    ["0 0 29 2 *", "2026-05-01T00:00", ["2028-02-29 00:00"]],
    // The clocks are set forward at 2, and back at 3.
    ["30 2 * * *", "2026-03-28T12:00", ["2026-03-29 03:30", "2026-03-30 02:30"]],
    ["30 2 * * *", "2026-10-24T12:00", ["2026-10-25 02:30", "2026-10-26 02:30"]],
  ])("%s", (text, after, expected) => {
    expect(next(text, after, expected.length)).toEqual(expected);
  });

  it("has a last time in a span, or none", () => {
    const cron = parseCron("0 3 * * *");
    const at = (text: string): number => new Date(text).getTime();
    if (cron === undefined) throw new Error("no schedule");
    expect(lastTime(cron, at("2026-05-01T00:00"), at("2026-05-09T02:00"))).toBe(
      at("2026-05-08T03:00"),
    );
    expect(lastTime(cron, at("2026-05-08T03:00"), at("2026-05-09T02:59"))).toBeUndefined();
    expect(lastTime(cron, at("2026-05-08T02:59"), at("2026-05-08T03:00"))).toBe(
      at("2026-05-08T03:00"),
    );
  });

  it.each([
    "",
    "0 3 * *",
    "60 * * * *",
    "0 24 * * *",
    "* * 0 * *",
    "* * * foo *",
    "*/0 * * * *",
    "5-1 * * * *",
    "0 0 30 2 *",
    "@daily",
    "0 0 L * *",
  ])("is not: %j", (text) => {
    expect(parseCron(text)).toBeUndefined();
  });
});
