/**
 * Source files that the documents name with a path exist. A document that mentions a file of the past
 * names it without a path.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const DOCUMENTS = ["AGENTS.md", "README.md", "test/README.md", ...inFolder("docs")];
/** The folders from which paths are written. */
const FOLDERS = ["", "src", "test"];

function inFolder(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name));
}

/** The files that a text names with a path. */
function pathsIn(text: string): readonly string[] {
  const paths = [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)+\.(?:ts|js|json))`/g)];
  return paths.map(([, path = ""]) => path).filter((path) => !path.startsWith("."));
}

describe("named files exist", () => {
  it.each(DOCUMENTS)("%s", (document) => {
    const missing = pathsIn(readFileSync(join(ROOT, document), "utf8")).filter(
      (path) => !FOLDERS.some((folder) => existsSync(join(ROOT, folder, path))),
    );
    expect(missing).toEqual([]);
  });

  it("and some are named", () => {
    const paths = pathsIn(readFileSync(join(ROOT, "docs/WALKTHROUGHS.md"), "utf8"));
    expect(paths.length).toBeGreaterThan(0);
  });
});
