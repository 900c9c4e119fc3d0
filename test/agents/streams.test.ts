/** The recordings of the real agents: whole, without a trace of the machine, and accounted for. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { at, type Json } from "../rig/model/json.ts";
import { AGENT_NAMES } from "./install.ts";
import { normalise } from "./normalise.ts";
import { CASES } from "./record-case.ts";

const STREAMS = join(import.meta.dirname, "streams");
const outcomes = JSON.parse(readFileSync(join(STREAMS, "outcomes.json"), "utf8")) as Json;

describe.each(AGENT_NAMES)("%s", (name) => {
  const expected = CASES.filter(({ per }) => per?.[name] !== null)
    .flatMap((recorded) => [recorded.name, recorded.resumeAs ?? recorded.name])
    .filter((word, index, words) => words.indexOf(word) === index);

  it("has a recording and an outcome of every case", () => {
    const found = globSync("*.jsonl", { cwd: join(STREAMS, name) });
    expect(found.map((file) => file.replace(".jsonl", "")).sort()).toEqual([...expected].sort());
    expect(Object.keys(at(outcomes, name) ?? {}).sort()).toEqual([...expected].sort());
  });

  it.each(expected)("%s is lines of JSON, normalised", (recorded) => {
    const text = readFileSync(join(STREAMS, name, `${recorded}.jsonl`), "utf8");
    for (const line of text.split("\n").slice(0, -1)) expect(() => JSON.parse(line)).not.toThrow();
    expect(text === "" || text.endsWith("\n")).toBe(true);
    expect(normalise(text, [])).toBe(text);
    expect(text).not.toMatch(/(?<!\/HOME)\/(tmp|var|root|home|work)\//);
  });
});
