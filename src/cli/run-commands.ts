/** Declares the commands that start, continue and reach a run. */
import { type Command, Option } from "commander";
import type { ExitCode } from "../view/exit-code.ts";
import type { RunArguments } from "./commands/run.ts";
import {
  addGateOptions,
  addInputOptions,
  addReadingOptions,
  addScreenOptions,
  addStartOptions,
  choice,
  detachOption,
  dryRunOption,
  envOption,
  examples,
  type Finish,
  filesOption,
  jsonOption,
  onceOption,
  runHelp,
  STEP_HELP,
  turnsOption,
} from "./options.ts";

/** Declares run, resume, retry and stop. */
export function addRunCommands(program: Command, finish: Finish): void {
  addRunCommand(program, finish);
  addResumeCommand(program, finish);
  addRetryCommand(program, finish);
  program
    .command("stop")
    .description("stop a run; it can be resumed")
    .argument("[run]", runHelp("the only live run"))
    .option("--after-step", "let the running steps finish first")
    .option("--after-turn", "let agents finish their current turn and its tools first")
    .addHelpText("after", examples("perdure stop", "perdure stop 1a2b3c4d --after-step"))
    .action(async (id, options) =>
      finish(await (await import("./commands/interact.ts")).stopCommand(id, options)),
    );
}

function addRunCommand(program: Command, finish: Finish): void {
  const command = program
    .command("run")
    .description("start a new run of a pipeline")
    .argument("[file]", "a YAML, DOT or TypeScript file, a name in pipelines/, or - for stdin")
    .optionsGroup("Input:");
  addInputOptions(command);
  command
    .optionsGroup("How it runs:")
    .addOption(detachOption())
    .option("--shell <command>", "run one command instead of a file");
  addStartOptions(command);
  addGateOptions(command);
  addScreenOptions(command);
  addReadingOptions(command);
  command
    .addOption(new Option("--scheduled <id>", "the id of the run").hideHelp())
    .option("--logs <dir>", "write checkpoint, prompts and outcomes there, as DOT engines do")
    .optionsGroup("A run that exists:")
    .option("--resume <run>", "the same as: perdure resume RUN")
    .option("--resume-last", "the same as: perdure resume; with FILE: only its runs")
    .option("--from-step <step>", "run this part of the newest run again, with its input")
    .option("--run <run>", "the run for --from-step, instead of the newest one")
    .optionsGroup("Options:")
    .addHelpText(
      "after",
      examples(
        "perdure run release.yaml",
        'perdure run release.yaml -i version=1.2.0 --input-json \'tags=["a", "b"]\'',
        "perdure run release.yaml --detach",
      ),
    )
    .action(async (file: string | undefined, options: RunArguments) =>
      finish(await run(program, file, options)),
    );
}

/** `run`, or one of the spellings of `resume` that other tools have. */
async function run(
  program: Command,
  file: string | undefined,
  options: RunArguments,
): Promise<ExitCode> {
  const { resume, resumeLast, fromStep } = options;
  const { refuseMixedOptions, runChosen, runCommand, runFromStep } = await import(
    "./commands/run.ts"
  );
  refuseMixedOptions(file, options);
  if (resume !== undefined || resumeLast === true) {
    const { resumeCommand } = await import("./commands/resume.ts");
    return resumeCommand(resume, file === undefined ? options : { ...options, file });
  }
  if (fromStep !== undefined) return runFromStep(file, fromStep, options);
  if (file === undefined && (options.shell ?? options.agent) !== undefined) {
    return runCommand(undefined, options);
  }
  if (file !== undefined) return runCommand(file, options);
  return (await runChosen(options)) ?? program.error("error: which pipeline? perdure run FILE");
}

function addResumeCommand(program: Command, finish: Finish): void {
  const command = program
    .command("resume")
    .description("continue a run from where it stopped")
    .argument("[run]", runHelp("the run that was interrupted last"))
    .optionsGroup("Which run, other spellings:")
    .option("--pipeline-id <run>", "the run, as an option")
    .option("--logs <dir>", "the run that writes to this directory (run --logs)")
    .optionsGroup("What runs:")
    .option("--from-step <step>", "take earlier steps as done; run this step and all after it")
    .option("--update", "adopt the edit of the pipeline's file; shows what that does, and asks")
    .option("-y, --yes", "with --update or --from-step: agree without being asked")
    .addOption(
      choice("--recover <how>", "how interrupted work continues", ["continue", "restart", "ask"]),
    )
    .addOption(filesOption())
    .addOption(dryRunOption())
    .optionsGroup("Budget, turns and variables:")
    .option("--budget <amount>", "add to the budget: +5usd, +100000tokens, +20turns or +30m")
    .addOption(turnsOption())
    .addOption(envOption())
    .optionsGroup("How it runs:")
    .addOption(detachOption());
  addStartOptions(command);
  command
    .option("--as-copy", "this project is a copy of the run's: continue here, with the files here")
    .option("--take-over", "take the run from an owner elsewhere that you know to be dead");
  addGateOptions(command);
  addScreenOptions(command);
  addReadingOptions(command);
  command
    .optionsGroup("Options:")
    .addHelpText(
      "after",
      examples(
        "perdure resume",
        "perdure resume 1a2b3c4d --dry-run",
        "perdure resume 1a2b3c4d --update --yes",
      ),
    )
    .action(async (id, options) =>
      finish(await (await import("./commands/resume.ts")).resumeCommand(id, options)),
    );
}

function addRetryCommand(program: Command, finish: Finish): void {
  const command = program
    .command("retry")
    .description("run a step again, and every step after it")
    .usage("[options] [run] <step...>")
    .argument("[run]", runHelp())
    .argument("[step...]", `${STEP_HELP}; or items of a fan-out: 'map[3]' 'map[7]'`)
    .optionsGroup("What runs:")
    .option("--failed", "of a fan-out that completed: its failed items, which is the default")
    .addOption(turnsOption())
    .addOption(envOption())
    .addOption(onceOption())
    .addOption(filesOption())
    .addOption(dryRunOption())
    .optionsGroup("How it runs:");
  addStartOptions(command);
  addScreenOptions(command);
  command
    .optionsGroup("Options:")
    .addHelpText("after", examples("perdure retry test", "perdure retry 1a2b3c4d test --dry-run"))
    .action(async (id, steps, options) =>
      finish(
        await (await import("./commands/resume.ts")).retryCommand([id, ...(steps ?? [])], options),
      ),
    );
}

/** Declares answer and settle. */
export function addAnswerCommands(program: Command, finish: Finish): void {
  program
    .command("answer")
    .description("answer a question of a run; without a choice: list its questions")
    .argument("[run]", runHelp("the newest run with an open question"))
    .argument("[gate]", "the step that asks")
    .argument("[choice]", "the key or the label of a choice")
    .option("-t, --text <words>", "a note in your own words, kept with the answer")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples(
        "perdure answer",
        "perdure answer approve approve",
        'perdure answer 1a2b3c4d approve reject --text "the tests are missing"',
      ),
    )
    .action(async (id, gate, picked, options) =>
      finish(
        await (await import("./commands/interact.ts")).answerCommand([id, gate, picked], options),
      ),
    );
  program
    .command("skip")
    .description("skip a step that failed, waits or has not started; the run continues without it")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addHelpText("after", examples("perdure skip approve", "perdure skip 1a2b3c4d approve"))
    .action(async (id, step, options) =>
      finish(await (await import("./commands/interact.ts")).skipCommand([id, step], options)),
    );
  program
    .command("settle")
    .description("say whether an interrupted `once` step took effect")
    .usage("[options] [run] <step> <verdict>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .argument("[verdict]", "done: it happened; redo: it did not, run it again; abort: abandon it")
    .option("--identity <text>", "what tells the effect from others, such as its address")
    .addHelpText(
      "after",
      examples(
        "perdure settle publish redo",
        "perdure settle 1a2b3c4d publish done --identity v1.2.0",
      ),
    )
    .action(async (id, step, verdict, options) =>
      finish(
        await (await import("./commands/interact.ts")).settleCommand([id, step, verdict], options),
      ),
    );
}

/** Declares the commands that reach an agent of a run. */
export function addConversationCommands(program: Command, finish: Finish): void {
  program
    .command("say")
    .description("send a message to the agent of a step; it arrives at its next turn")
    .usage("[options] [run] <step> <message...>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .argument("[message...]", "the message")
    .addHelpText(
      "after",
      examples(
        'perdure say fix "the parser is in src/parser.ts"',
        'perdure say 1a2b3c4d fix "leave the tests as they are"',
      ),
    )
    .action(async (id, step, words, options) => {
      const given = [id, step, ...(words ?? [])];
      finish(await (await import("./commands/interact.ts")).sayCommand(given, options));
    });
  program
    .command("open")
    .description("open the conversation of a step in the agent's own program")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addHelpText("after", examples("perdure open fix", "perdure open 1a2b3c4d fix"))
    .action(async (id, step) =>
      finish(await (await import("./commands/interact.ts")).openCommand([id, step])),
    );
}

/** Declares attach. */
export function addAttachCommand(program: Command, finish: Finish): void {
  const command = program
    .command("attach")
    .description("watch a run that another process drives; Ctrl-C leaves it running")
    .argument("[run]", runHelp("the newest run that is driven, or else the newest"));
  addScreenOptions(command);
  command
    .optionsGroup("Options:")
    .addHelpText("after", examples("perdure attach", "perdure attach 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await import("./commands/interact.ts")).attachCommand(id, options)),
    );
}
