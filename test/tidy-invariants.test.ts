/**
 * Invariants: each stands in the header of one file, as `room-or-file/X1`, and whoever cites it names
 * one that exists.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
/** How many invariants have no prefix yet. It may only become smaller. */
const WITHOUT_PREFIX_MAX = 0;

interface Text {
  readonly path: string;
  readonly text: string;
  readonly header: string;
}

const texts: readonly Text[] = ["src", "test", "scripts", "bench", "docs"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(ts|md)$/.test(name))
    .map((name) => {
      const text = readFileSync(join(ROOT, folder, name), "utf8");
      const header = /^(?:#!.*\n)?(\/\*\*[\s\S]*?\*\/)/.exec(text)?.[1] ?? "";
      return { path: join(folder, name), text, header };
    }),
);

const defined = texts.flatMap(({ path, header }) =>
  [...header.matchAll(/^ \* (?:- )?([a-z][\w-]*\/[A-Z]{1,2}\d{1,2}) /gm)].map(([, id = ""]) => ({
    id,
    path,
  })),
);

describe("invariants", () => {
  it("are defined once", () => {
    const seen = new Map<string, string>();
    const twice = defined.flatMap(({ id, path }) => {
      const first = seen.get(id);
      seen.set(id, path);
      return first === undefined ? [] : [`${id}: ${first} and ${path}`];
    });
    expect(twice).toEqual([]);
  });

  it("exist where they are cited", () => {
    const known = new Set(defined.map(({ id }) => id));
    const missing = texts.flatMap(({ path, text }) =>
      [...text.matchAll(/[(\s]([a-z][a-z-]*\/[A-Z]{1,2}\d{1,2})(?=[\s,.;:)])/g)]
        .map(([, id = ""]) => id)
        .filter((id) => !known.has(id))
        .map((id) => `${path}: ${id}`),
    );
    expect(missing).toEqual([]);
  });

  it("have a prefix", () => {
    const bare = texts
      .filter(({ path }) => path.startsWith("src"))
      .flatMap(({ path, header }) =>
        [...header.matchAll(/^ \* (?:- )?([A-Z]{1,2}\d{1,2}) (?=[A-Z`])/gm)].map(
          ([, id = ""]) => `${path}: ${id}`,
        ),
      );
    expect(bare.length, bare.join("\n")).toBeLessThanOrEqual(WITHOUT_PREFIX_MAX);
  });
});
