/** `perdure init` and `perdure demo`: the first five minutes. */
import { demonstrate } from "../../app/demo.ts";
import { pipelineTemplates, writeTemplate } from "../../app/init.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { STAND_IN_AGENT } from "../../util/agent-access.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { padText } from "../../view/text.ts";
import { ask, canAsk } from "../ask.ts";
import { print, printDocument } from "../print.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";

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

/** Kills a run and resumes it, before your eyes. */
export async function demoCommand(): Promise<ExitCode> {
  return (await demonstrate(print)) ? EXIT.done : EXIT.error;
}
