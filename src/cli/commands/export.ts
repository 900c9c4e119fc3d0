/** `perdure export` and `perdure import`: a run as one file, to continue it elsewhere. */

import { resolve } from "node:path";
import { type ExportOptions as AppOptions, exportRun } from "../../app/export.ts";
import { importRun } from "../../app/import.ts";
import { openRun } from "../../app/known-run.ts";
import { filesOption } from "../../app/rewind-files.ts";
import { formatBytes } from "../../util/bytes.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { countText } from "../../view/text.ts";
import { print } from "../print.ts";

export interface ExportOptions extends AppOptions {
  readonly output?: string;
}

/** Writes the run that is named, or the newest one, into a file. */
export async function exportCommand(
  id: string | undefined,
  options: ExportOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-write", id);
  const { shortId } = known;
  const file = resolve(options.output ?? `${shortId}.perdure`);
  const exported = await exportRun(project, known, file, options);
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
    print("  note: it contains secrets in plain text; protect it as you protect them");
  }
  print(`Continue it elsewhere, and only there: perdure import FILE && perdure resume ${shortId}`);
  return EXIT.done;
}

export interface ImportOptions {
  readonly into?: string;
  readonly files?: string;
}

/** Takes in a run from a file. */
export async function importCommand(file: string, options: ImportOptions): Promise<ExitCode> {
  const path = resolve(file);
  const files = filesOption(options.files);
  const run = await importRun(path, { into: resolve(options.into ?? "."), files });
  if (run.known) {
    print(`Run ${run.runId} already exists here, with the content of ${path}.`);
    return EXIT.done;
  }
  const done = `${run.stepsDone} of ${run.stepsTotal} steps completed`;
  print(`Imported run ${run.runId} of ${run.pipeline} (${done}), from ${run.from}.`);
  if (run.restoresFiles) {
    print("When it continues, the project's files are first restored to those of the run.");
  }
  print(`Continue: perdure resume ${run.shortId}`);
  return EXIT.done;
}
