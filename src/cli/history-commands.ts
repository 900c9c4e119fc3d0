/** Declares the commands that rewind, fork, compare, restore, and take a result. */
import type { Command } from "commander";
import type { Finish } from "./maintenance-commands.ts";

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

/** The help of `--files`. */
export const FILES_HELP =
  "keep the files, or restore them; default: restore, but keep in the project itself";

/** The help of `--yes` for commands that run a step again. */
export const REPEAT_HELP = "agree to repeat a step that must not happen twice (`once`)";

/** Declares rewind, invalidate and fork. */
export function addRewindCommands(program: Command, finish: Finish): void {
  program
    .command("rewind")
    .description("return to the beginning of a step, files included, without starting anything")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step, or a visit of it: fix@2")
    .option("--files <how>", FILES_HELP)
    .option("-y, --yes", REPEAT_HELP)
    .option("--dry-run", "show what would run again and what is kept; change nothing")
    .action(async (id, step, options) =>
      finish(await (await import("./commands/history.ts")).rewindCommand(id, step, options)),
    );
  program
    .command("invalidate")
    .description("discard the results of a step and of every step after it; files stay as they are")
    .argument("<run>", "id or prefix")
    .argument("<step>", "the step")
    .option("-y, --yes", REPEAT_HELP)
    .option("--dry-run", "show what would run again and what is kept; change nothing")
    .action(async (id, step, options) =>
      finish(await (await import("./commands/history.ts")).invalidateCommand(id, step, options)),
    );
  program
    .command("fork")
    .description("start a new run from a checkpoint of this one")
    .argument("<run>", "id or prefix")
    .option("--at <step>", "right before this step or visit (fix@2); default: after the last done")
    .option("-i, --input <value>", "another input: key=value, JSON, @file.json or text", collect)
    .option("--json <key=json>", "a value as JSON, such as tags=[1, 2]; may be repeated", collect)
    .option("--run", "start it at once")
    .option("--files <how>", FILES_HELP)
    .option("--dry-run", "show what it would start with; change nothing")
    .option("-o, --output <format>", "text or json")
    .option("-q, --quiet", "print nothing")
    .action(async (id, options) =>
      finish(await (await import("./commands/history.ts")).forkCommand(id, options)),
    );
}

/** Declares diff, restore and timeline. */
export function addCheckpointCommands(program: Command, finish: Finish): void {
  program
    .command("diff")
    .description("what a step did to files and context, or what changed between two checkpoints")
    .argument("<run>", "id or prefix")
    .argument("<a>", "a step, a visit (fix@2), an attempt (fix@2.1), base, now, or a snapshot")
    .argument("[b]", "the other end; without it: what A itself changed")
    .option("--stat", "files and counts of lines (the default)")
    .option("--patch", "the differences line by line")
    .option("-o, --output <format>", "text or json")
    .action(async (id, a, b, options) =>
      finish(await (await import("./commands/inspect.ts")).diffCommand(id, a, b, options)),
    );
  program
    .command("restore")
    .description("restore the files of a checkpoint; what is there is set aside")
    .argument("<run>", "id or prefix")
    .argument("<point>", "a step, a visit (fix@2), an attempt (fix@2.1) or a snapshot")
    .option("--into <dir>", "write them to this empty directory instead")
    .option("--yes", "agree to overwrite my own files")
    .action(async (id, point, options) =>
      finish(await (await import("./commands/history.ts")).restoreCommand(id, point, options)),
    );
  program
    .command("timeline")
    .description("the checkpoints of a run in order, with what changed from one to the next")
    .argument("<run>", "id or prefix")
    .option("-o, --output <format>", "text or json")
    .action(async (id, options) =>
      finish(await (await import("./commands/inspect.ts")).timelineCommand(id, options)),
    );
}

/** Taking the result of a worktree run. */
export function addResultCommands(program: Command, finish: Finish): void {
  program
    .command("merge")
    .description("merge the branch of a run into the branch that is checked out")
    .argument("[run]", "id or prefix; default: the newest run")
    .option("--ff-only", "only if the branch can simply move forward")
    .option("--squash", "as one commit")
    .action(async (id, options) =>
      finish(await (await import("./commands/take.ts")).mergeCommand(id, options)),
    );
  program
    .command("apply")
    .description("apply the changes of a run to the project's own files, without a commit")
    .argument("[run]", "id or prefix; default: the newest run")
    .action(async (id) => finish(await (await import("./commands/take.ts")).applyCommand(id)));
  program
    .command("pr")
    .description("push the branch of a run and open a pull request (with gh or glab)")
    .argument("[run]", "id or prefix; default: the newest run")
    .option("--base <branch>", "the branch to merge into; default: the one that is checked out")
    .option("--title <text>", "default: the name of the pipeline")
    .option("--body <text>", "the description")
    .option("--draft", "open it as a draft")
    .action(async (id, options) =>
      finish(await (await import("./commands/take.ts")).pullRequestCommand(id, options)),
    );
}
