/** `perdure clean`, `export` and `import`: maintain the state of a project. */

import { resolve } from "node:path";
import {
  type CleanedRun,
  type CleanOptions,
  cleanFleetCopies,
  cleanRuns,
} from "../../app/clean.ts";
import { findStateDir, hasRuns, isUnused, openLocalProject } from "../../app/project/project.ts";
import { filesOption } from "../../app/rewind/rewind-files.ts";
import { type ExportOptions, exportRun } from "../../app/transfer/export.ts";
import { importRun } from "../../app/transfer/import.ts";
import { formatBytes } from "../../util/bytes.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { countText } from "../../view/text.ts";
import { openNamed } from "../named-run.ts";
import { print, printDocument } from "../print.ts";
import { type OutputOptions, wantsJson } from "../terminal.ts";

const NOTHING_CLEANED = { runs: 0, bytes: 0, outputsKept: false };

/** Cleans the named runs, or all finished ones, and reports each. */
export async function cleanCommand(
  ids: readonly string[],
  options: CleanOptions & OutputOptions,
): Promise<ExitCode> {
  const dryRun = options.dryRun === true;
  const json = wantsJson(options);
  const cleaned: DocumentJson<"clean">["runs"][number][] = [];
  const report = (run: CleanedRun): void => {
    const { runId: run_id, folder, kept: kept_because = null } = run;
    cleaned.push({ run_id, folder, kept_because });
    const done = `${dryRun ? "would remove" : "removed"} ${folder}`;
    if (!json) print(`${run.shortId}  ${kept_because === null ? done : `kept: ${kept_because}`}`);
  };
  // Removes only files of this machine; the store keeps the files of its runs.
  const copies = ids.length === 0 ? cleanFleetCopies(options, report) : NOTHING_CLEANED;
  const dir = findStateDir(process.cwd());
  const hasProject = dir !== undefined && !isUnused(dir);
  const isOfFleet = copies.runs > 0 || (await hasRuns(process.cwd()));
  const isDone = !hasProject && ids.length === 0 && isOfFleet;
  const here = isDone
    ? NOTHING_CLEANED
    : await cleanRuns(await openLocalProject(process.cwd(), "read-write"), ids, options, report);
  const { outputsKept } = here;
  const [runs, bytes] = [here.runs + copies.runs, here.bytes + copies.bytes];
  if (json) {
    const rest = { runs: cleaned, bytes, outputs_kept: outputsKept };
    printDocument("clean", { dry_run: dryRun, ...rest });
    return EXIT.done;
  }
  if (runs === 0) print("There is nothing to clean.");
  if (outputsKept) print("The outputs of steps are kept while a run is alive.");
  if (dryRun && runs > 0) print(`Total: ${formatBytes(bytes)}, and the snapshots.`);
  return EXIT.done;
}

interface ExportCommandOptions extends ExportOptions, Pick<OutputOptions, "json"> {
  readonly output?: string;
}

/** Writes the named run, or the newest one, into a file. */
export async function exportCommand(
  id: string | undefined,
  options: ExportCommandOptions,
): Promise<ExitCode> {
  const { project, known } = await openNamed("read-write", [id]);
  const { shortId } = known;
  const file = resolve(options.output ?? `${shortId}.perdure`);
  const exported = await exportRun(project, known, file, options);
  if (options.json === true) {
    const { holdsSecrets: holds_secrets, ...rest } = exported;
    printDocument("exported", { run_id: known.id, file, ...rest, holds_secrets });
    return EXIT.done;
  }
  const counts = [
    countText(exported.events, "event"),
    countText(exported.snapshots, "snapshot"),
    countText(exported.artifacts, "artifact"),
    countText(exported.conversations, "conversation"),
  ];
  print(`Exported run ${shortId} to ${file} (${formatBytes(exported.bytes)}):`);
  print(`  ${counts.join(", ")}`);
  for (const note of exported.notes) print(`  note: ${note}`);
  if (exported.holdsSecrets) {
    print("  note: it contains secrets in plain text; keep it as safe as the secrets");
  }
  print(`Continue it elsewhere, and only there: perdure import FILE && perdure resume ${shortId}`);
  return EXIT.done;
}

interface ImportOptions extends OutputOptions {
  readonly into?: string;
  readonly files?: string;
}

/** Imports a run from a file. */
export async function importCommand(file: string, options: ImportOptions): Promise<ExitCode> {
  const path = resolve(file);
  const files = filesOption(options.files);
  const run = await importRun(path, { into: resolve(options.into ?? "."), files });
  if (wantsJson(options)) {
    const { runId: run_id, pipeline, from, known, restoresFiles: restores_files } = run;
    const steps = { steps_completed: run.stepsCompleted, steps_total: run.stepsTotal };
    printDocument("imported", { run_id, pipeline, from, ...steps, known, restores_files });
    return EXIT.done;
  }
  if (run.known) {
    print(`Run ${run.runId} already exists here, with the content of ${path}.`);
    return EXIT.done;
  }
  const done = `${run.stepsCompleted} of ${run.stepsTotal} steps completed`;
  print(`Imported run ${run.runId} of ${run.pipeline} (${done}), from ${run.from}.`);
  if (run.restoresFiles) {
    print("When it continues, the project's files are first restored to those of the run.");
  }
  print(`Continue: perdure resume ${run.shortId}`);
  return EXIT.done;
}
