/** `perdure convert FILE`: the same pipeline in the other language, and what it cannot say there. */
import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import { isDotFile } from "../../app/reading.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import type { Diagnostic } from "../../pipeline/diagnostic.ts";
import { placeInDot, placeInYaml, type StepFinding } from "../../pipeline/step-place.ts";
import { convertPlan, type Language } from "../../plan/convert.ts";
import type { Difference } from "../../plan/plan-difference.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { printDiagnostics, readPlan } from "../diagnostics.ts";
import { deliver } from "../document.ts";
import { print } from "../print.ts";

export interface ConvertOptions {
  readonly output?: string;
  readonly force?: boolean;
  readonly lossy?: boolean;
}

const YAML_FILE = /\.ya?ml$/i;
const NAMES: Readonly<Record<Language, string>> = { yaml: "YAML", dot: "DOT" };

/** Writes a pipeline in the other language; nothing is written when something would be lost. */
export async function convertCommand(file: string, options: ConvertOptions): Promise<ExitCode> {
  const { lossy = false } = options;
  const output = options.output === "-" ? undefined : options.output;
  const language = languageOf(file, output);
  const command = `perdure convert ${file}${output === undefined ? "" : ` -o ${output}`}`;
  if (output !== undefined) refuseOverwriting(output, command, options);
  const { plan, text } = await readPlan(resolve(file), ["convert", file]);
  const converted = convertPlan(plan, language, output ?? `${plan.name}.${language}`);
  const { differences } = converted;
  await printDiagnostics({
    diagnostics: placed(file, text, differences, { language, lossy }),
    text,
  });
  if (differences.length > 0 && !lossy) {
    const count = differences.length === 1 ? "1 thing" : `${differences.length} things`;
    throw new Refusal(
      "invalid-pipeline",
      `${count} of ${file} cannot be said in ${NAMES[language]}; nothing was written`,
      advice(`to write the rest: ${command} --lossy`),
    );
  }
  deliver(converted.text, output === undefined ? {} : { output });
  if (output !== undefined && differences.length === 0) {
    print(`Read again, it is the same plan as that of ${file}.`);
  }
  return EXIT.done;
}

/** By the name of the file that is written; to a pipe, the language that the file is not in. */
function languageOf(file: string, output: string | undefined): Language {
  if (output === undefined) return isDotFile(file) ? "yaml" : "dot";
  if (isDotFile(output)) return "dot";
  if (YAML_FILE.test(output)) return "yaml";
  const message = `-o ${output}: its name says neither YAML nor DOT`;
  throw new Refusal("bad-option", message, advice(`perdure convert ${file} -o flow.yaml`));
}

function refuseOverwriting(
  output: string,
  command: string,
  { force, lossy }: ConvertOptions,
): void {
  if (force === true || !existsSync(output)) return;
  const more = lossy === true ? " --lossy" : "";
  throw new Refusal(
    "files-in-the-way",
    `${output} is there already; nothing was written`,
    advice(`to write over it: ${command}${more} --force`),
  );
}

/** What is lost, where the file says it. */
function placed(
  file: string,
  text: string,
  differences: readonly Difference[],
  { language, lossy }: { readonly language: Language; readonly lossy: boolean },
): readonly Diagnostic[] {
  const findings = differences.map(({ steps, message }): StepFinding => {
    const at = steps.at(-1);
    const whole = at === undefined ? message : `step \`${at}\`: ${message}`;
    const severity = lossy ? "warning" : "error";
    return { steps, severity, rule: `not-in-${language}`, message: whole };
  });
  const name = relative(process.cwd(), resolve(file));
  if (isDotFile(file)) return placeInDot(name, text, findings);
  if (YAML_FILE.test(file)) return placeInYaml(name, text, findings);
  return findings.map(({ severity, rule, message }) => ({
    ...{ severity, rule, message },
    ...{ file: name, line: 1, column: 1 },
  }));
}
