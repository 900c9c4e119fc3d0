/** Declares the commands of a fleet. */
import { Argument, type Command, Option } from "commander";
import {
  addInputOptions,
  addReadingOptions,
  examples,
  type Finish,
  projectFilesOption,
} from "./options.ts";

const fleetCommands = () => import("./commands/fleet.ts");

/** Declares submit, schedules, worker, workers, store, push and pull. */
export function addFleetCommands(program: Command, finish: Finish): void {
  addSubmitting(program, finish);
  addWorking(program, finish);
  addMoving(program, finish);
}

function addSubmitting(program: Command, finish: Finish): void {
  const submit = program
    .command("submit")
    .description("queue a new run of a pipeline for the workers of a fleet")
    .argument("<file>", "a YAML, DOT or TypeScript file, or a name in pipelines/")
    .optionsGroup("Input:");
  addInputOptions(submit);
  submit
    .optionsGroup("Where and when it runs:")
    .option("--requires <labels>", "labels that its worker must have, such as linux,claude")
    .option("--priority <number>", "runs with a higher number come first; default: 0")
    .option("--schedule", "start it at the times of its on.schedule, from now on");
  addReadingOptions(submit);
  submit
    .optionsGroup("Options:")
    .addHelpText(
      "after",
      examples(
        "perdure submit release.yaml -i version=1.2.0",
        "perdure submit release.yaml --requires linux,claude --priority 10",
        "perdure submit nightly.yaml --schedule",
      ),
    )
    .action(async (file, options) =>
      finish(await (await fleetCommands()).submitCommand(file, options)),
    );
  program
    .command("schedules")
    .description("show the pipelines that a fleet starts on a schedule")
    .option("--remove <name>", "remove the schedule with this name")
    .addHelpText("after", examples("perdure schedules", "perdure schedules --remove nightly"))
    .action(async (options) => finish(await (await fleetCommands()).schedulesCommand(options)));
}

function addWorking(program: Command, finish: Finish): void {
  program
    .command("worker")
    .description("drive runs of a fleet on this machine; SIGTERM hands them over to other workers")
    .option("--concurrency <number>", "drive this many runs at once; default: 4")
    .option("--labels <labels>", "what this machine has, such as linux,claude")
    .option(
      "--directory <dir>",
      "keep the runs in this directory; default: ~/.local/state/perdure/worker",
    )
    // For the process that the supervisor starts.
    .addOption(new Option("--supervised").hideHelp())
    .addHelpText(
      "after",
      examples("perdure worker", "perdure worker --concurrency 8 --labels linux,claude"),
    )
    .action(async (options) => finish(await (await fleetCommands()).workerCommand(options)));
  program
    .command("workers")
    .description("show the workers of a fleet, its queues, and the runs that no worker could drive")
    .addHelpText("after", examples("perdure workers", "perdure workers --json"))
    .action(async (options) => finish(await (await fleetCommands()).workersCommand(options)));
  program
    .command("store")
    .description("set up the PostgreSQL database of a fleet: tables, roles, rights")
    .addArgument(new Argument("<action>", "what to do").choices(["init"]))
    .option("--lease <duration>", "how long a silent worker keeps its runs; default: 12s")
    .addHelpText("after", examples("perdure store init", "perdure store init --lease 30s"))
    .action(async (action, options) =>
      finish(await (await fleetCommands()).storeCommand(action, options)),
    );
}

function addMoving(program: Command, finish: Finish): void {
  program
    .command("push")
    .description("move a run of this machine to the fleet")
    .argument("<run>", "a run id, or a unique prefix of it")
    .addHelpText("after", examples("perdure push 3f2a", "perdure push 3f2a --json"))
    .action(async (run, options) =>
      finish(await (await fleetCommands()).pushCommand(run, options)),
    );
  program
    .command("pull")
    .description("move a run of the fleet to this machine, to continue it here")
    .argument("<run>", "a run id, or a unique prefix of it")
    .addOption(projectFilesOption())
    .addHelpText("after", examples("perdure pull 3f2a", "perdure pull 3f2a --files restore"))
    .action(async (run, options) =>
      finish(await (await fleetCommands()).pullCommand(run, options)),
    );
}
