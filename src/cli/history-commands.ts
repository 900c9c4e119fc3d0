/** Declares the commands that rewind, fork, compare, and take a result. */
import type { Command } from "commander";
import {
  addInputOptions,
  dryRunOption,
  examples,
  type Finish,
  filesOption,
  jsonOption,
  onceOption,
  runHelp,
} from "./options.ts";

const WAYS_BACK = `
Which command is for what:
  retry STEP       run a step again, and every step after it, at once
  rewind STEP      return to before a step and start nothing; then: perdure resume
  rewind SNAPSHOT  only restore files; the results of the steps stay
  fork --at STEP   try something else in a new run; this one stays as it is`;

/** Declares rewind and fork. */
export function addRewindCommands(program: Command, finish: Finish): void {
  program
    .command("rewind")
    .description("return to before a step, with or without the files, and start nothing")
    .usage("[options] [run] <point>")
    .argument("[run]", runHelp())
    .argument("[point]", "a step, a visit of it (fix@2), or a snapshot (only its files)")
    .addOption(filesOption())
    .option("--into <dir>", "only write the files of that point to this empty directory")
    .addOption(onceOption())
    .addOption(dryRunOption())
    .addHelpText("after", WAYS_BACK)
    .addHelpText(
      "after",
      examples(
        "perdure rewind test",
        "perdure rewind 1a2b3c4d test --files keep",
        "perdure rewind 1a2b3c4d test --dry-run",
      ),
    )
    .action(async (id, point, options) =>
      finish(await (await import("./commands/history.ts")).rewindCommand([id, point], options)),
    );
  const fork = program
    .command("fork")
    .description("start a new run from a checkpoint of this one")
    .argument("[run]", runHelp())
    .option("--at <step>", "right before this step or visit (fix@2); default: after the last done");
  addInputOptions(fork);
  fork
    .option("--start", "start it at once")
    .addOption(filesOption())
    .addOption(dryRunOption())
    .addOption(jsonOption())
    .option("-q, --quiet", "print nothing")
    .addHelpText("after", WAYS_BACK)
    .addHelpText(
      "after",
      examples("perdure fork --at test", "perdure fork 1a2b3c4d -i version=1.3.0 --start"),
    )
    .action(async (id, options) =>
      finish(await (await import("./commands/history.ts")).forkCommand(id, options)),
    );
}

/** Declares diff and timeline. */
export function addCheckpointCommands(program: Command, finish: Finish): void {
  program
    .command("diff")
    .description("what a step did to files and context, or what changed between two checkpoints")
    .usage("[options] [run] <a> [b]")
    .argument("[run]", runHelp())
    .argument("[a]", "a step, a visit (fix@2), an attempt (fix@2.1), base, now, or a snapshot")
    .argument("[b]", "the other end; without it: what A itself changed")
    .option("--stat", "files and counts of lines (the default)")
    .option("--patch", "the differences line by line")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples(
        "perdure diff build",
        "perdure diff build now --patch",
        "perdure diff 1a2b3c4d base test@1.1",
      ),
    )
    .action(async (id, a, b, options) =>
      finish(await (await import("./commands/inspect.ts")).diffCommand([id, a, b], options)),
    );
  program
    .command("timeline")
    .description("the checkpoints of a run in order, with what changed from one to the next")
    .argument("[run]", runHelp())
    .addOption(jsonOption())
    .addHelpText("after", examples("perdure timeline", "perdure timeline 1a2b3c4d --json"))
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).timelineCommand(id, options)),
    );
}

/** Declares the commands that take the result of a worktree run. */
export function addResultCommands(program: Command, finish: Finish): void {
  program
    .command("merge")
    .description("merge the branch of a run into the branch that is checked out")
    .argument("[run]", runHelp())
    .option("--ff-only", "only if the branch can simply move forward")
    .option("--squash", "as one commit")
    .addHelpText("after", examples("perdure merge", "perdure merge 1a2b3c4d --squash"))
    .action(async (id, options) =>
      finish(await (await import("./commands/history.ts")).mergeCommand(id, options)),
    );
  program
    .command("apply")
    .description("apply the changes of a run to the project's own files, without a commit")
    .argument("[run]", runHelp())
    .addHelpText("after", examples("perdure apply", "perdure apply 1a2b3c4d"))
    .action(async (id, options) =>
      finish(await (await import("./commands/history.ts")).applyCommand(id, options)),
    );
  program
    .command("pr")
    .description("push the branch of a run and open a pull request (with gh or glab)")
    .argument("[run]", runHelp())
    .option("--base <branch>", "the branch to merge into; default: the one that is checked out")
    .option("--title <text>", "default: the name of the pipeline")
    .option("--body <text>", "the description")
    .option("--draft", "open it as a draft")
    .addHelpText(
      "after",
      examples("perdure pr --draft", 'perdure pr 1a2b3c4d --base main --title "Update packages"'),
    )
    .action(async (id, options) =>
      finish(await (await import("./commands/history.ts")).pullRequestCommand(id, options)),
    );
}
