/**
 * What a visit takes from the files of its workspace when it starts: what a gate shows with its
 * question (files, the changes of the run, values of expressions), and the items of a fan-out that
 * come from a JSON file or from files that match a pattern.
 *
 * Owns: reading them once. `step.asked` and `step.started` store them, so a person sees them as they were
 *   then, on every machine.
 * Does not: print them (view/question-text.ts), or evaluate a list that an expression returns (core).
 */
import { spawnSync } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import type { Material, VisitRef } from "../core/event.ts";
import type { ItemsFound } from "../core/fact.ts";
import { findVisit, stepOf } from "../core/run.ts";
import { textOf } from "../runner/file-text.ts";
import type { Json } from "../util/json.ts";
import { type Evaluate, parseTemplate, renderText } from "../util/template.ts";
import { evaluatorAt, isStepMistake, type LaunchInput, workDirOf } from "./launch.ts";

/** How many characters of a file, a diff or a value are kept. */
const MATERIAL_LENGTH_MAX = 32 * 1024;
/** How much git may print, and how long it may take. */
const DIFF_BYTES_MAX = 64 * 1024 * 1024;
const DIFF_MS = 20_000;
/** The word in `show` for the changes of the run. */
const DIFF = "diff";

/** Everything that the gate of a visit shows. */
export function findMaterial(site: LaunchInput, place: VisitRef): readonly Material[] {
  const visit = findVisit(site.run, place);
  const work = visit && stepOf(visit).work;
  if (visit === undefined || work?.kind !== "gate") return [];
  const root = workDirOf(site, visit);
  const evaluate = evaluatorAt(site, visit);
  return (work.show ?? []).map((entry) => {
    if (entry === DIFF) return bounded(DIFF, diffIn(root, site.run.workspace?.base ?? "HEAD"));
    try {
      return shown(root, entry, evaluate);
    } catch (error) {
      if (!isStepMistake(error)) throw error;
      return bounded(entry, `(it cannot be shown: ${error.message})`);
    }
  });
}

/** A file, or the value of an expression; a value that is the path of a file shows the file. */
function shown(root: string, entry: string, evaluate: Evaluate): Material {
  const rendered = renderText(entry, evaluate);
  const parsed = parseTemplate(entry.trim());
  const [only] = parsed.ok && parsed.parts.length === 1 ? parsed.parts : [];
  const path = resolve(root, rendered.trim());
  const isPath = !rendered.trim().includes("\n") && rendered.trim() !== "";
  const text = isPath ? textOf(path) : undefined;
  if (text !== undefined) return bounded(relative(root, path), text);
  if (only?.kind === "expression") return bounded(only.source, rendered);
  return bounded(rendered, "(there is no such file)");
}

/** The tracked files that differ from a commit, line by line, and the names of new files. */
function diffIn(root: string, base: string): string {
  const git = (...args: readonly string[]): string | undefined => {
    const { status, stdout } = spawnSync("git", args, {
      cwd: root,
      encoding: "utf8",
      maxBuffer: DIFF_BYTES_MAX,
      timeout: DIFF_MS,
    });
    return status === 0 ? stdout : undefined;
  };
  const changed = git("diff", "--no-color", "--no-ext-diff", base);
  if (changed === undefined) return `(git cannot compare the files with ${base})`;
  const added = git("ls-files", "--others", "--exclude-standard") ?? "";
  const names = added.split("\n").filter((name) => name !== "");
  const all = [changed, ...names.map((name) => `new file: ${name}\n`)].join("");
  return all === "" ? "(nothing has changed)" : all;
}

function bounded(name: string, text: string): Material {
  if (text.length <= MATERIAL_LENGTH_MAX) return { name, text };
  const kept = text.slice(0, MATERIAL_LENGTH_MAX);
  return { name, text: kept, leftOut: Buffer.byteLength(text) - Buffer.byteLength(kept) };
}

/** The limits of a fan-out's items: their number, and the size of their file. */
const ITEMS_MAX = 100_000;
const ITEMS_BYTES_MAX = 64 * 1024 * 1024;
/** Folders that patterns skip. */
const HIDDEN: ReadonlySet<string> = new Set([".git", ".perdure"]);

/** The items of a visit; undefined when the items come from elsewhere. */
export function findItems(site: LaunchInput, place: VisitRef): ItemsFound | undefined {
  const visit = findVisit(site.run, place);
  const work = visit && stepOf(visit).work;
  if (visit === undefined || work?.kind !== "each" || typeof work.items === "string") {
    return undefined;
  }
  const { items } = work;
  if ("list" in items) return undefined;
  try {
    const root = workDirOf(site, visit);
    const name = renderText("file" in items ? items.file : items.glob, evaluatorAt(site, visit));
    return "file" in items ? itemsInFile(root, name, items.path) : filesLike(root, name);
  } catch (error) {
    if (!isStepMistake(error)) throw error;
    return { ok: false, message: error.message };
  }
}

function itemsInFile(root: string, name: string, place: string | undefined): ItemsFound {
  const path = resolve(root, name);
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isFile() !== true) return { ok: false, message: `there is no file ${name} of items` };
  if (facts.size > ITEMS_BYTES_MAX) {
    return { ok: false, message: `${name} is larger than ${ITEMS_BYTES_MAX} bytes` };
  }
  try {
    const value = valueAt(JSON.parse(textOf(path) ?? "") as Json, place);
    const where = place === undefined ? name : `${name} at \`${place}\``;
    if (!Array.isArray(value)) return { ok: false, message: `${where} holds no list` };
    return itemsWithin(value as readonly Json[]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { ok: false, message: `the items in ${name} cannot be read: ${why}` };
  }
}

/** The value at a path such as `data.items`, `$.data.items[*]` or `batches[0].items`. */
function valueAt(value: Json, path: string | undefined): Json | undefined {
  const keys = (path ?? "")
    .replace(/^\$/, "")
    .replace(/\[\*\]$/, "")
    .split(/[.[\]]/)
    .filter((key) => key !== "");
  let at: Json | undefined = value;
  for (const key of keys) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Readonly<Record<string, Json>>)[key];
  }
  return at;
}

/** The files that match a pattern, relative to the workspace, in an order that the disk does not change. */
function filesLike(root: string, pattern: string): ItemsFound {
  const found = globSync(pattern, { cwd: root, exclude: (name) => HIDDEN.has(name) })
    .filter((name) => statSync(join(root, name), { throwIfNoEntry: false })?.isFile() === true)
    .map((name) => name.replaceAll(sep, "/"));
  return itemsWithin(found.sort());
}

/** The items, unless there are too many. */
function itemsWithin(items: readonly Json[]): ItemsFound {
  if (items.length <= ITEMS_MAX) return { ok: true, items };
  return { ok: false, message: `there are ${items.length} items, more than ${ITEMS_MAX}` };
}
