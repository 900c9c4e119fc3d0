/** The second copy of the events: it follows the journal, and its whole part can be trusted. */
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Recorded } from "../../src/core/event.ts";
import { EventsFile, readEventsFile } from "../../src/journal/events-file.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { fill, runIdOf } from "./sample-run.ts";

const RUN_ID = runIdOf(1);
let directory: string;
let path: string;
let events: readonly Recorded[];

beforeEach(async () => {
  directory = fs.mkdtempSync(join(tmpdir(), "perdure-events-"));
  path = join(directory, "events.jsonl");
  const journal = memoryJournal();
  await fill(journal, 1, 5);
  events = (await journal.log.load(RUN_ID)).events;
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

function written(upTo = events.length): Buffer {
  fs.rmSync(path, { force: true });
  const file = EventsFile.open(path, RUN_ID);
  file.catchUp(events.slice(0, upTo));
  file.close();
  return fs.readFileSync(path);
}

function catchUp(all = events) {
  const file = EventsFile.open(path, RUN_ID);
  try {
    return file.catchUp(all);
  } finally {
    file.close();
  }
}

test("a line is JSON with the event and its position", () => {
  const [first, second] = written().toString().split("\n");
  expect(JSON.parse(second ?? "")).toEqual({
    v: 1,
    run: RUN_ID,
    seq: 2,
    time: events[1]?.time,
    type: "run.opened",
    data: { owner: expect.any(Object), epoch: 1 },
    crc: expect.any(Number),
  });
  expect(JSON.parse(first ?? "")).toMatchObject({ type: "run.created", seq: 1 });
  expect(fs.statSync(path).mode & 0o777).toBe(0o600);
});

test("appending gives the same file as catching up, and reading gives the events", () => {
  const whole = written();
  fs.rmSync(path);
  const file = EventsFile.open(path, RUN_ID);
  expect(file.catchUp(events.slice(0, 1))).toEqual({ appended: 1, tornBytes: 0 });
  file.append(events.slice(1, 4));
  file.append([]);
  file.append(events.slice(4));
  file.sync();
  file.close();
  expect(fs.readFileSync(path)).toEqual(whole);
  expect(readEventsFile(path)).toEqual({ runId: RUN_ID, events, problems: [] });
  expect(catchUp()).toEqual({ appended: 0, tornBytes: 0 });
});

test("F2: a file that was truncated anywhere is completed", () => {
  const whole = written();
  for (let length = 0; length <= whole.length; length += 7) {
    fs.writeFileSync(path, whole.subarray(0, length));
    const { events: read, problems } = readEventsFile(path);
    expect(read).toEqual(events.slice(0, read.length));
    expect(problems.length).toBeLessThanOrEqual(1);
    const done = catchUp();
    expect(done.setAside).toBeUndefined();
    const lines = whole.subarray(0, length).toString().split("\n").length - 1;
    expect(done.appended).toBe(events.length - lines);
    expect(fs.readFileSync(path)).toEqual(whole);
  }
});

test("a torn last line is reported with its size", () => {
  const whole = written();
  fs.writeFileSync(path, whole.subarray(0, whole.length - 10));
  expect(readEventsFile(path).problems[0]).toMatch(/^line 12: torn, \d+ bytes dropped$/);
});

test("F2: after any flipped bit, reading stops before it and catching up rewrites the file", () => {
  const whole = written();
  for (let at = 0; at < whole.length; at += 5) {
    const bytes = Buffer.from(whole);
    bytes[at] = (bytes[at] ?? 0) ^ 4;
    fs.writeFileSync(path, bytes);
    const { events: read, problems } = readEventsFile(path);
    expect(read).toEqual(events.slice(0, read.length));
    const line = whole.subarray(0, at).toString("latin1").split("\n").length;
    expect(read.length).toBeGreaterThanOrEqual(Math.min(line, events.length) - 1);
    if (read.length < events.length) expect(problems[0]).toMatch(/^line \d+: /);
    catchUp();
    expect(fs.readFileSync(path)).toEqual(whole);
  }
});

test("F2: a file with a bad line in the middle is set aside", () => {
  const lines = written().toString().split("\n");
  lines[4] = "{}";
  fs.writeFileSync(path, lines.join("\n"));
  expect(readEventsFile(path).problems).toEqual([
    "line 5: it is not an event",
    "7 more lines after it not used",
  ]);
  expect(catchUp()).toEqual({ appended: 0, tornBytes: 0, setAside: `${path}.bad` });
  expect(fs.readFileSync(`${path}.bad`, "utf8")).toBe(lines.join("\n"));
  const file = EventsFile.open(path, RUN_ID);
  file.catchUp(events.slice(0, 12));
  file.close();
  expect(readEventsFile(path).events).toEqual(events);
});

test("a missing line is reported", () => {
  const lines = written().toString().split("\n");
  lines.splice(6, 1);
  fs.writeFileSync(path, lines.join("\n"));
  expect(readEventsFile(path).problems[0]).toBe("line 7: event 7 is missing");
});

test("F3: a file with more events than the journal is an error", () => {
  const whole = written();
  expect(() => catchUp(events.slice(0, 9))).toThrow("has lost events: it ends at 9");
  expect(fs.readFileSync(path)).toEqual(whole);
  // A line that lacks only its newline is still valid.
  fs.writeFileSync(path, whole.subarray(0, whole.length - 1));
  expect(() => catchUp(events.slice(0, 11))).toThrow("has lost events: it ends at 11");
});

test("a torn line after the journal's last event is removed", () => {
  const whole = written();
  const shorter = written(10);
  fs.writeFileSync(path, whole.subarray(0, shorter.length + 20));
  expect(catchUp(events.slice(0, 10))).toEqual({ appended: 0, tornBytes: 20 });
  expect(fs.readFileSync(path)).toEqual(shorter);
});

test("bytes that another program added at the end are removed before the next append", () => {
  const whole = written();
  written(10);
  const file = EventsFile.open(path, RUN_ID);
  file.catchUp(events.slice(0, 10));
  fs.appendFileSync(path, '{"torn');
  file.append(events.slice(10));
  file.close();
  expect(fs.readFileSync(path)).toEqual(whole);
});

test("F4: an owner that was replaced leaves the lines of the next one alone", () => {
  const whole = written();
  written(9);
  const replaced = EventsFile.open(path, RUN_ID);
  replaced.catchUp(events.slice(0, 9));
  // It is paused after the journal has event 10. The next owner reads that event, and continues.
  const next = EventsFile.open(path, RUN_ID);
  next.catchUp(events.slice(0, 10));
  next.append(events.slice(10, 11));
  expect(() => replaced.append(events.slice(9, 10))).toThrow(
    expect.objectContaining({ code: "stale-writer" }),
  );
  next.append(events.slice(11));
  for (const file of [replaced, next]) file.close();
  expect(fs.readFileSync(path)).toEqual(whole);
});

test("a missing directory is an error", () => {
  const wrong = join(directory, "nowhere", "events.jsonl");
  expect(() => EventsFile.open(wrong, RUN_ID)).toThrow(expect.objectContaining({ code: "io" }));
  expect(() => readEventsFile(wrong)).toThrow(wrong);
});
