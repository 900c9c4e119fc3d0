/** Opens the run that the arguments of a command name; says which one when several are possible. */
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { meantRun, type RunWords } from "../app/project/names.ts";
import { openProject, type Project } from "../app/project/project.ts";
import { printError } from "./print.ts";

/** A run, and the arguments of the command after it. */
export interface NamedRun {
  readonly project: Project;
  readonly known: LoadedRun;
  readonly words: readonly string[];
}

/** Finds the run of a command in a project. */
export async function runNamed(
  project: Project,
  words: readonly (string | undefined)[],
  form: RunWords = {},
): Promise<{ readonly runId: string; readonly words: readonly string[] }> {
  const { note, ...meant } = await meantRun(project, words, form);
  if (note !== undefined) printError(note);
  return meant;
}

/** Opens the project here, and the run that the arguments name. */
export async function openNamed(
  mode: "read-write" | "read-only",
  words: readonly (string | undefined)[],
  form: RunWords = {},
): Promise<NamedRun> {
  const project = await openProject(process.cwd(), mode, words[0]);
  const { runId, words: rest } = await runNamed(project, words, form);
  return { project, known: await loadRun(project, runId), words: rest };
}
