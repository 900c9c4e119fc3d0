/**
 * `perdure validate`, `prices`, `init` and `demo`: check, price and write pipeline files, and try the
 * first one.
 */

import { demonstrate, pipelineTemplates, writeTemplate } from "../../app/init.ts";

import { readConfigurationFile, readPipeline } from "../../app/pipeline/pipeline-file.ts";
import { findPipeline } from "../../app/pipeline/pipeline-name.ts";
import { knownPrices, priceFile } from "../../app/prices.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { STAND_IN_AGENT } from "../../util/agent-access.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { ratesJson } from "../../view/json/action-json.ts";
import { diagnosticJson } from "../../view/json/part-json.ts";
import { countText, padText, tableLines } from "../../view/text.ts";
import { print, printDiagnostics, printDocument, readPlan } from "../print.ts";
import { ask, canAsk, type OutputOptions, stdoutWidth, wantsJson } from "../terminal.ts";

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
      if (diagnostics.length === 0) print(`${file}: valid configuration`);
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

interface InitOptions extends OutputOptions {
  readonly agent?: string;
}

/** Writes a pipeline from a template; without a name, a person is asked which one. */
export async function initCommand(
  named: string | undefined,
  options: InitOptions,
): Promise<ExitCode> {
  const template = named ?? (await chosen());
  if (template === "") return EXIT.done;
  const { name, file, agent } = writeTemplate(process.cwd(), { ...options, template });
  if (wantsJson(options)) {
    printDocument("initialised", { pipeline: name, file, agent });
    return EXIT.done;
  }
  print(`Wrote ${file}`);
  if (agent === STAND_IN_AGENT) {
    print("Its agent is a stand-in without a model: it costs nothing, and does nothing.");
    print("For a real one, put claude, codex, gemini or opencode in its place.");
  }
  print(`Run it:        perdure run ${name}`);
  print(`Kill it, then: perdure resume`);
  return EXIT.done;
}

/** The template that a person chooses by its number or its name; empty when they leave. */
async function chosen(): Promise<string> {
  const templates = pipelineTemplates();
  const width = Math.max(...templates.map(({ name }) => name.length));
  const line = (at: number, name: string, about: string): string =>
    `${String(at + 1).padStart(2)}  ${padText(name, width)}  ${about}`;
  const list = templates.map(({ name, about }, at) => line(at, name, about));
  if (!canAsk({})) {
    const message = `init needs a template:\n${list.join("\n")}`;
    throw new Refusal("bad-option", message, command("init", templates[0]?.name ?? ""));
  }
  for (const one of list) print(one);
  const answer = await ask("Which one? ");
  return templates[Number(answer) - 1]?.name ?? answer;
}

/** Shows how a run is killed and resumed. */
export async function demoCommand(): Promise<ExitCode> {
  return (await demonstrate(print)) ? EXIT.done : EXIT.error;
}
