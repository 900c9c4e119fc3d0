/** `perdure validate FILE...`: everything that is wrong with pipeline files, without running them. */
import { resolve } from "node:path";
import { readPipeline } from "../../app/pipeline-file.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { countText } from "../../view/text.ts";
import { printDiagnostics } from "../diagnostics.ts";
import { print, printJson } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

/** Checks each file; the status is 4 when one of them cannot be run. */
export async function validateCommand(
  files: readonly string[],
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const reports = [];
  let valid = true;
  for (const file of files) {
    const { plan, text, diagnostics } = await readPipeline(resolve(file));
    valid &&= plan !== undefined;
    reports.push({ file, valid: plan !== undefined, diagnostics });
    if (json) continue;
    await printDiagnostics({ diagnostics, text });
    if (plan !== undefined) print(`${file}: valid, ${countText(plan.graph.steps.length, "step")}`);
  }
  if (json) printJson(reports);
  return valid ? EXIT.done : EXIT.invalid;
}
