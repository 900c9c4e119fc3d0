/** Declares the commands that start, continue and change a run, and take its result. */
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
  onceOption,
  runHelp,
  STEP_HELP,
  turnsOption,
} from "./options.ts";

const historyCommands = () => import("./commands/history.ts");
const interactCommands = () => import("./commands/interact.ts");
const resumeCommands = () => import("./commands/resume.ts");

/** Declares the commands that main.ts declares alone: run, resume, retry and stop. */
export function addRunCommands(program: Command, finish: Finish): void {
  addRunCommand(program, finish);
  addResumeCommand(program, finish);
  addRetryCommand(program, finish);
  program
    .command("stop")
    .description("stop a run; it can be resumed")
    .argument("[run]", runHelp("the only live run"))
    .option("--after-step", "let the running steps finish first")
    .option("--after-turn", "let agents finish their current turn, with its tool calls, first")
    .addHelpText("after", examples("perdure stop", "perdure stop 1a2b3c4d --after-step"))
    .action(async (id, options) =>
      finish(await (await interactCommands()).stopCommand(id, options)),
    );
}

/** Declares all other commands that continue or change a run, or take its result. */
export function addMoreRunCommands(program: Command, finish: Finish): void {
  addAnswerCommands(program, finish);
  addConversationCommands(program, finish);
  addAttachCommand(program, finish);
  addRewindCommands(program, finish);
  addResultCommands(program, finish);
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
    .option("--shell <command>", "run this command instead of a pipeline");
  addStartOptions(command);
  addGateOptions(command);
  addScreenOptions(command);
  addReadingOptions(command);
  command
    .addOption(new Option("--scheduled <id>", "the id of the run").hideHelp())
    .option(
      "--logs <dir>",
      "write the checkpoint, prompts and outcomes to this directory, as DOT engines do",
    )
    .optionsGroup("Continue an existing run:")
    .option("--resume <run>", "the same as: perdure resume RUN")
    .option("--resume-last", "the same as: perdure resume; with FILE: only its runs")
    .option("--from-step <step>", "run this step and all after it again, in the newest run")
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

/** `run`, or `resume` by an option of `run`, as other tools have it. */
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
  return (
    (await runChosen(options)) ??
    program.error("error: perdure run needs a pipeline: perdure run FILE")
  );
}

function addResumeCommand(program: Command, finish: Finish): void {
  const command = program
    .command("resume")
    .description("continue a run from where it stopped")
    .argument("[run]", runHelp("the run that was interrupted last"))
    .optionsGroup("Other ways to name the run:")
    .option("--pipeline-id <run>", "its id")
    .option("--logs <dir>", "the run that writes to this directory (run --logs)")
    .optionsGroup("What runs:")
    .option(
      "--from-step <step>",
      "run this step and all after it again; earlier steps count as done",
    )
    .option("--update", "use the edited pipeline file; shows what that changes, and asks")
    .option("-y, --yes", "agree to --update or --from-step without being asked")
    .addOption(
      choice("--recover <how>", "what to do with interrupted work", ["continue", "restart", "ask"]),
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
    .option(
      "--as-copy",
      "continue here although this project is a copy of the run's, with the files here",
    )
    .option("--take-over", "take the run over from an owner elsewhere that you know is dead");
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
      finish(await (await resumeCommands()).resumeCommand(id, options)),
    );
}

function addRetryCommand(program: Command, finish: Finish): void {
  const command = program
    .command("retry")
    .description("run a step again, and every step after it")
    .usage("[options] [run] <step...>")
    .argument("[run]", runHelp())
    .argument("[step...]", `${STEP_HELP}; or items of a fan-out ('map[3]' 'map[7]')`)
    .optionsGroup("What runs:")
    .option("--failed", "only the failed items of a completed fan-out, which is the default")
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
      finish(await (await resumeCommands()).retryCommand([id, ...(steps ?? [])], options)),
    );
}

function addAnswerCommands(program: Command, finish: Finish): void {
  program
    .command("answer")
    .description("answer a question of a run, or list its questions")
    .argument("[run]", runHelp("the newest run with an open question"))
    .argument("[gate]", "the step that asks")
    .argument("[choice]", "the key or the label of a choice; without it, the questions are listed")
    .option("-t, --text <words>", "a note in your own words, kept with the answer")
    .addHelpText(
      "after",
      examples(
        "perdure answer",
        "perdure answer approve approve",
        'perdure answer 1a2b3c4d approve reject --text "the tests are missing"',
      ),
    )
    .action(async (id, gate, picked, options) =>
      finish(await (await interactCommands()).answerCommand([id, gate, picked], options)),
    );
  program
    .command("skip")
    .description("skip a step that failed, waits or has not started")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addHelpText("after", examples("perdure skip approve", "perdure skip 1a2b3c4d approve"))
    .action(async (id, step, options) =>
      finish(await (await interactCommands()).skipCommand([id, step], options)),
    );
  program
    .command("settle")
    .description("say whether an interrupted `once` step took effect")
    .usage("[options] [run] <step> <verdict>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .argument(
      "[verdict]",
      "done: it happened; redo: it did not happen, run it again; abort: give the step up",
    )
    .option("--identity <text>", "what identifies the effect, such as a URL or a version")
    .addHelpText(
      "after",
      examples(
        "perdure settle publish redo",
        "perdure settle 1a2b3c4d publish done --identity v1.2.0",
      ),
    )
    .action(async (id, step, verdict, options) =>
      finish(await (await interactCommands()).settleCommand([id, step, verdict], options)),
    );
}

function addConversationCommands(program: Command, finish: Finish): void {
  program
    .command("say")
    .description("send a message to the agent of a step; it arrives with its next turn")
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
      finish(await (await interactCommands()).sayCommand(given, options));
    });
  program
    .command("open")
    .description("open the conversation of a step in the agent's own program")
    .usage("[options] [run] <step>")
    .argument("[run]", runHelp())
    .argument("[step]", STEP_HELP)
    .addHelpText("after", examples("perdure open fix", "perdure open 1a2b3c4d fix"))
    .action(async (id, step) => finish(await (await interactCommands()).openCommand([id, step])));
}

function addAttachCommand(program: Command, finish: Finish): void {
  const command = program
    .command("attach")
    .description("watch a run that another process drives; Ctrl-C leaves it running")
    .argument("[run]", runHelp("the newest active run, or else the newest run"));
  addScreenOptions(command);
  command
    .optionsGroup("Options:")
    .addHelpText("after", examples("perdure attach", "perdure attach 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await interactCommands()).attachCommand(id, options)),
    );
}

const REWIND_HELP = `
Which command is for what:
  retry STEP       run a step again, and every step after it, at once
  rewind STEP      go back to before a step and start nothing; then: perdure resume
  rewind SNAPSHOT  only restore files; the results of the steps stay
  fork --at STEP   try something else in a new run; this one stays as it is`;

function addRewindCommands(program: Command, finish: Finish): void {
  program
    .command("rewind")
    .description("go back to before a step, with or without the files, and start nothing")
    .usage("[options] [run] <point>")
    .argument("[run]", runHelp())
    .argument("[point]", "a step, one visit of it (fix@2), or a snapshot (only its files)")
    .addOption(filesOption())
    .option("--into <dir>", "only write the files of that point to this empty directory")
    .addOption(onceOption())
    .addOption(dryRunOption())
    .addHelpText("after", REWIND_HELP)
    .addHelpText(
      "after",
      examples(
        "perdure rewind test",
        "perdure rewind 1a2b3c4d test --files keep",
        "perdure rewind 1a2b3c4d test --dry-run",
      ),
    )
    .action(async (id, point, options) =>
      finish(await (await historyCommands()).rewindCommand([id, point], options)),
    );
  const fork = program
    .command("fork")
    .description("start a new run from a checkpoint of a run")
    .argument("[run]", runHelp())
    .option(
      "--at <step>",
      "from before this step or visit (fix@2); default: after the last completed step",
    );
  addInputOptions(fork);
  fork
    .option("--start", "start the new run at once")
    .addOption(filesOption())
    .addOption(dryRunOption())
    .option("-q, --quiet", "print nothing")
    .addHelpText("after", REWIND_HELP)
    .addHelpText(
      "after",
      examples("perdure fork --at test", "perdure fork 1a2b3c4d -i version=1.3.0 --start"),
    )
    .action(async (id, options) =>
      finish(await (await historyCommands()).forkCommand(id, options)),
    );
}

function addResultCommands(program: Command, finish: Finish): void {
  program
    .command("merge")
    .description("merge the branch of a run into the branch that is checked out")
    .argument("[run]", runHelp())
    .option("--ff-only", "only if the checked out branch can be fast-forwarded")
    .option("--squash", "merge as one commit")
    .addHelpText("after", examples("perdure merge", "perdure merge 1a2b3c4d --squash"))
    .action(async (id, options) =>
      finish(await (await historyCommands()).mergeCommand(id, options)),
    );
  program
    .command("apply")
    .description("apply the changes of a run to the project's own files, without a commit")
    .argument("[run]", runHelp())
    .addHelpText("after", examples("perdure apply", "perdure apply 1a2b3c4d"))
    .action(async (id, options) =>
      finish(await (await historyCommands()).applyCommand(id, options)),
    );
  program
    .command("pr")
    .description("push the branch of a run and open a pull request (with gh or glab)")
    .argument("[run]", runHelp())
    .option("--base <branch>", "the branch to merge into; default: the one that is checked out")
    .option("--title <text>", "its title; default: the name of the pipeline")
    .option("--body <text>", "its description")
    .option("--draft", "open it as a draft")
    .addHelpText(
      "after",
      examples("perdure pr --draft", 'perdure pr 1a2b3c4d --base main --title "Update packages"'),
    )
    .action(async (id, options) =>
      finish(await (await historyCommands()).pullRequestCommand(id, options)),
    );
}
