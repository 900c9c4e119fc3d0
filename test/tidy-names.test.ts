/**
 * Names: exported types are built from the words of docs/GLOSSARY.md, and the words that the glossary
 * replaced appear in no file name and in no exported name.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = resolve(import.meta.dirname, "../src");
const GLOSSARY = readFileSync(resolve(import.meta.dirname, "../docs/GLOSSARY.md"), "utf8");

/** Words that another word has replaced. */
const REPLACED = [
  ...["arrow", "arrows", "talk", "talks", "telling", "retelling", "told", "saying", "sayings"],
  ...["doubt", "doubts", "unsettled", "pretend", "pretended", "pretence", "wish", "wishes", "desk"],
  ...["hands", "belongings", "reign", "walk", "walks", "walked", "way", "ways", "going"],
];

interface Named {
  readonly path: string;
  readonly name: string;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) =>
  /\.tsx?$/.test(name),
);

function exported(pattern: RegExp): readonly Named[] {
  return files.flatMap((path) =>
    [...readFileSync(join(SRC, path), "utf8").matchAll(pattern)].map(([, name = ""]) => ({
      path,
      name,
    })),
  );
}

const types = exported(/^export (?:interface|type|(?:abstract )?class) (\w+)/gm);
const values = exported(/^export (?:async )?(?:const|let|function\*?) (\w+)/gm);

/** "RunLogOptions" is run, log, options; "EVENTS_MAX" is events, max. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[\s_.-]+/);
}

/** The first columns of the tables: one word in each, or several with commas between them. */
const rows = [...GLOSSARY.matchAll(/^\| ([a-z][^|]*) \|/gm)].map(([, words = ""]) => words);

/** The words of the tables, and the list of ordinary words. */
function knownWords(): ReadonlySet<string> {
  const ordinary = GLOSSARY.split("## Ordinary words")[1] ?? "";
  const words = [...rows, ordinary].flatMap((text) => text.toLowerCase().split(/[^a-z]+/));
  return new Set(words.flatMap((word) => [word, `${word}s`]));
}

function different(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

describe("names", () => {
  it("of exported types are built from the glossary", () => {
    const known = knownWords();
    const wrong = types.filter(({ name }) => wordsOf(name).some((word) => !known.has(word)));
    expect(different(wrong.map(({ name }) => name))).toEqual([]);
  });

  it("are explained once", () => {
    const words = rows.flatMap((row) => row.split(", "));
    expect(words.length).toBeGreaterThan(150);
    expect(words.filter((word, index) => words.indexOf(word) !== index)).toEqual([]);
  });

  it("do not use words that the glossary replaced", () => {
    const replaced = (name: string): boolean =>
      wordsOf(name).some((word) => REPLACED.includes(word));
    const names = [...types, ...values].map(({ name }) => name).filter(replaced);
    expect(different(names)).toEqual([]);
    const paths = files.filter((path) => replaced(path.replaceAll("/", "-")));
    expect(different(paths)).toEqual([]);
  });
});
