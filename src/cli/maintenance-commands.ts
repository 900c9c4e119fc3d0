/** Declares the commands for pipeline files, for the state of a project, and for this machine. */
import { Argument, type Command } from "commander";
import { UNDECLARED_AGENTS } from "../util/agent-access.ts";
import {
  COMPAT,
  choice,
  dryRunOption,
  examples,
  type Finish,
  jsonOption,
  projectFilesOption,
  runHelp,
} from "./options.ts";

/** Declares `clean`, which has two names. */
export function describeClean(command: Command, finish: Finish): void {
  command
    .description("remove the files of completed runs; their records stay")
    .argument("[runs...]", "only these runs, whatever their state")
    .option("--older-than <age>", "only runs that have not changed for this long, such as 7d")
    .option("--status <statuses>", "runs with these statuses, such as completed,failed")
    .option("--all", "interrupted and failed runs as well")
    .option("--keep-last <count>", "keep this many of the newest runs")
    .option("--max-size <size>", "keep the newest runs up to this size together, such as 2GB")
    .option("--force", "even if this loses work that exists nowhere else")
    .addOption(dryRunOption())
    .addHelpText(
      "after",
      examples(
        "perdure clean --dry-run",
        "perdure clean --status completed,failed --older-than 7d",
      ),
    )
    .action(async (ids, options) =>
      finish(await (await import("./commands/upkeep.ts")).cleanCommand(ids, options)),
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
    .option("--port <number>", "listen on this port; 0 takes a free one; default: 4790 or the next")
    .option("--listen <address>", "listen on this address; default: 127.0.0.1")
    .option("--token <token>", "the token of the first address; needed with --listen")
    .option("--read-only", "only show; refuse every change")
    .option("--no-open", "do not open the browser")
    .addHelpText("after", examples("perdure ui", "perdure ui --port 0 --read-only --no-open"))
    .action(async (options) =>
      finish(await (await import("./commands/serve.ts")).uiCommand(options)),
    );
  program
    .command("mcp")
    .description("serve an agent: tools of the Model Context Protocol over stdin and stdout")
    .option("--read-only", "offer only the tools that look")
    .addHelpText("after", examples("perdure mcp", "perdure mcp --read-only"))
    .action(async (options) =>
      finish(await (await import("./commands/serve.ts")).mcpCommand(options)),
    );
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
    .description("continue runs after a reboot, start schedules and clean up, without a terminal")
    .addArgument(action)
    .option("--once", "with run: look at all projects once, and end")
    .addHelpText("after", examples("perdure service status", "perdure service run --once"))
    .action(async (word, options) =>
      finish(await (await import("./commands/serve.ts")).serviceCommand(word, options)),
    );
}

function addFirstCommands(program: Command, finish: Finish): void {
  program
    .command("init")
    .description("write a commented pipeline from a template, to start from")
    .argument("[template]", "its name; without one, you are asked")
    .addOption(
      choice("--agent <name>", "the agent that it names; default: stand-in", UNDECLARED_AGENTS),
    )
    .addHelpText("after", examples("perdure init fix", "perdure init feature --agent claude"))
    .action(async (template, options) =>
      finish(await (await import("./commands/pipeline.ts")).initCommand(template, options)),
    );
  program
    .command("demo")
    .description("kill a run and resume it before your eyes; nothing is left behind")
    .addHelpText("after", examples("perdure demo", "perdure demo | cat"))
    .action(async () => finish(await (await import("./commands/pipeline.ts")).demoCommand()));
}

function addPipelineCommands(program: Command, finish: Finish): void {
  program
    .command("validate")
    .description("find every mistake in pipeline files, without running them")
    .argument("<files...>", "pipeline files")
    .addOption(jsonOption())
    .option(...COMPAT)
    .addHelpText(
      "after",
      examples("perdure validate release.yaml", "perdure validate release.yaml --json"),
    )
    .action(async (files, options) =>
      finish(await (await import("./commands/pipeline.ts")).validateCommand(files, options)),
    );
  program
    .command("prices")
    .description("what models cost, since when, and the source of each price")
    .argument("[file]", "a pipeline, whose own prices come first")
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure prices", "perdure prices release.yaml --json"))
    .action(async (file, options) =>
      finish(await (await import("./commands/pipeline.ts")).pricesCommand(file, options)),
    );
  program
    .command("doctor")
    .description("check this machine and the state of this project, or what a pipeline needs")
    .argument("[file]", "a pipeline: are its agents and programs installed and logged in?")
    .option("--repair", "set a broken state.db aside and rebuild it from the events files")
    .addHelpText(
      "after",
      examples("perdure doctor", "perdure doctor release.yaml", "perdure doctor --repair"),
    )
    .action(async (file, options) =>
      finish(await (await import("./commands/doctor.ts")).doctorCommand(file, options)),
    );
}

function addTransferCommands(program: Command, finish: Finish): void {
  program
    .command("export")
    .description("write a run into a file, to continue it elsewhere")
    .argument("[run]", runHelp())
    .option("-o, --output <file>", "write it to this file; default: RUN.perdure")
    .option(
      "--without-base",
      "leave out the commits of the project; the other place must have them",
    )
    .option("--force", "copy a run that is running, as it is now")
    .addHelpText(
      "after",
      examples("perdure export", "perdure export 1a2b3c4d -o run.perdure --force"),
    )
    .action(async (id, options) =>
      finish(await (await import("./commands/upkeep.ts")).exportCommand(id, options)),
    );
  program
    .command("import")
    .description("read a run from a file; perdure resume continues it")
    .argument("<file>", "what perdure export wrote")
    .option("--into <dir>", "the project to continue it in; default: this directory")
    .addOption(projectFilesOption())
    .addHelpText(
      "after",
      examples("perdure import run.perdure", "perdure import run.perdure --into ../elsewhere"),
    )
    .action(async (file, options) =>
      finish(await (await import("./commands/upkeep.ts")).importCommand(file, options)),
    );
}

function addCompletionCommands(program: Command, finish: Finish): void {
  program
    .command("completion")
    .description("print a completion script")
    .addArgument(shellArgument())
    .addHelpText(
      "after",
      examples('eval "$(perdure completion bash)"', "perdure completion fish | source"),
    )
    .action(async (shell) =>
      finish(await (await import("./commands/completion.ts")).completionCommand(shell)),
    );
  program
    .command("complete", { hidden: true })
    .description("what can come next on a command line, for completion scripts")
    .argument("[words...]", "the words so far; the last one may be incomplete")
    .action(async (words) =>
      finish(await (await import("./commands/completion.ts")).completeCommand(program, words)),
    );
}

function shellArgument(): Argument {
  const argument = new Argument("<shell>", "the shell to complete in");
  argument.argChoices = ["bash", "zsh", "fish"];
  return argument;
}
