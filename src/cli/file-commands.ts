/** The commands on pipeline files that run nothing. */
import type { Command } from "commander";
import type { ExitCode } from "../view/exit-code.ts";

const CONVERT_EXAMPLES = `
Examples:
  perdure convert flow.dot -o flow.yaml
  perdure convert flow.yaml -o flow.dot`;

/** Adds `convert`. */
export function addConverting(program: Command, finish: (status: ExitCode) => void): void {
  program
    .command("convert")
    .description("write a pipeline in the other language: DOT as YAML, or YAML as DOT")
    .argument("<file>", "the pipeline file")
    .option("-o, --output <file>", "write it there, in the language of its name; - prints it")
    .option("--lossy", "write it even if the other language cannot say all of it")
    .option("--force", "write over a file that is there")
    .addHelpText("after", CONVERT_EXAMPLES)
    .action(async (file, options) =>
      finish(await (await import("./commands/convert.ts")).convertCommand(file, options)),
    );
}
