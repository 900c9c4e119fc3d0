/** The diagnostics of pipeline files on stderr. */
import { type ReadPipeline, type ReadPlan, requirePlan } from "../app/pipeline-file.ts";
import { printError } from "./print.ts";

/** Draws diagnostics on stderr. */
export async function printDiagnostics({
  diagnostics,
  text,
}: Pick<ReadPipeline, "diagnostics" | "text">): Promise<void> {
  if (diagnostics.length === 0) return;
  const { renderDiagnostics } = await import("../pipeline/diagnostic.ts");
  const colour = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  printError(renderDiagnostics(diagnostics, text, { color: colour }));
}

/** The plan of a file; its warnings are printed. */
export async function readPlan(...read: Parameters<typeof requirePlan>): Promise<ReadPlan> {
  const plan = await requirePlan(...read);
  await printDiagnostics(plan);
  return plan;
}
