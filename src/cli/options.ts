/**
 * The options and arguments that several commands share, so that each means the same everywhere.
 *
 * Owns: their names, their values (for the help and for completion) and their descriptions.
 * Does not: check values; the use cases do.
 */
import { type Command, Option } from "commander";
import { EXIT, type ExitCode } from "../view/exit-code.ts";

/** Receives the exit status of a command. */
export type Finish = (status: ExitCode) => void;

/** Collects the values of an option that may be repeated. */
const collect = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

/** An option with fixed values, which help and completion show. */
export function choice(flags: string, description: string, values: readonly string[]): Option {
  const option = new Option(flags, description);
  option.argChoices = [...values];
  return option;
}

/** An option that may be repeated. */
function repeated(flags: string, description: string): Option {
  return new Option(flags, `${description}; may be repeated`).argParser(collect);
}

export const allProjectsOption = (): Option =>
  new Option("--all-projects", "include all projects of this machine");
export const dryRunOption = (): Option =>
  new Option("--dry-run", "show what would happen, and change nothing");
export const filesOption = (): Option =>
  choice(
    "--files <how>",
    "keep the files, or restore those of that point (default: restore; keep in the project itself)",
    ["keep", "restore"],
  );
/** For a run that is imported or pulled into this project. */
export const projectFilesOption = (): Option =>
  choice("--files <how>", "restore the files of the run in the project, or keep yours", [
    "keep",
    "restore",
  ]);
export const onceOption = (): Option =>
  new Option("-y, --yes", "agree to repeat a step that must not happen twice (`once`)");
export const detachOption = (): Option => new Option("-d, --detach", "run in the background");
export const turnsOption = (): Option =>
  new Option("--turns <count>", "give agents that have reached max_turns more turns, such as +20");

/** Options of a command that takes the input of a run. */
export function addInputOptions(command: Command): void {
  command
    .addOption(repeated("-i, --input <value>", "the input: key=value, JSON, @file.json or text"))
    .addOption(
      repeated(
        "--input-json <key=json>",
        "one input as JSON, such as tags=[1, 2]; - reads the whole input from stdin",
      ),
    );
}

/** Options of a command that shows a run while it works. */
export function addScreenOptions(command: Command): void {
  command
    .optionsGroup("Output:")
    .option("--json", "print each event as a line of JSON")
    .option("--plain", "print plain lines, even on a terminal")
    .option("-q, --quiet", "print nothing if the run completes, and only the outcome if not");
}

/** Options about gates, for commands that drive a run. */
export function addGateOptions(command: Command): void {
  command
    .optionsGroup("Questions:")
    .option(
      "--stay",
      "wait for answers when nothing else can run, instead of exiting with status 6",
    )
    .option("--auto-approve", "answer every gate with its first choice that is not a rejection");
}

/** Options of commands that start or continue a run. */
export function addStartOptions(command: Command): void {
  command
    .option("--beside", "start even while another run with agents uses this directory")
    .option("--no-cache", "run every step, and reuse no results of earlier runs")
    .option("--no-preflight", "skip the check that agents and programs are installed")
    // A server names itself: the owner that it starts acts for the person at its other end.
    .addOption(new Option("--through <program>").hideHelp())
    .hook("preAction", async (command) => {
      const { through } = command.opts<{ through?: string }>();
      if (through !== undefined) (await import("../app/drive/owner.ts")).actThrough(through);
    });
}

/** New values for the variables of a run. */
export const envOption = (): Option =>
  repeated(
    "--env <name>",
    "give a variable the value it has here (NAME) or another one (NAME=value)",
  );

/** The help text of an optional run; `meant` describes the default. */
export function runHelp(meant = "the newest run"): string {
  return `a run id, or at least 4 of its first characters; default: ${meant}`;
}

export const STEP_HELP = "a step (fix), one visit of it (fix@2), or a step of an item (map[3]/fix)";

/** The examples at the end of a command's help. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}

/** Options about agents and DOT files: for `run`, `submit`, and a resume of another engine's run. */
export function addReadingOptions(command: Command): void {
  command
    .optionsGroup("Agents and DOT pipelines:")
    .option(
      "--simulate [what]",
      "simulate agents instead of calling a model; with all: simulate commands, too",
    )
    .option(
      "--agent <name>",
      "run a prompt in place of [file] with this agent; DOT: for nodes without provider",
    )
    .option("--model <name>", "the model for that prompt; DOT: for nodes that name none")
    .addOption(
      choice("--permissions <which>", "what that agent may do without asking", [
        "default",
        "plan",
        "edit",
        "all",
      ]),
    )
    .option("--goal <text>", "DOT: the goal, instead of the one in the file")
    .option("--goal-file <file>", "DOT: read the goal from this file")
    .option("--provider <name>", "DOT: the provider for nodes that name none")
    .addOption(
      repeated("--handler <type=command>", "DOT: the command that runs nodes of this type"),
    )
    .option(...COMPAT);
}

/** The option that limits the exit status; main.ts looks for it. */
export const COMPAT = [
  "--compat",
  "exit only with status 0 or 1, as scripts for DOT engines expect",
] as const;

/** What `--compat` does. */
export function endWithZeroOrOne(status: number): void {
  process.exitCode = status === EXIT.done ? EXIT.done : EXIT.error;
}
