/** `perdure validate` and `perdure prices`: about pipeline files, without running them. */
import { readConfigurationFile, readPipeline } from "../../app/pipeline/pipeline-file.ts";
import { findPipeline } from "../../app/pipeline/pipeline-name.ts";
import { knownPrices, priceFile } from "../../app/prices.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { ratesJson } from "../../view/json/action-json.ts";
import { diagnosticJson } from "../../view/json/diagnostic-json.ts";
import { countText, tableLines } from "../../view/text.ts";
import { print, printDiagnostics, printDocument, readPlan } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";
import { stdoutWidth } from "../screen/terminal-style.ts";

/** Checks each file; the status is 4 when one of them cannot be run. */
export async function validateCommand(
  files: readonly string[],
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const reports = [];
  let valid = true;
  for (const file of files) {
    const path = findPipeline(file, "validate");
    const settings = await readConfigurationFile(path);
    if (settings !== undefined) {
      const { diagnostics } = settings;
      valid &&= diagnostics.length === 0;
      reports.push({
        file,
        valid: diagnostics.length === 0,
        steps: null,
        diagnostics: diagnostics.map(diagnosticJson),
        settings: [],
      });
      if (json) continue;
      await printDiagnostics(settings);
      if (diagnostics.length === 0) print(`${file}: valid settings of pipelines`);
      continue;
    }
    const read = await readPipeline(path);
    const { plan, diagnostics, taken } = read;
    valid &&= plan !== undefined;
    reports.push({
      file,
      valid: plan !== undefined,
      steps: plan?.graph.steps.length ?? null,
      diagnostics: diagnostics.map(diagnosticJson),
      settings: taken,
    });
    if (json) continue;
    await printDiagnostics(read);
    if (plan === undefined) continue;
    print(`${file}: valid, ${countText(plan.graph.steps.length, "step")}`);
    for (const from of taken) print(`  from ${from.file}: ${from.keys.join(", ")}`);
  }
  if (json) printDocument("validate", { files: reports });
  return valid ? EXIT.done : EXIT.invalid;
}

const HEADER = ["MODEL", "INPUT", "CACHED", "CACHE WRITE", "OUTPUT", "OVER 200K", "FROM"] as const;

/** Shows all known prices; with a pipeline, those of its runs. */
export async function pricesCommand(
  file: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const path = file === undefined ? undefined : findPipeline(file, "prices");
  const typed = ["prices", file ?? ""];
  const plan = path === undefined ? {} : (await readPlan(path, typed)).plan;
  const { date, prices } = await knownPrices(plan);
  if (wantsJson(options)) {
    printDocument("prices", {
      date,
      unit: "US dollars per million tokens",
      file: priceFile(),
      prices: prices.map(({ model, price: { origin, over200k, ...rates }, source }) => ({
        model,
        ...ratesJson(rates),
        over_200k: over200k === undefined ? null : ratesJson(over200k),
        origin,
        source,
      })),
    });
    return EXIT.done;
  }
  const rows = prices.map(({ model, price }) => {
    const { input, cachedInput = input, cacheWrite = input, output, over200k, origin } = price;
    const long = over200k === undefined ? "" : `${over200k.input} / ${over200k.output}`;
    return [model, `${input}`, `${cachedInput}`, `${cacheWrite}`, `${output}`, long, origin];
  });
  for (const line of tableLines([HEADER, ...rows], { width: stdoutWidth() })) print(line);
  print("");
  print(
    "US dollars per million tokens. A cost computed from them is an estimate, shown as ~$0.12.",
  );
  print(`list: Perdure's own, as of ${date}; perdure prices --json names its sources`);
  print(`file: ${priceFile()}, such as { "MODEL": { "input": 1.5, "output": 6 } }`);
  print(
    "pipeline: `prices:` in the pipeline, in the same form; see them with: perdure prices FILE",
  );
  return EXIT.done;
}
