/** Declares the commands for pipeline files, for the state of a project, and for this machine. */
import type { Command } from "commander";
import type { ExitCode } from "../view/exit-code.ts";

/** Receives the exit status of a command. */
export type Finish = (status: ExitCode) => void;

/** Declares `clean`, which has two names. */
export function describeClean(command: Command, finish: Finish): void {
  command
    .description("remove the files of completed runs; their records stay")
    .argument("[runs...]", "only these runs, whatever their state")
    .option("--older-than <age>", "only runs that have not changed for this long, such as 7d")
    .option("--state <states>", "runs in these states, such as completed,failed")
    .option("--all", "interrupted and failed runs as well")
    .option("--keep-last <count>", "keep this many of the newest runs")
    .option("--max-size <size>", "keep the newest runs up to this size together, such as 2GB")
    .option("--force", "even if this loses work that exists nowhere else")
    .option("--dry-run", "show what would be removed, and its size")
    .action(async (ids, options) =>
      finish(await (await import("./commands/upkeep.ts")).cleanCommand(ids, options)),
    );
}

/** Declares validate, clean, export, import, prices, doctor and completion. */
export function addMaintenanceCommands(program: Command, finish: Finish): void {
  program
    .command("validate")
    .description("find every mistake in pipeline files, without running them")
    .argument("<files...>", "pipeline files")
    .option("-o, --output <format>", "text or json")
    .action(async (files, options) =>
      finish(await (await import("./commands/pipeline.ts")).validateCommand(files, options)),
    );
  describeClean(program.command("clean"), finish);
  program
    .command("export")
    .description("write a run into a file, to continue it elsewhere")
    .argument("[run]", "id or prefix; the newest run if absent")
    .option("-o, --output <file>", "the file; <run>.perdure if absent")
    .option(
      "--without-base",
      "leave out the commits of the project; the other place must have them",
    )
    .option("--force", "copy a run that is running, as it is now")
    .action(async (id, options) =>
      finish(await (await import("./commands/upkeep.ts")).exportCommand(id, options)),
    );
  program
    .command("import")
    .description("read a run from a file; perdure resume continues it")
    .argument("<file>", "what perdure export wrote")
    .option("--into <dir>", "the project to continue it in; this directory if absent")
    .option("--files <which>", "for the project's files: restore those of the run, or keep yours")
    .action(async (file, options) =>
      finish(await (await import("./commands/upkeep.ts")).importCommand(file, options)),
    );
  program
    .command("prices")
    .description("what models cost, since when, and the source of each price")
    .argument("[file]", "a pipeline, whose own prices come first")
    .option("-o, --output <format>", "text or json")
    .action(async (file, options) =>
      finish(await (await import("./commands/pipeline.ts")).pricesCommand(file, options)),
    );
  program
    .command("doctor")
    .description("check this machine and the state of this project, or what a pipeline needs")
    .argument("[file]", "a pipeline: are its agents and programs installed and logged in?")
    .option("--repair", "set a broken state.db aside and rebuild it from the events files")
    .action(async (file, options) =>
      finish(await (await import("./commands/upkeep.ts")).doctorCommand(file, options)),
    );
  program
    .command("completion")
    .description("print a completion script")
    .argument("<shell>", "bash, zsh or fish")
    .action(async (shell) =>
      finish(await (await import("./commands/completion.ts")).completionCommand(program, shell)),
    );
}
