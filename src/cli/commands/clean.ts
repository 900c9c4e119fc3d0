/** `perdure clean`: removes the files of runs and keeps their records. */
import { type CleanOptions, cleanRuns } from "../../app/clean.ts";
import { openProject } from "../../app/project.ts";
import { formatBytes } from "../../util/bytes.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

/** Cleans the runs that are named, or all finished ones, and says what became of each. */
export async function cleanCommand(
  ids: readonly string[],
  options: CleanOptions,
): Promise<ExitCode> {
  const dryRun = options.dryRun === true;
  const project = await openProject(process.cwd(), "read-write");
  const { runs, bytes, outputsKept } = await cleanRuns(project, ids, options, (run) => {
    const done = `${dryRun ? "would remove" : "removed"} ${run.folder}`;
    print(`${run.shortId}  ${run.kept === undefined ? done : `kept: ${run.kept}`}`);
  });
  if (runs === 0) print("There is nothing to clean.");
  if (outputsKept) print("The outputs of steps are kept while a run is alive.");
  if (dryRun && runs > 0) print(`In all: ${formatBytes(bytes)}, and their snapshots.`);
  return EXIT.done;
}
