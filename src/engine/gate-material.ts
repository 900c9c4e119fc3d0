/**
 * What a gate shows with its question: files, the changes of the run, and values of expressions.
 *
 * Owns: reading them once, when the gate is about to ask; `step.asked` keeps them, so a person sees
 * what they were then, wherever the question is answered.
 * Does not: print them (view/question-text.ts).
 */
import { spawnSync } from "node:child_process";
import { relative, resolve } from "node:path";
import type { Material, VisitRef } from "../core/event.ts";
import { findVisit, stepOf } from "../core/run.ts";
import { textOf } from "../runner/file-text.ts";
import { ExpressionError } from "../util/expression.ts";
import { type Evaluate, parseTemplate, renderText, TemplateError } from "../util/template.ts";
import { evaluatorAt, type LaunchInput, workDirOf } from "./launch.ts";

/** How much of one thing is kept. */
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
      if (!(error instanceof ExpressionError || error instanceof TemplateError)) throw error;
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
