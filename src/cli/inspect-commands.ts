/** Declares the commands that inspect runs and export reports about them. */
import { type Command, Option } from "commander";
import { allProjectsOption, choice, examples, type Finish, runHelp, STEP_HELP } from "./options.ts";

const inspectCommands = () => import("./commands/inspect.ts");
const listCommands = () => import("./commands/list.ts");

/** Declares the commands that main.ts declares alone: list, show, why, explain and logs. */
export function addInspectCommands(program: Command, finish: Finish): void {
  const list = program.command("list").usage("[options]").description("list runs");
  describeList(list.command("runs", { isDefault: true }), finish);
  list.addHelpText("after", LIST_EXAMPLES);
  for (const command of list.commands) command.exitOverride();
  describeShow(program.command("show"), finish);
  program
    .command("why")
    .description("say what happened, what is done, and which command continues the run")
    .argument("[run]", runHelp())
    .addHelpText("after", examples("perdure why", "perdure why 1a2b3c4d --json"))
    .action(async (id, options) => finish(await (await inspectCommands()).whyCommand(id, options)));
  program
    .command("explain")
    .description("say why a step ran again, or why its result was kept")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addHelpText("after", examples("perdure explain test", "perdure explain 1a2b3c4d test@1.1"))
    .action(async (id, step, options) =>
      finish(await (await inspectCommands()).explainCommand([id, step], options)),
    );
  program
    .command("logs")
    .description("print the output of the steps")
    .argument("[run]", runHelp())
    .argument("[step]", `${STEP_HELP}, or one attempt (fix@2.1)`)
    .option("-f, --follow", "keep printing while the run is active")
    .addHelpText(
      "after",
      examples("perdure logs test", "perdure logs --follow", "perdure logs 1a2b3c4d test@1.1"),
    )
    .action(async (id, step, options) =>
      finish(await (await inspectCommands()).logsCommand([id, step], options)),
    );
}

/** Declares all other commands that inspect runs. */
export function addMoreInspectCommands(program: Command, finish: Finish): void {
  addCheckpointCommands(program, finish);
  addDocumentCommands(program, finish);
  addOverviewCommands(program, finish);
  addNotifyCommand(program, finish);
}

function addCheckpointCommands(program: Command, finish: Finish): void {
  program
    .command("diff")
    .description(
      "show how a step changed files and context, or what changed between two checkpoints",
    )
    .usage("[options] [run] <a> [b]")
    .argument("[run]", runHelp())
    .argument("[a]", "a step, a visit (fix@2), an attempt (fix@2.1), base, now, or a snapshot")
    .argument("[b]", "the second checkpoint; without it, the changes that A itself made")
    .option("--stat", "list files with counts of changed lines (the default)")
    .option("--patch", "print a patch")
    .addHelpText(
      "after",
      examples(
        "perdure diff build",
        "perdure diff build now --patch",
        "perdure diff 1a2b3c4d base test@1.1",
      ),
    )
    .action(async (id, a, b, options) =>
      finish(await (await inspectCommands()).diffCommand([id, a, b], options)),
    );
  program
    .command("timeline")
    .description("list the checkpoints of a run in order, with the changes between them")
    .argument("[run]", runHelp())
    .addHelpText("after", examples("perdure timeline", "perdure timeline 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await inspectCommands()).timelineCommand(id, options)),
    );
}

function addDocumentCommands(program: Command, finish: Finish): void {
  program
    .command("graph")
    .description("draw a pipeline, or a run with the states of its steps")
    .argument("[run-or-file]", "a pipeline file, or a run; default: the newest run")
    .addOption(
      choice("--format <format>", "default: by the extension of the output file, or mermaid", [
        "mermaid",
        "dot",
        "svg",
      ]),
    )
    .option("-o, --output <file>", "write to this file instead of printing")
    .addHelpText(
      "after",
      examples(
        "perdure graph release.yaml",
        "perdure graph 1a2b3c4d -o run.svg",
        "perdure graph 1a2b3c4d --format dot",
      ),
    )
    .action(async (what, options) =>
      finish(await (await inspectCommands()).graphCommand(what, options)),
    );
  program
    .command("report")
    .description("write a report on a run: path, times, costs, context, failures, owners")
    .argument("[run]", runHelp())
    .addOption(
      choice("--format <format>", "default: by the extension of the output file, or md", [
        "md",
        "html",
        "json",
      ]),
    )
    .option("--json", "the same as --format json")
    .option("-o, --output <file>", "write to this file instead of printing")
    .option("--with-output", "include the last lines that each attempt printed")
    .addHelpText(
      "after",
      examples("perdure report", "perdure report 1a2b3c4d -o report.html --with-output"),
    )
    .action(async (id, options) =>
      finish(await (await inspectCommands()).reportCommand(id, options)),
    );
  program
    .command("replay")
    .description(
      "check that this version of perdure makes the same decisions again (exit 3 if not)",
    )
    .argument("[run]", runHelp())
    .addHelpText("after", examples("perdure replay", "perdure replay 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await inspectCommands()).replayCommand(id, options)),
    );
}

function addNotifyCommand(program: Command, finish: Finish): void {
  program
    .command("notify")
    .description("send the due notices of a run now; runs also send them on their own")
    .argument("[run]", runHelp())
    .addOption(new Option("--background").hideHelp())
    .addHelpText("after", examples("perdure notify", "perdure notify 1a2b3c4d"))
    .action(async (id, options) =>
      finish(await (await inspectCommands()).notifyCommand(id, options)),
    );
}

function addOverviewCommands(program: Command, finish: Finish): void {
  program
    .command("inbox")
    .description("list everything that waits for a person, in all projects of this machine")
    .addHelpText("after", examples("perdure inbox", "perdure inbox --json"))
    .action(async (options) => finish(await (await listCommands()).inboxCommand(options)));
  program
    .command("cost")
    .description("show what agents used over time: runs, tokens and money")
    .option("--since <period>", "how far to look back, such as 12h or 30d", "30d")
    .option("--by <columns>", "a row for each pipeline, model, agent, day or project", "pipeline")
    .addOption(allProjectsOption())
    .addHelpText(
      "after",
      examples("perdure cost", "perdure cost --since 7d --by day,model --all-projects"),
    )
    .action(async (options) => finish(await (await listCommands()).costCommand(options)));
}

const LIST_EXAMPLES = examples("perdure list", "perdure list runs --status failed --json");

/** Declares `list runs`, which is also `sessions ls`. */
export function describeList(command: Command, finish: Finish): void {
  command
    .description("list the runs of this project, newest first")
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
    .action(async (options) => finish(await (await listCommands()).listCommand(options)));
}

/** Declares `show`, which is also `sessions show`. */
export function describeShow(command: Command, finish: Finish): void {
  command
    .description("show a run: steps, attempts, times, errors, and the next command")
    .argument("[run]", runHelp())
    .argument("[gate]", "show the material of this gate's question instead")
    .addHelpText("after", examples("perdure show", "perdure show 1a2b3c4d --json"))
    .action(async (id, gate, options) =>
      finish(await (await inspectCommands()).showCommand([id, gate], options)),
    );
}
