/** The snippets and links of README.md and docs/: each page runs from top to bottom in a project. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { INSTALL_MS_MAX, needBubblewrap } from "../../scripts/bubblewrap.ts";
import { helps } from "../rig/help.ts";
import { WALK_MS } from "../rig/patience.ts";
import { StandIns } from "../rig/stand-ins.ts";
import { runSnippet, snippetsOf } from "./page.ts";
import { SITUATIONS } from "./situations.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PAGES = ["README.md", ...markdownIn("docs")];
const DOCUMENTS = [...PAGES, "AGENTS.md", ...markdownIn("docs/adr")];
/** Snippets that do not run are few, and each says why. */
const NOT_RUN_MAX = 6;

function markdownIn(folder: string): readonly string[] {
  const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".md"));
  return names.map((name) => `${folder}/${name}`);
}

function textOf(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

describe("the snippets run", () => {
  beforeAll(needBubblewrap, INSTALL_MS_MAX);

  // reference.test.ts runs the examples of the reference.
  const pages = PAGES.filter(
    (page) => page !== "docs/REFERENCE.md" && snippetsOf(join(ROOT, page)).length > 0,
  );

  it.concurrent.each(pages)("%s", { timeout: WALK_MS }, async (page) => {
    const site = newSite(page);
    try {
      await runPage(site, page);
    } finally {
      await site.remove();
    }
  });

  it("but for a few", () => {
    const all = PAGES.flatMap((page) => snippetsOf(join(ROOT, page)));
    const notRun = all.filter((snippet) => snippet.notRun !== undefined);
    expect(notRun.length).toBeLessThanOrEqual(NOT_RUN_MAX);
    expect(all.length).toBeGreaterThan(NOT_RUN_MAX * 10);
  });
});

/** A project with the files that a page supposes, and a stand-in for each script that it calls. */
function newSite(page: string): StandIns {
  const { files = {}, snapshots = false } = SITUATIONS[page] ?? {};
  const scripts = scriptsNamedIn(textOf(page)).map((name) => [name, "#!/bin/sh\n"] as const);
  return new StandIns({ ...Object.fromEntries(scripts), ...files }, { snapshots });
}

/** Runs a page from top to bottom. */
async function runPage(site: StandIns, page: string): Promise<void> {
  const { before = "" } = SITUATIONS[page] ?? {};
  const { exit, stdout, stderr } = await site.shell(before);
  expect(exit, stdout + stderr).toBe(0);
  for (const snippet of snippetsOf(join(ROOT, page))) {
    try {
      await runSnippet(site, snippet);
    } catch (error) {
      throw new Error(`${page}:${snippet.line}: ${(error as Error).message}`);
    }
  }
}

/** The scripts of the project that a page calls: `./ship`, `./plan.sh`. */
function scriptsNamedIn(text: string): readonly string[] {
  return [...text.matchAll(/(?<![\w.])\.\/([a-z][\w-]*(?:\.sh)?)(?![\w.]*\.\w)/g)].map(
    ([, name = ""]) => name,
  );
}

describe("the commands in the text exist, with their options", () => {
  const known = helps();

  it.each(PAGES)("%s", (page) => {
    const unknown: string[] = [];
    for (const [, text = ""] of textOf(page).matchAll(/`(perdure [a-z][^`]*)`/g)) {
      const [, command = "", ...words] = text.split(/[\s=]+/);
      const help = known.get(command) ?? "";
      const options = words.filter((word) => /^--[a-z]/.test(word));
      const isKnown = (option: string): boolean => new RegExp(`${option}\\b`).test(help);
      if (!help.startsWith(`Usage: perdure ${command}`) || !options.every(isKnown))
        unknown.push(text);
    }
    expect(unknown).toEqual([]);
  });
});

describe("links", () => {
  it("the index names every page", () => {
    const index = textOf("docs/README.md");
    const names = markdownIn("docs").map((page) => page.replace("docs/", ""));
    const missing = names.filter((name) => name !== "README.md" && !index.includes(`(${name})`));
    expect(missing).toEqual([]);
  });

  it.each(DOCUMENTS)("%s", (path) => {
    const links = [...textOf(path).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^https?:/.test(link));
    const broken = links.filter((link) => {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file);
      if (!existsSync(join(ROOT, target))) return true;
      return anchor !== undefined && !anchorsOf(target).includes(anchor);
    });
    expect(broken).toEqual([]);
  });
});

/** The anchors that GitHub makes of the headings of a document. */
function anchorsOf(path: string): readonly string[] {
  return [...textOf(path).matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
