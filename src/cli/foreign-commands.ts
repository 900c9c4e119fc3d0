/**
 * Commands that other systems have, and those that Perdure had: which of ours to type instead.
 *
 * Owns: the refusal of an unknown command.
 */
import { command, type Next, Refusal } from "../app/refusal.ts";
import { nearest } from "../util/nearest.ts";

const noted = (note: string, ...words: readonly string[]): Next => ({ ...command(...words), note });

const RUN = noted("starts a pipeline", "run", "FILE");
const LIST = noted("all runs and their states", "list");
const SHOW = noted("one run with all its steps", "show");
const STOP = noted("it can be resumed", "stop");
const VALIDATE = noted("finds every mistake in a file", "validate", "FILE");
const REWIND = noted("returns to before a step", "rewind", "RUN", "STEP");

/** The commands of others, by what a person types. */
const FOREIGN: Readonly<Record<string, readonly Next[]>> = {
  abort: [STOP],
  approve: [noted("answers the open question", "answer", "GATE", "approve")],
  cancel: [STOP],
  check: [VALIDATE],
  checkpoints: [noted("the checkpoints of a run", "timeline")],
  continue: [noted("continues where the run stopped", "resume")],
  cook: [RUN],
  describe: [SHOW],
  exec: [RUN],
  history: [noted("the checkpoints of a run", "timeline")],
  inspect: [SHOW],
  invalidate: [noted("files stay as they are", "rewind", "RUN", "STEP", "--files", "keep")],
  kill: [STOP],
  lint: [VALIDATE],
  log: [noted("what the steps printed", "logs")],
  ls: [LIST],
  ps: [LIST],
  reject: [noted("answers the open question", "answer", "GATE", "reject")],
  rerun: [noted("runs a step again", "retry", "RUN", "STEP")],
  reset: [REWIND],
  restart: [noted("runs a step again", "retry", "RUN", "STEP"), RUN],
  restore: [
    noted("only files: those of a snapshot", "rewind", "RUN", "SNAPSHOT"),
    noted("files and steps: to before a step", "rewind", "RUN", "STEP", "--files", "restore"),
  ],
  rollback: [REWIND],
  runs: [LIST],
  start: [RUN],
  status: [LIST, SHOW],
  tail: [noted("keeps printing", "logs", "--follow")],
  undo: [REWIND],
  version: [command("--version")],
  watch: [noted("Ctrl-C leaves the run running", "attach")],
};

/** The refusal of a word that is no command, with the command that is probably meant. */
export function unknownCommand(word: string, commands: readonly string[]): Refusal {
  const known = Object.hasOwn(FOREIGN, word) ? FOREIGN[word] : undefined;
  const near = known === undefined ? nearest(word, commands) : undefined;
  const next = known ?? (near === undefined ? command("--help") : command(near, "--help"));
  return new Refusal("bad-option", `there is no command ${word}`, next);
}
