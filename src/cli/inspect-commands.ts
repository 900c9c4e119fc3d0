/** Declares the commands that only look at runs, and those that make a document of one. */
import { type Command, Option } from "commander";
import {
  allProjectsOption,
  choice,
  examples,
  type Finish,
  jsonOption,
  runHelp,
  STEP_HELP,
} from "./options.ts";

/** Declares list, show, why, explain and logs. */
export function addInspectCommands(program: Command, finish: Finish): void {
  const list = program.command("list").usage("[options]").description("list runs");
  describeList(list.command("runs", { isDefault: true }), finish);
  list.addHelpText("after", LIST_EXAMPLES);
  for (const command of list.commands) command.exitOverride();
  describeShow(program.command("show"), finish);
  program
    .command("why")
    .description("what happened, what is done, and the exact command that continues")
    .argument("[run]", runHelp())
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure why", "perdure why 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).whyCommand(id, options)),
    );
  program
    .command("explain")
    .description("why a step was run again, or why its result is used")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure explain test", "perdure explain 1a2b3c4d test@1.1"))
    .action(async (id, step, options) =>
      finish(await (await import("./commands/inspect.ts")).explainCommand([id, step], options)),
    );
  program
    .command("logs")
    .description("what the steps printed")
    .argument("[run]", runHelp())
    .argument("[step]", `only ${STEP_HELP}, an attempt fix@2.1`)
    .option("-f, --follow", "keep printing for as long as the run is driven")
    .addHelpText(
      "after",
      examples("perdure logs test", "perdure logs --follow", "perdure logs 1a2b3c4d test@1.1"),
    )
    .action(async (id, step, options) =>
      finish(await (await import("./commands/inspect.ts")).logsCommand([id, step], options)),
    );
}

/** Declares the commands that make a document of a run. */
export function addDocumentCommands(program: Command, finish: Finish): void {
  program
    .command("graph")
    .description("draw a pipeline, or a run with its states")
    .argument("[run-or-file]", "a pipeline file, or a run; default: the newest run")
    .addOption(
      choice("--format <format>", "from the file's extension if absent, or mermaid", [
        "mermaid",
        "dot",
        "svg",
      ]),
    )
    .option("-o, --output <file>", "write it to this file instead of printing it")
    .addHelpText(
      "after",
      examples(
        "perdure graph release.yaml",
        "perdure graph 1a2b3c4d -o run.svg",
        "perdure graph 1a2b3c4d --format dot",
      ),
    )
    .action(async (what, options) =>
      finish(await (await import("./commands/inspect.ts")).graphCommand(what, options)),
    );
  program
    .command("report")
    .description("a post-mortem of a run: path, times, money, context, failures, owners")
    .argument("[run]", runHelp())
    .addOption(
      choice("--format <format>", "from the file's extension if absent, or md", [
        "md",
        "html",
        "json",
      ]),
    )
    .option("--json", "the same as --format json")
    .option("-o, --output <file>", "write it to this file instead of printing it")
    .option("--with-output", "add the last lines that each attempt printed")
    .addHelpText(
      "after",
      examples("perdure report", "perdure report 1a2b3c4d -o report.html --with-output"),
    )
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).reportCommand(id, options)),
    );
  program
    .command("replay")
    .description("check that this version would decide the same (exit 3 if not)")
    .argument("[run]", runHelp())
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure replay", "perdure replay 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).replayCommand(id, options)),
    );
}

/** Declares notify. */
export function addNotifyCommand(program: Command, finish: Finish): void {
  program
    .command("notify")
    .description("send the notices of a run that are due; runs do it by themselves")
    .argument("[run]", runHelp())
    .addOption(new Option("--background").hideHelp())
    .addHelpText("after", examples("perdure notify", "perdure notify 1a2b3c4d"))
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).notifyCommand(id, options)),
    );
}

/** Declares what looks at many runs: inbox and cost. */
export function addOverviewCommands(program: Command, finish: Finish): void {
  program
    .command("inbox")
    .description("everything that waits for a person, in all projects of this machine")
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure inbox", "perdure inbox --json"))
    .action(async (options) =>
      finish(await (await import("./commands/list.ts")).inboxCommand(options)),
    );
  program
    .command("cost")
    .description("what agents used over time: runs, tokens and money")
    .option("--since <period>", "a period, such as 12h or 30d", "30d")
    .option("--by <columns>", "a row for each pipeline, model, agent, day or project", "pipeline")
    .addOption(allProjectsOption())
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples("perdure cost", "perdure cost --since 7d --by day,model --all-projects"),
    )
    .action(async (options) =>
      finish(await (await import("./commands/list.ts")).costCommand(options)),
    );
}

const LIST_EXAMPLES = examples("perdure list", "perdure list runs --status failed --json");

/** Declares `list runs`, which has two names. */
export function describeList(command: Command, finish: Finish): void {
  command
    .description("the runs of this project, newest first")
    .addOption(jsonOption())
    .addOption(new Option("--output <format>", "json: the same as --json").hideHelp())
    .addOption(
      choice("-s, --status <status>", "only runs with this status", [
        "queued",
        "running",
        "waiting",
        "interrupted",
        "completed",
        "failed",
      ]),
    )
    .option("-p, --pipeline <name>", "only runs of this pipeline")
    .option("-n, --limit <count>", "show at most this many", "50")
    .addOption(allProjectsOption())
    .addHelpText("after", LIST_EXAMPLES)
    .action(async (options) =>
      finish(await (await import("./commands/list.ts")).listCommand(options)),
    );
}

/** Declares `show`, which has two names. */
export function describeShow(command: Command, finish: Finish): void {
  command
    .description("everything about a run: steps, attempts, times, errors, the next command")
    .argument("[run]", runHelp())
    .argument("[gate]", "a gate: what it shows with its question")
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure show", "perdure show 1a2b3c4d --json"))
    .action(async (id, gate, options) =>
      finish(await (await import("./commands/inspect.ts")).showCommand([id, gate], options)),
    );
}
