/**
 * The items of fan-outs that come from a JSON file or from files that match a pattern.
 *
 * Owns: finding them once, when the fan-out starts; `step.started` records them.
 * Does not: evaluate a list that an expression gives (room `core`).
 */
import { globSync, statSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import type { VisitRef } from "../core/event.ts";
import type { ItemsFound } from "../core/fact.ts";
import { findVisit, stepOf } from "../core/run.ts";
import { textOf } from "../runner/file-text.ts";
import { ExpressionError } from "../util/expression.ts";
import type { Json } from "../util/json.ts";
import { renderText, TemplateError } from "../util/template.ts";
import { evaluatorAt, type LaunchInput, workDirOf } from "./launch.ts";

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
    if (!(error instanceof ExpressionError || error instanceof TemplateError)) throw error;
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
    return bounded(value as readonly Json[]);
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

/** Relative to the workspace, in an order that does not depend on the disk. */
function filesLike(root: string, pattern: string): ItemsFound {
  const found = globSync(pattern, { cwd: root, exclude: (name) => HIDDEN.has(name) })
    .filter((name) => statSync(join(root, name), { throwIfNoEntry: false })?.isFile() === true)
    .map((name) => name.replaceAll(sep, "/"));
  return bounded(found.sort());
}

function bounded(items: readonly Json[]): ItemsFound {
  if (items.length <= ITEMS_MAX) return { ok: true, items };
  return { ok: false, message: `there are ${items.length} items, more than ${ITEMS_MAX}` };
}
