/**
 * The program: its commands and their options.
 *
 * Owns: the command line and the exit status.
 * Does not: carry out a command (`commands/` does). The first command that needs a file there loads
 * it, because a list of runs must not wait for a YAML parser.
 */
import { Command, Help } from "commander";
import {
  changeDirectory,
  checkDirectory,
  keepCompiledCode,
  packageVersion,
  plainEnvironment,
  requireProc,
  setKeepCode,
} from "../app/this-process.ts";
import { EXIT, type ExitCode } from "../view/exit-code.ts";
import type { RunArguments } from "./commands/run.ts";
import { exitOnUnhandledErrors, exitWithError } from "./exit.ts";
import {
  addCheckpointCommands,
  addResultCommands,
  addRewindCommands,
  collect,
  FILES_HELP,
  REPEAT_HELP,
} from "./history-commands.ts";
import { addMaintenanceCommands, describeClean, type Finish } from "./maintenance-commands.ts";
import { surviveClosedOutput } from "./print.ts";

/** Parses the arguments, runs the command and sets the exit status. */
export async function main(args: readonly string[], keepCode?: () => void): Promise<void> {
  setKeepCode(keepCode);
  process.env = plainEnvironment();
  surviveClosedOutput();
  exitOnUnhandledErrors();
  let exit: ExitCode = EXIT.done;
  const program = buildProgram(args[0] ?? "", (status) => {
    exit = status;
  });
  // The command `help` of commander ends with the status that is set.
  if (args[0] === "help") process.exitCode = EXIT.done;
  try {
    await program.parseAsync(args, { from: "user" });
    process.exitCode = exit;
    keepCompiledCode();
  } catch (error) {
    await exitWithError(error);
  }
}

/** Where the first word is one of these, only the commands of its group are declared. */
const RUNNING: ReadonlySet<string> = new Set(["run", "resume", "retry", "stop"]);
const LOOKING: ReadonlySet<string> = new Set(["attach", "list", "show", "why", "explain", "logs"]);

function addAllCommands(program: Command, finish: Finish): void {
  addRunCommands(program, finish);
  addAnswerCommands(program, finish);
  addConversationCommands(program, finish);
  addRewindCommands(program, finish);
  addInspectCommands(program, finish);
  addDocumentCommands(program, finish);
  addCheckpointCommands(program, finish);
  addResultCommands(program, finish);
  addMaintenanceCommands(program, finish);
  addSessionCommands(program, finish);
}

/** The headings of `perdure --help`, and the commands under each. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "Run:": ["run", "resume", "stop", "attach", "answer", "settle", "say", "open"],
  "Look:": ["list", "show", "why", "logs", "explain", "timeline", "diff", "graph", "report"],
  "Take the result:": ["merge", "apply", "pr"],
  "Go back:": ["retry", "rewind", "invalidate", "restore", "fork"],
  "Write pipelines:": ["validate", "prices", "completion"],
  "Keep:": ["export", "import", "clean", "doctor", "replay"],
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

function buildProgram(first: string, finish: Finish): Command {
  const program = new Command("perdure")
    .description(
      "Runs pipelines of AI agents and shell commands. Kill it anywhere; resume continues from there.",
    )
    .version(packageVersion(), "-V, --version")
    .option("-C, --project <dir>", "work as if started in this directory")
    .hook("preAction", (command) => {
      requireProc();
      const { project } = command.opts<{ project?: string }>();
      if (project !== undefined) changeDirectory(project);
      checkDirectory();
    })
    .configureHelp({
      sortSubcommands: false,
      visibleCommands: (command) =>
        new Help().visibleCommands(command).filter((one) => one.name() !== "help"),
    })
    .showHelpAfterError("(see: perdure --help)")
    .addHelpText("after", EXAMPLES)
    .exitOverride();
  if (RUNNING.has(first)) addRunCommands(program, finish);
  else if (LOOKING.has(first)) addInspectCommands(program, finish);
  else addAllCommands(program, finish);
  groupCommands(program);
  for (const command of program.commands) command.exitOverride();
  return program;
}

const EXAMPLES = `
Examples:
  perdure run build.yaml --input target=all    start a pipeline
  perdure resume                               continue the last unfinished run
  perdure list runs                            see what there is
  perdure why                                  what happened, and what to type next
  perdure logs 1a2b3c4d test -f                watch one step

Exit status: 0 done, 1 error, 2 usage, 3 the pipeline failed, 4 it is invalid, 5 timed out,
6 waiting for a person, 7 owned by another process, 130 interrupted, 143 terminated`;

const RUN_EXAMPLES = `
Examples:
  perdure run build.yaml
  perdure run fix.yaml -i issue=42 -i dry=true
  perdure run nightly.yaml --detach`;

const ANSWER_EXAMPLES = `
Examples:
  perdure answer 1a2b3c4d
  perdure answer 1a2b3c4d approve approve
  perdure answer 1a2b3c4d approve reject --text "the tests are missing"`;

const GRAPH_EXAMPLES = `
Examples:
  perdure graph build.yaml
  perdure graph 1a2b3c4d -o run.svg
  perdure graph 1a2b3c4d --format dot | dot -Tpng > run.png`;

const STAY_HELP = "wait for answers when nothing else can run, instead of ending with status 6";
const APPROVE_HELP = "answer every gate with its first choice that does not reject";

const ENV_HELP = "use the value of a variable here (NAME), or another one (NAME=value)";
const PREFLIGHT_HELP = "do not check first whether agents and programs are installed";
const BESIDE_HELP = "run in a directory where another run with agents is running";

function addRunCommands(program: Command, finish: Finish): void {
  program
    .command("run")
    .description("start a new run of a pipeline")
    .argument("[file]", "a YAML, DOT or TypeScript file, or the name of one in pipelines/")
    .option("-i, --input <value>", "key=value, JSON, @file.json or text; may be repeated", collect)
    .option("--json <key=json>", "a value as JSON, such as tags=[1, 2]; may be repeated", collect)
    .option("-d, --detach", "leave the run to a background process")
    .option("-o, --output <format>", "text, or json for a stream of events")
    .option("-q, --quiet", "print only how a run ended that did not complete")
    .option(
      "--simulate [what]",
      "call no model: agents answer at once; all: run no commands either",
    )
    .option("--validate", "only check the file")
    .option("--logs <dir>", "write checkpoint, prompts and outcomes there, as DOT engines do")
    .option("--agent <name>", "DOT: the agent for prompts that name no provider; default claude")
    .option("--permissions <which>", "DOT: what agents may do unasked: default, plan, edit or all")
    .option("--handler <type=command>", "DOT: a command for a node type; may be repeated", collect)
    .option("--stay", STAY_HELP)
    .option("--auto-approve", APPROVE_HELP)
    .option("--beside", BESIDE_HELP)
    .option("--no-preflight", PREFLIGHT_HELP)
    .option("--resume <run>", "the same as: perdure resume RUN")
    .option("--resume-last", "the same as: perdure resume; with FILE: only its runs")
    .option("--from-step <step>", "with --run: the same as: perdure resume RUN --from-step STEP")
    .option("--run <run>", "the run for --from-step; the last unfinished one if absent")
    .addHelpText("after", RUN_EXAMPLES)
    .action(async (file: string | undefined, options: RunArguments) =>
      finish(await run(program, file, options)),
    );
  addResumeCommand(program, finish);
  program
    .command("retry")
    .description("run a step again, and every step after it")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step; an item of a fan-out: review@1.1[2]/check")
    .option("--env <name>", ENV_HELP, collect)
    .option("--failed", "of a fan-out that completed: run only its failed items again")
    .option("--turns <count>", "more turns for its agent: +20")
    .option("-y, --yes", REPEAT_HELP)
    .option("--files <how>", FILES_HELP)
    .option("--dry-run", "show what would happen to each step; change nothing")
    .option("--no-preflight", PREFLIGHT_HELP)
    .option("--beside", BESIDE_HELP)
    .option("-o, --output <format>", "text, or json for a stream of events")
    .option("-q, --quiet", "print only how a run ended that did not complete")
    .action(async (id, step, options) =>
      finish(await (await import("./commands/resume.ts")).retryCommand(id, step, options)),
    );
  program
    .command("stop")
    .description("stop a run; it can be resumed")
    .argument("[run]", "id or prefix; the only live run if absent")
    .option("--after-step", "let the running steps finish first")
    .option("--after-turn", "let agents finish their current turn and its tools first")
    .action(async (id, options) =>
      finish(await (await import("./commands/interact.ts")).stopCommand(id, options)),
    );
}

function addResumeCommand(program: Command, finish: Finish): void {
  program
    .command("resume")
    .description("continue a run from where it stopped")
    .argument("[run]", "id or a prefix of 8 or more; the run that was interrupted last if absent")
    .option("--pipeline-id <run>", "the run, spelled as an option")
    .option("--logs <dir>", "the run that writes to this directory (run --logs)")
    .option(
      "--from-step <step>",
      "take earlier steps as done; run this step and every step after it",
    )
    .option("--env <name>", ENV_HELP, collect)
    .option("--budget <amount>", "add to the budget: +5usd, +100000tokens, +20turns or +30m")
    .option("--turns <count>", "more turns for agents that used up max_turns: +20")
    .option("--recover <how>", "interrupted work: continue with it, restart it, or ask about each")
    .option("--update", "adopt the edit of the pipeline's file; shows what that does, and asks")
    .option("-y, --yes", "with --update or --from-step: agree without being asked")
    .option("--files <how>", FILES_HELP)
    .option("--dry-run", "show what would happen to each step, and why; change nothing")
    .option("-d, --detach", "leave the run to a background process")
    .option("--stay", STAY_HELP)
    .option("--auto-approve", APPROVE_HELP)
    .option("--beside", BESIDE_HELP)
    .option("--no-preflight", PREFLIGHT_HELP)
    .option("--as-copy", "this project is a copy of the run's: continue here, with the files here")
    .option(
      "--take-over",
      "take over from an owner that cannot be seen from here and is known to be dead",
    )
    .option("-o, --output <format>", "text, or json for a stream of events")
    .option("-q, --quiet", "print only how a run ended that did not complete")
    .action(async (id, options) =>
      finish(await (await import("./commands/resume.ts")).resumeCommand(id, options)),
    );
}

/** Declares the commands that reach an agent of a run. */
function addConversationCommands(program: Command, finish: Finish): void {
  program
    .command("say")
    .description("send a message to the agent of a step; it arrives at its next turn")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step")
    .argument("<message...>", "the message")
    .action(async (id, step, words) =>
      finish(await (await import("./commands/interact.ts")).sayCommand(id, step, words)),
    );
  program
    .command("open")
    .description("open the conversation of a step in the agent's own program")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step")
    .action(async (id, step) =>
      finish(await (await import("./commands/interact.ts")).openCommand(id, step)),
    );
}

function addAnswerCommands(program: Command, finish: Finish): void {
  program
    .command("answer")
    .description("answer a question of a run; without a choice: list its questions")
    .argument("<run>", "id or prefix")
    .argument("[gate]", "the step that asks")
    .argument("[choice]", "the key or the label of a choice")
    .option("-t, --text <words>", "a note in your own words, kept with the answer")
    .option("-o, --output <format>", "text or json, for the list")
    .addHelpText("after", ANSWER_EXAMPLES)
    .action(async (id, gate, choice, options) =>
      finish(
        await (await import("./commands/interact.ts")).answerCommand(id, gate, choice, options),
      ),
    );
  program
    .command("settle")
    .description("say whether an interrupted `once` step took effect")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step")
    .argument("<as>", "done: it happened; redo: it did not, run it again; abort: abandon it")
    .option("--identity <text>", "what tells the effect from others, such as its address")
    .action(async (id, step, as, options) =>
      finish(await (await import("./commands/interact.ts")).settleCommand(id, step, as, options)),
    );
}

/** `run`, or one of the spellings of `resume` that other tools have. */
async function run(
  program: Command,
  file: string | undefined,
  options: RunArguments,
): Promise<ExitCode> {
  const { resume, resumeLast, fromStep } = options;
  const { refuseMixedOptions, runCommand } = await import("./commands/run.ts");
  refuseMixedOptions(file, options);
  if (resume !== undefined || resumeLast === true || fromStep !== undefined) {
    const { resumeCommand } = await import("./commands/resume.ts");
    return resumeCommand(
      resume ?? options.run,
      file === undefined ? options : { ...options, file },
    );
  }
  const named = file ?? (await (await import("./commands/run.ts")).chosenPipeline(options));
  if (named === undefined) return program.error("error: which pipeline? perdure run FILE");
  return runCommand(named, options);
}

function addInspectCommands(program: Command, finish: Finish): void {
  program
    .command("attach")
    .description("watch a run that another process drives; Ctrl-C leaves it running")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-o, --output <format>", "text, or json for a stream of events")
    .option("-q, --quiet", "only wait for its end")
    .action(async (id, options) =>
      finish(await (await import("./commands/interact.ts")).attachCommand(id, options)),
    );
  const list = program.command("list").description("list runs");
  describeList(list.command("runs", { isDefault: true }), finish);
  for (const command of list.commands) command.exitOverride();
  describeShow(program.command("show"), finish);
  program
    .command("why")
    .description("what happened, what is done, and the exact command that continues")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-o, --output <format>", "text or json")
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).whyCommand(id, options)),
    );
  program
    .command("explain")
    .description("why a step was run again, or why its result is used")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step")
    .option("-o, --output <format>", "text or json")
    .action(async (id, step, options) =>
      finish(await (await import("./commands/inspect.ts")).explainCommand(id, step, options)),
    );
  program
    .command("logs")
    .description("what the steps printed")
    .argument("<run>", "id or prefix")
    .argument("[step]", "only this step")
    .option("-f, --follow", "keep printing for as long as the run is driven")
    .action(async (id, step, options) =>
      finish(await (await import("./commands/inspect.ts")).logsCommand(id, step, options)),
    );
}

/** Declares the commands that make a document of a run. */
function addDocumentCommands(program: Command, finish: Finish): void {
  program
    .command("graph")
    .description("draw a pipeline, or a run with its states")
    .argument("[run-or-file]", "a pipeline file, or a run; the newest run if absent")
    .option("-f, --format <format>", "mermaid, dot or svg (default: from the file extension)")
    .option("-o, --output <file>", "write it to this file instead of printing it")
    .addHelpText("after", GRAPH_EXAMPLES)
    .action(async (what, options) =>
      finish(await (await import("./commands/inspect.ts")).graphCommand(what, options)),
    );
  program
    .command("report")
    .description("a post-mortem of a run: path, times, money, context, failures, owners")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-f, --format <format>", "md, html or json (default: from the file extension)")
    .option("-o, --output <file>", "write it to this file instead of printing it")
    .option("--with-output", "add the last lines that each attempt printed")
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).reportCommand(id, options)),
    );
  program
    .command("replay")
    .description("check that this version would decide the same (exit 3 if not)")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-o, --output <format>", "text or json")
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).replayCommand(id, options)),
    );
}

function describeList(command: Command, finish: Finish): void {
  command
    .description("the runs of this project, newest first")
    .option("-o, --output <format>", "text or json")
    .option(
      "-s, --status <status>",
      "only queued, running, waiting, interrupted, completed or failed ones",
    )
    .option("-p, --pipeline <name>", "only runs of this pipeline")
    .option("-n, --limit <count>", "show at most this many", "50")
    .action(async (options) =>
      finish(await (await import("./commands/list.ts")).listCommand(options)),
    );
}

function describeShow(command: Command, finish: Finish): void {
  command
    .description("everything about a run: steps, attempts, times, errors, the next command")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-o, --output <format>", "text or json")
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).showCommand(id, options)),
    );
}

/** Other tools call runs sessions; their names of commands work as well. */
function addSessionCommands(program: Command, finish: Finish): void {
  const sessions = program
    .command("sessions", { hidden: true })
    .description("other names of: list runs, show, clean");
  describeList(sessions.command("ls", { isDefault: true }), finish);
  describeShow(sessions.command("show"), finish);
  describeClean(sessions.command("clean"), finish);
  for (const command of sessions.commands) command.exitOverride();
}
