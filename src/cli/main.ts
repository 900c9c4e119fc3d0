/**
 * The program: its commands and their options.
 *
 * Owns: the command line and the exit status; the refusal of an unknown command, which suggests
 * Perdure's command for the name that another tool uses.
 * Does not: carry out a command (`commands/` does). Files of `commands/` are loaded when a command
 * needs them, because a list of runs must not wait for a YAML parser.
 */
import { type Argument, Command, Help, type Option } from "commander";
import { command, type Next, Refusal } from "../app/refusal.ts";
import {
  changeDirectory,
  checkDirectory,
  type KeptCode,
  keepCodeOfCommand,
  packageVersion,
  plainEnvironment,
  requireProc,
  setKeptCode,
} from "../app/this-process.ts";
import { nearest } from "../util/nearest.ts";
import { EXIT, type ExitCode } from "../view/exit-code.ts";
import { exitOnUnhandledErrors, exitWithError } from "./exit.ts";
import { addFleetCommands } from "./fleet-commands.ts";
import {
  addInspectCommands,
  addMoreInspectCommands,
  describeList,
  describeShow,
} from "./inspect-commands.ts";
import { addMaintenanceCommands, describeClean } from "./maintenance-commands.ts";
import { endWithZeroOrOne, type Finish } from "./options.ts";
import { expectJson, isJsonExpected, print, surviveClosedOutput } from "./print.ts";
import { addMoreRunCommands, addRunCommands } from "./run-commands.ts";

/** Parses the arguments, runs the command and sets the exit status. */
export async function main(args: readonly string[], kept?: KeptCode): Promise<void> {
  setKeptCode(kept);
  process.env = plainEnvironment();
  surviveClosedOutput();
  exitOnUnhandledErrors();
  if (asksForJson(args)) expectJson();
  let exit: ExitCode = EXIT.done;
  const program = buildProgram(args[0] ?? "", (status) => {
    exit = status;
  });
  if (args.includes("--compat")) process.once("exit", endWithZeroOrOne);
  // The command `help` of commander ends with the status that is set.
  if (args[0] === "help") process.exitCode = EXIT.done;
  try {
    await program.parseAsync(args, { from: "user" });
    process.exitCode = exit;
    keepCodeOfCommand();
  } catch (error) {
    await exitWithError(error);
  }
}

/** For these first words only the commands of their group are declared, which is faster. */
const RUNNING: ReadonlySet<string> = new Set(["run", "resume", "retry", "stop"]);
const LOOKING: ReadonlySet<string> = new Set(["list", "show", "why", "explain", "logs"]);

function addAllCommands(program: Command, finish: Finish): void {
  addRunCommands(program, finish);
  addMoreRunCommands(program, finish);
  addInspectCommands(program, finish);
  addMoreInspectCommands(program, finish);
  addMaintenanceCommands(program, finish);
  addFleetCommands(program, finish);
  addSessionCommands(program, finish);
}

/** The headings of `perdure --help`, and the commands under each. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "Run:": ["run", "resume", "stop", "attach", "answer", "settle", "skip", "say", "open"],
  "Inspect:": [
    "list",
    "inbox",
    "show",
    "why",
    "logs",
    "explain",
    "timeline",
    "diff",
    "graph",
    "report",
    "cost",
    "ui",
    "mcp",
  ],
  "Take the result:": ["merge", "apply", "pr"],
  "Run again:": ["retry", "rewind", "fork"],
  "Write pipelines:": ["init", "demo", "validate", "prices", "completion"],
  "Many machines:": ["submit", "schedules", "worker", "workers", "store", "push", "pull"],
  "Maintain:": ["service", "export", "import", "clean", "doctor", "replay", "notify"],
};

/** Sorts the commands into groups for the help. */
function groupCommands(program: Command): void {
  const places = Object.entries(GROUPS).flatMap(([heading, names]) =>
    names.map((name) => ({ heading, name })),
  );
  const order = (command: Command): number =>
    places.findIndex(({ name }) => name === command.name());
  const commands = program.commands as Command[];
  commands.sort((one, other) => order(one) - order(other));
  for (const command of commands) {
    const place = places.find(({ name }) => name === command.name());
    if (place !== undefined) command.helpGroup(place.heading);
  }
}

/** A column of descriptions that is narrower than this is not wrapped. */
const HELP_WIDTH_MIN = 8;

/** The text about an option or an argument in a help. */
function describe({ description, argChoices, defaultValue }: Option | Argument): string {
  const values = argChoices === undefined ? "" : `: ${argChoices.join(", ")}`;
  const byDefault = defaultValue === undefined ? "" : `; default: ${defaultValue}`;
  return `${description}${values}${byDefault}`;
}

/** The commands with their options and helps; `first` is the first word of the command line. */
export function buildProgram(first: string, finish: Finish): Command {
  const program = new Command("perdure")
    .description(
      "Runs pipelines of AI agents and shell commands. Kill it anywhere; resume continues from there.",
    )
    .version(packageVersion(), "-V, --version", "print the version")
    .option("-C, --project <dir>", "run as if started in this directory")
    .hook("preAction", (command) => {
      requireProc();
      const { project } = command.opts<{ project?: string }>();
      if (project !== undefined) changeDirectory(project);
      checkDirectory();
    })
    .configureHelp({
      sortSubcommands: false,
      minWidthToWrap: HELP_WIDTH_MIN,
      optionDescription: describe,
      argumentDescription: describe,
      subcommandTerm: (command) =>
        `${command.name()} ${command.usage().replace("[options]", "").trim()}`.trim(),
      visibleCommands: (command) =>
        new Help().visibleCommands(command).filter((one) => one.name() !== "help"),
    })
    .helpOption("-h, --help", "print this help")
    .showHelpAfterError("(see: perdure --help)")
    .addHelpText("after", EXAMPLES)
    .exitOverride()
    .on("command:*", ([word = ""]: readonly string[]) => {
      throw unknownCommand(
        word,
        program.commands.map((one) => one.name()),
      );
    });
  program.configureOutput({ writeOut: (text) => print(text.trimEnd()) });
  // With --json, exit.ts prints the error.
  if (isJsonExpected()) program.configureOutput({ writeErr: () => undefined });
  if (RUNNING.has(first)) addRunCommands(program, finish);
  else if (LOOKING.has(first)) addInspectCommands(program, finish);
  else addAllCommands(program, finish);
  for (const command of program.commands) addJsonOption(command);
  groupCommands(program);
  for (const command of program.commands) {
    command.exitOverride().showHelpAfterError(`(see: perdure ${command.name()} --help)`);
  }
  return program;
}

const EXAMPLES = `
Examples:
  perdure run release.yaml -i version=1.2.0    start a pipeline
  perdure resume                               continue the last unfinished run
  perdure list runs                            see all runs of this project
  perdure why                                  see what happened and what to do next
  perdure logs test --follow                   watch one step

Exit status: 0 done, 1 error, 2 usage, 3 the pipeline failed, 4 it is invalid, 5 timed out,
6 waiting for a person, 7 owned by another process, 130 interrupted, 143 terminated`;

/** Other tools call runs sessions; their commands work here, too. */
function addSessionCommands(program: Command, finish: Finish): void {
  const sessions = program
    .command("sessions", { hidden: true })
    .description("other names for: list runs, show, clean");
  describeList(sessions.command("ls", { isDefault: true }), finish);
  describeShow(sessions.command("show"), finish);
  describeClean(sessions.command("clean"), finish);
  for (const command of sessions.commands) command.exitOverride();
}

/** Commands that have no data to print: they print a script, or talk to a person or a program. */
const WITHOUT_JSON: ReadonlySet<string> = new Set([
  "completion",
  "demo",
  "open",
  "ui",
  "mcp",
  "worker",
]);

/** Declares `--json` for a command and its subcommands. */
function addJsonOption(command: Command): void {
  for (const inner of command.commands) addJsonOption(inner);
  const has = command.options.some(({ long }) => long === "--json");
  if (has || command.commands.length > 0 || WITHOUT_JSON.has(command.name())) return;
  command.option("--json", "print JSON");
}

/** True when the arguments contain `--json`. */
function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  const options = end < 0 ? args : args.slice(0, end);
  return options.includes("--json");
}

const noted = (note: string, ...words: readonly string[]): Next => ({ ...command(...words), note });

const RUN = noted("starts a pipeline", "run", "FILE");
const LIST = noted("all runs and their states", "list");
const SHOW = noted("one run with all its steps", "show");
const STOP = noted("it can be resumed", "stop");
const VALIDATE = noted("finds every mistake in a file", "validate", "FILE");
const REWIND = noted("returns to before a step", "rewind", "RUN", "STEP");

/** What to suggest for the name of a command that other tools have. */
const FOREIGN: Readonly<Record<string, readonly Next[]>> = {
  abort: [STOP],
  approve: [noted("answers the open question", "answer", "GATE", "approve")],
  cancel: [STOP],
  check: [VALIDATE],
  checkpoints: [noted("the checkpoints of a run", "timeline")],
  continue: [noted("continues where the run stopped", "resume")],
  cook: [RUN],
  describe: [SHOW],
  exec: [RUN],
  history: [noted("the checkpoints of a run", "timeline")],
  inspect: [SHOW],
  invalidate: [noted("files stay as they are", "rewind", "RUN", "STEP", "--files", "keep")],
  kill: [STOP],
  lint: [VALIDATE],
  log: [noted("what the steps printed", "logs")],
  ls: [LIST],
  ps: [LIST],
  reject: [noted("answers the open question", "answer", "GATE", "reject")],
  rerun: [noted("runs a step again", "retry", "RUN", "STEP")],
  reset: [REWIND],
  restart: [noted("runs a step again", "retry", "RUN", "STEP"), RUN],
  restore: [
    noted("only files: those of a snapshot", "rewind", "RUN", "SNAPSHOT"),
    noted("files and steps: to before a step", "rewind", "RUN", "STEP", "--files", "restore"),
  ],
  rollback: [REWIND],
  runs: [LIST],
  start: [RUN],
  status: [LIST, SHOW],
  tail: [noted("keeps printing", "logs", "--follow")],
  undo: [REWIND],
  version: [command("--version")],
  watch: [noted("Ctrl-C leaves the run running", "attach")],
};

/** The refusal of an unknown command, which suggests the command that is probably meant. */
function unknownCommand(word: string, commands: readonly string[]): Refusal {
  const known = Object.hasOwn(FOREIGN, word) ? FOREIGN[word] : undefined;
  const near = known === undefined ? nearest(word, commands) : undefined;
  const next = known ?? (near === undefined ? command("--help") : command(near, "--help"));
  return new Refusal("bad-option", `there is no command ${word}`, next);
}
