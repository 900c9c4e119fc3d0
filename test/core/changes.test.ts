/** The files that change a run: they are few, and each says so (run/C2). */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const CORE = new URL("../../src/core/", import.meta.url);
const FILES_MAX = 19;

it("opens a run for change in few files, each of which says that it does so for evolve alone", () => {
  const sources = readdirSync(CORE, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && name !== "run.ts")
    .map((name) => ({ name, text: readFileSync(new URL(name, CORE), "utf8") }));
  const changing = sources.filter(({ text }) => /\bdraft\(/.test(text));
  expect(changing.length).toBeGreaterThan(0);
  expect(changing.length).toBeLessThanOrEqual(FILES_MAX);
  const silent = changing.filter(({ text }) => !text.includes("C2"));
  expect(silent.map(({ name }) => name)).toEqual([]);
});
