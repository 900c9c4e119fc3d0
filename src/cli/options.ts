/**
 * The options and arguments that several commands share, so that each means the same everywhere.
 *
 * Owns: their spelling, their values (for the help and for completion) and their one sentence.
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

/** An option whose values help and completion know. */
export function choice(flags: string, sentence: string, values: readonly string[]): Option {
  const option = new Option(flags, sentence);
  option.argChoices = [...values];
  return option;
}

/** An option that may be repeated. */
function repeated(flags: string, sentence: string): Option {
  return new Option(flags, `${sentence}; may be repeated`).argParser(collect);
}

export const jsonOption = (): Option => new Option("--json", "print data as JSON");
export const allProjectsOption = (): Option =>
  new Option("--all-projects", "the runs of all projects of this machine");
export const dryRunOption = (): Option =>
  new Option("--dry-run", "show what would happen; change nothing");
export const filesOption = (): Option =>
  choice(
    "--files <how>",
    "what happens to the files (default: restore; in the project itself: keep)",
    ["keep", "restore"],
  );
/** For a run that comes to this project. */
export const projectFilesOption = (): Option =>
  choice("--files <how>", "the project's files: restore those of the run, or keep yours", [
    "keep",
    "restore",
  ]);
export const onceOption = (): Option =>
  new Option("-y, --yes", "agree to repeat a step that must not happen twice (`once`)");
export const detachOption = (): Option =>
  new Option("-d, --detach", "leave the run to a background process");
export const turnsOption = (): Option =>
  new Option("--turns <count>", "more turns for agents that used up max_turns: +20");
const repeatedOption = repeated;

/** Options of a command that takes the input of a run. */
export function addInputOptions(command: Command): void {
  command
    .addOption(repeated("-i, --input <value>", "key=value, JSON, @file.json or text"))
    .addOption(
      repeated("--input-json <key=json>", "JSON, such as tags=[1, 2]; - for all of stdin"),
    );
}

/** Options of a command that shows a run while it works. */
export function addScreenOptions(command: Command): void {
  command
    .optionsGroup("Output:")
    .option("--json", "print each event as a line of JSON")
    .option("--plain", "print lines, also on a terminal")
    .option("-q, --quiet", "print nothing if the run completes, otherwise only how it ended");
}

/** Options about gates, for commands that drive a run. */
export function addGateOptions(command: Command): void {
  command
    .optionsGroup("Questions:")
    .option("--stay", "wait for answers when nothing else can run, instead of ending with status 6")
    .option("--auto-approve", "answer every gate with its first choice that does not reject");
}

/** Options about what must be there before a run starts. */
export function addStartOptions(command: Command): void {
  command
    .option("--beside", "run in a directory where another run with agents is running")
    .option("--no-cache", "run every step: take no result from an earlier run")
    .option("--no-preflight", "do not check first whether agents and programs are installed")
    // A server names itself: the owner that it starts acts for the person at its other end.
    .addOption(new Option("--through <program>").hideHelp())
    .hook("preAction", async (command) => {
      const { through } = command.opts<{ through?: string }>();
      if (through !== undefined) (await import("../app/drive/owner.ts")).actThrough(through);
    });
}

/** The variables of a run that continues. */
export const envOption = (): Option =>
  repeated("--env <name>", "use the value of a variable here (NAME), or another one (NAME=value)");

/** The help text of an optional run; `meant` describes the default. */
export function runHelp(meant = "the newest run"): string {
  return `id, or 4 or more of its first characters; default: ${meant}`;
}

/** The sentence of a step. */
export const STEP_HELP = "a step; a visit of it is fix@2, a step inside an item map[3]/fix";

/** The examples at the end of a command's help. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}

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
