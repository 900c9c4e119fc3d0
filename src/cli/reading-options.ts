/** The options that say how a pipeline is read: those of DOT, and which work is simulated. */
import type { Command } from "commander";
import { EXIT } from "../view/exit-code.ts";
import { choice, repeatedOption } from "./options.ts";

/** Declares how a file is read: for `run`, and for a resume that continues another engine's run. */
export function addReadingOptions(command: Command): void {
  command
    .optionsGroup("Agents and DOT pipelines:")
    .option(
      "--simulate [what]",
      "call no model: agents answer at once; all: run no commands either",
    )
    .option("--agent <name>", "run one prompt instead of a file; DOT: for prompts without provider")
    .option("--model <name>", "the model for that prompt; DOT: for nodes that name none")
    .addOption(
      choice("--permissions <which>", "what that agent may do unasked", [
        "default",
        "plan",
        "edit",
        "all",
      ]),
    )
    .option("--goal <text>", "DOT: the goal, in place of the one in the file")
    .option("--goal-file <file>", "DOT: a file with the goal")
    .option("--provider <name>", "DOT: the provider for nodes that name none")
    .addOption(repeatedOption("--handler <type=command>", "DOT: a command for a node type"))
    .option(...COMPAT);
}

/** For scripts that expect no other status; main.ts looks for it. */
export const COMPAT = [
  "--compat",
  "end only with status 0 or 1, as scripts for DOT engines expect",
] as const;

/** What `--compat` does. */
export function endWithZeroOrOne(status: number): void {
  process.exitCode = status === EXIT.done ? EXIT.done : EXIT.error;
}
