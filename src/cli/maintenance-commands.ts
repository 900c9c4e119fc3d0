/** Declares the commands for pipeline files, for the state of a project, and for this machine. */
import { Argument, type Command } from "commander";
import { UNDECLARED_AGENTS } from "../util/agent-access.ts";
import {
  COMPAT,
  choice,
  dryRunOption,
  examples,
  type Finish,
  projectFilesOption,
  runHelp,
} from "./options.ts";

const completionCommands = () => import("./commands/completion.ts");
const doctorCommands = () => import("./commands/doctor.ts");
const pipelineCommands = () => import("./commands/pipeline.ts");
const serveCommands = () => import("./commands/serve.ts");
const upkeepCommands = () => import("./commands/upkeep.ts");

/** Declares `clean`, which is also `sessions clean`. */
export function describeClean(command: Command, finish: Finish): void {
  command
    .description("remove the files of completed runs; their records stay")
    .argument("[runs...]", "only these runs, whatever their state")
    .option("--older-than <age>", "only runs that have not changed for this long, such as 7d")
    .option("--status <statuses>", "only runs with these statuses, such as completed,failed")
    .option("--all", "include interrupted and failed runs")
    .option("--keep-last <count>", "keep this many of the newest runs")
    .option("--max-size <size>", "keep the newest runs up to this total size, such as 2GB")
    .option("--force", "remove files even if they hold work that exists nowhere else")
    .addOption(dryRunOption())
    .addHelpText(
      "after",
      examples(
        "perdure clean --dry-run",
        "perdure clean --status completed,failed --older-than 7d",
      ),
    )
    .action(async (ids, options) =>
      finish(await (await upkeepCommands()).cleanCommand(ids, options)),
    );
}

/** Declares init, demo, ui, mcp, service, validate, prices, clean, export, import, doctor and completion. */
export function addMaintenanceCommands(program: Command, finish: Finish): void {
  addFirstCommands(program, finish);
  addServerCommands(program, finish);
  addServiceCommand(program, finish);
  addPipelineCommands(program, finish);
  describeClean(program.command("clean"), finish);
  addTransferCommands(program, finish);
  addCompletionCommands(program, finish);
}

function addServerCommands(program: Command, finish: Finish): void {
  program
    .command("ui")
    .description("show the runs of all projects in the browser")
    .option(
      "--port <number>",
      "listen on this port, or on any free one if 0; default: 4790, or the next free one",
    )
    .option("--listen <address>", "listen on this address; default: 127.0.0.1")
    .option("--token <token>", "the token for the first visit; required with --listen")
    .option("--read-only", "show runs, but refuse every change")
    .option("--no-open", "do not open the browser")
    .addHelpText("after", examples("perdure ui", "perdure ui --port 0 --read-only --no-open"))
    .action(async (options) => finish(await (await serveCommands()).uiCommand(options)));
  program
    .command("mcp")
    .description("offer Perdure as tools to an agent: an MCP server on stdin and stdout")
    .option("--read-only", "offer only the tools that change nothing")
    .addHelpText("after", examples("perdure mcp", "perdure mcp --read-only"))
    .action(async (options) => finish(await (await serveCommands()).mcpCommand(options)));
}

function addServiceCommand(program: Command, finish: Finish): void {
  const action = new Argument("<action>", "what to do").choices([
    "install",
    "uninstall",
    "status",
    "run",
  ]);
  program
    .command("service")
    .description(
      "run a service that resumes runs after a reboot, starts scheduled ones and cleans up",
    )
    .addArgument(action)
    .option("--once", "with run: check all projects once, and exit")
    .addHelpText("after", examples("perdure service status", "perdure service run --once"))
    .action(async (word, options) =>
      finish(await (await serveCommands()).serviceCommand(word, options)),
    );
}

function addFirstCommands(program: Command, finish: Finish): void {
  program
    .command("init")
    .description("write a commented pipeline from a template")
    .argument("[template]", "the name of a template; without it, you are asked")
    .addOption(
      choice(
        "--agent <name>",
        "the agent of the new pipeline; default: stand-in",
        UNDECLARED_AGENTS,
      ),
    )
    .addHelpText("after", examples("perdure init fix", "perdure init feature --agent claude"))
    .action(async (template, options) =>
      finish(await (await pipelineCommands()).initCommand(template, options)),
    );
  program
    .command("demo")
    .description("watch a run being killed and resumed; leaves nothing behind")
    .addHelpText("after", examples("perdure demo", "perdure demo | cat"))
    .action(async () => finish(await (await pipelineCommands()).demoCommand()));
}

function addPipelineCommands(program: Command, finish: Finish): void {
  program
    .command("validate")
    .description("report every mistake in pipeline files, without running them")
    .argument("<files...>", "pipeline files")
    .option(...COMPAT)
    .addHelpText(
      "after",
      examples("perdure validate release.yaml", "perdure validate release.yaml --json"),
    )
    .action(async (files, options) =>
      finish(await (await pipelineCommands()).validateCommand(files, options)),
    );
  program
    .command("prices")
    .description("show what models cost, since when, and the source of each price")
    .argument("[file]", "a pipeline, whose own prices take precedence")
    .addHelpText("after", examples("perdure prices", "perdure prices release.yaml --json"))
    .action(async (file, options) =>
      finish(await (await pipelineCommands()).pricesCommand(file, options)),
    );
  program
    .command("doctor")
    .description("check this machine and the state of this project, or what a pipeline needs")
    .argument("[file]", "a pipeline: are its agents and programs installed and logged in?")
    .option("--repair", "set a damaged state.db aside and rebuild it from the events files")
    .addHelpText(
      "after",
      examples("perdure doctor", "perdure doctor release.yaml", "perdure doctor --repair"),
    )
    .action(async (file, options) =>
      finish(await (await doctorCommands()).doctorCommand(file, options)),
    );
}

function addTransferCommands(program: Command, finish: Finish): void {
  program
    .command("export")
    .description("write a run to a file, to continue it elsewhere")
    .argument("[run]", runHelp())
    .option("-o, --output <file>", "write to this file; default: RUN.perdure")
    .option(
      "--without-base",
      "leave out the commits of the project; the other project must have them",
    )
    .option("--force", "export a running run, as it is now")
    .addHelpText(
      "after",
      examples("perdure export", "perdure export 1a2b3c4d -o run.perdure --force"),
    )
    .action(async (id, options) =>
      finish(await (await upkeepCommands()).exportCommand(id, options)),
    );
  program
    .command("import")
    .description("add a run from a file to this project; then: perdure resume")
    .argument("<file>", "a file that perdure export wrote")
    .option("--into <dir>", "the project that gets the run; default: this directory")
    .addOption(projectFilesOption())
    .addHelpText(
      "after",
      examples("perdure import run.perdure", "perdure import run.perdure --into ../elsewhere"),
    )
    .action(async (file, options) =>
      finish(await (await upkeepCommands()).importCommand(file, options)),
    );
}

function addCompletionCommands(program: Command, finish: Finish): void {
  program
    .command("completion")
    .description("print a completion script for a shell")
    .addArgument(shellArgument())
    .addHelpText(
      "after",
      examples('eval "$(perdure completion bash)"', "perdure completion fish | source"),
    )
    .action(async (shell) => finish(await (await completionCommands()).completionCommand(shell)));
  program
    .command("complete", { hidden: true })
    .description("print what can come next on a command line, for completion scripts")
    .argument("[words...]", "the words so far; the last one may be incomplete")
    .action(async (words) =>
      finish(await (await completionCommands()).completeCommand(program, words)),
    );
}

function shellArgument(): Argument {
  const argument = new Argument("<shell>", "the shell");
  argument.argChoices = ["bash", "zsh", "fish"];
  return argument;
}
