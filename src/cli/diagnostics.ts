/** The diagnostics of pipeline files on stderr. */
import {
  diagnosticsText,
  type ReadPipeline,
  type ReadPlan,
  requirePlan,
} from "../app/pipeline-file.ts";
import { printError } from "./print.ts";

/** Draws diagnostics on stderr. */
export async function printDiagnostics(
  read: Pick<ReadPipeline, "diagnostics" | "text">,
): Promise<void> {
  if (read.diagnostics.length === 0) return;
  const color = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  printError(await diagnosticsText(read, { color }));
}

/** The plan of a file; its warnings are printed. */
export async function readPlan(...read: Parameters<typeof requirePlan>): Promise<ReadPlan> {
  const plan = await requirePlan(...read);
  await printDiagnostics(plan);
  return plan;
}
