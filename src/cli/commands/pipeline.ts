/** `perdure validate` and `perdure prices`: about pipeline files, without running them. */
import { resolve } from "node:path";
import { readPipeline } from "../../app/pipeline-file.ts";
import { knownPrices, priceFile } from "../../app/prices.ts";
import type { Rates } from "../../runner/agents/usage.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { countText, tableLines } from "../../view/text.ts";
import { print, printDiagnostics, printJson, readPlan } from "../print.ts";
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

const HEADER = ["MODEL", "INPUT", "CACHED", "CACHE WRITE", "OUTPUT", "OVER 200K", "FROM"] as const;

/** Shows all known prices; with a pipeline, those of its runs. */
export async function pricesCommand(
  file: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const plan = file === undefined ? {} : (await readPlan(file, ["prices", file])).plan;
  const { date, prices } = await knownPrices(plan);
  if (wantsJson(options)) {
    printJson({
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
  for (const line of tableLines([HEADER, ...rows])) print(line);
  print("");
  print(
    "US dollars per million tokens. A cost computed from them is an estimate, shown as ~$0.12.",
  );
  print(`list: Perdure's own, as of ${date}; perdure prices -o json names its sources`);
  print(`file: ${priceFile()}, such as { "MODEL": { "input": 1.5, "output": 6 } }`);
  print(
    "pipeline: `prices:` in the pipeline, in the same form; see them with: perdure prices FILE",
  );
  return EXIT.done;
}

function ratesJson({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Rates): JsonObject {
  const json: Record<string, Json> = {
    input,
    cached_input: cachedInput ?? null,
    cache_write: cacheWrite ?? null,
    cache_write_1h: cacheWrite1h ?? null,
    output,
  };
  return json;
}
