/**
 * `perdure completion SHELL` prints a script for a shell. The script calls `perdure complete` with
 * the words of the command line, which prints what can come next: commands, options and their
 * values, runs, steps of the run, open gates and their choices.
 *
 * Owns: the scripts, and what can come next.
 */
import type { Argument, Command, Option } from "commander";
import { type LoadedRun, loadRun } from "../../app/loaded-run.ts";
import { offeredPipelines } from "../../app/pipeline/pipeline-name.ts";
import { meantRun, shortPath, stepPaths } from "../../app/project/names.ts";
import { openProject, type Project, runsNamed, shortIdOf } from "../../app/project/project.ts";

import { Refusal } from "../../app/refusal.ts";
import { openQuestions } from "../../app/request/answer.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { gateName } from "../../view/question-text.ts";
import { printRaw } from "../print.ts";

/** A word that can come next, and what it means. */
interface Candidate {
  readonly word: string;
  readonly about?: string;
}

/** Tells the shell to offer files, where no other word fits. */
const FILES: readonly Candidate[] = [{ word: ":files" }];

/** Prints the script for bash, zsh or fish. */
export async function completionCommand(shell: string): Promise<ExitCode> {
  const script = SCRIPTS[shell];
  if (script !== undefined) {
    printRaw(script);
    return EXIT.done;
  }
  const names = Object.keys(SCRIPTS).join(", ");
  throw new Refusal("bad-option", `there are completion scripts for ${names}, not for ${shell}`);
}

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# eval "$(perdure completion bash)"
_perdure() {
  local line words=() IFS=$'\\n'
  for line in $(perdure complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    words+=("\${line%%$'\\t'*}")
  done
  if [ "\${words[0]}" = ":files" ]; then compopt -o default; COMPREPLY=(); return; fi
  COMPREPLY=($(compgen -W "\${words[*]}" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _perdure perdure`,
  zsh: `# eval "$(perdure completion zsh)"
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
_perdure() {
  local -a lines described
  lines=(\${(f)"$(perdure complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if [[ "\${lines[1]}" == ":files" ]]; then _files; return; fi
  described=(\${\${lines//:/\\\\:}//$'\\t'/:})
  _describe perdure described
}
compdef _perdure perdure`,
  fish: `# perdure completion fish | source
function __perdure_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (perdure complete -- $words[2..] 2>/dev/null)
    if test "$lines[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $lines
    end
end
complete -c perdure -f -a '(__perdure_complete)'`,
};

/** Prints what can come next, one word a line, with a tab and its meaning after it. */
export async function completeCommand(
  program: Command,
  words: readonly string[],
): Promise<ExitCode> {
  for (const { word, about } of await candidatesFor(program, words).catch(() => [])) {
    printRaw(about === undefined ? word : `${word}\t${about}`);
  }
  return EXIT.done;
}

async function candidatesFor(
  program: Command,
  words: readonly string[],
): Promise<readonly Candidate[]> {
  const last = words.at(-1) ?? "";
  const { command, operands, pending } = parsed(program, words.slice(0, -1));
  const found =
    pending !== undefined
      ? await valuesOf(pending, operands)
      : last.startsWith("-")
        ? optionsOf(meantCommand(command))
        : [...subcommandsOf(command), ...(await operandsOf(command, operands))];
  const [files] = FILES;
  const fitting = found.filter((one) => one !== files && one.word.startsWith(last));
  return fitting.length === 0 && files !== undefined && found.includes(files) ? FILES : fitting;
}

interface ParsedWords {
  readonly command: Command;
  /** The words that are neither commands nor options nor their values. */
  readonly operands: readonly string[];
  /** The option that waits for its value. */
  readonly pending: Option | undefined;
}

function parsed(program: Command, words: readonly string[]): ParsedWords {
  let command = program;
  let pending: Option | undefined;
  const operands: string[] = [];
  for (const word of words) {
    if (pending !== undefined) {
      pending = undefined;
    } else if (word.startsWith("-")) {
      const { options } = meantCommand(command);
      const option = options.find(({ short, long }) => word === short || word === long);
      pending = option?.required === true ? option : undefined;
    } else {
      const inner = command.commands.find((one) => one.name() === word);
      if (inner === undefined) operands.push(word);
      else command = inner;
    }
  }
  return { command, operands, pending };
}

/** The command itself, or the one that it stands for: `list` is `list runs`. */
function meantCommand(command: Command): Command {
  return command.parent !== null && command.commands[0] ? command.commands[0] : command;
}

function subcommandsOf(command: Command): readonly Candidate[] {
  const visible = command.createHelp().visibleCommands(command);
  return visible.map((one) => ({ word: one.name(), about: one.description() }));
}

function optionsOf(command: Command): readonly Candidate[] {
  const visible = command.createHelp().visibleOptions(command);
  return visible.flatMap(({ long, description }) =>
    long === undefined ? [] : [{ word: long, about: description }],
  );
}

/** Options whose value names something of a run or of a project. */
const OPTION_VALUES: Readonly<Record<string, Source>> = {
  at: "step",
  fromStep: "step",
  pipelineId: "run",
  resume: "run",
  run: "run",
};

/** What an argument or the value of an option names. */
type Source = "run" | "step" | "gate" | "choice" | "verdict" | "file" | "none";

const ARGUMENTS: Readonly<Record<string, Source>> = {
  a: "step",
  b: "step",
  choice: "choice",
  gate: "gate",
  point: "step",
  run: "run",
  runs: "run",
  step: "step",
  verdict: "verdict",
};

async function valuesOf(
  option: Option,
  operands: readonly string[],
): Promise<readonly Candidate[]> {
  if (option.argChoices !== undefined) return option.argChoices.map((word) => ({ word }));
  const source = OPTION_VALUES[option.attributeName()];
  if (source !== undefined) return candidates(source, operands);
  return /<(file|dir)>/.test(option.flags) ? FILES : [];
}

/** The commands that take a pipeline. */
const PIPELINE_COMMANDS: ReadonlySet<string> = new Set([
  ...["run", "validate", "graph", "doctor", "prices"],
]);

/** The arguments that can come next; the run of a command may be left out. */
async function operandsOf(
  command: Command,
  operands: readonly string[],
): Promise<readonly Candidate[]> {
  const all = command.registeredArguments;
  const takesRun = all[0]?.name() === "run" && all.length > 1;
  const named = takesRun && (await isRun(operands[0]));
  const position = takesRun && !named ? operands.length + 1 : operands.length;
  const next = all[Math.min(position, all.length - 1)];
  if (next === undefined || (position >= all.length && !next.variadic)) return [];
  const runs = takesRun && operands.length === 0 ? await candidates("run", []) : [];
  if (PIPELINE_COMMANDS.has(command.name())) return pipelineWords();
  return [...(await argumentValues(next, named ? operands : [undefined, ...operands])), ...runs];
}

async function argumentValues(
  argument: Argument,
  operands: readonly (string | undefined)[],
): Promise<readonly Candidate[]> {
  if (argument.argChoices !== undefined) return argument.argChoices.map((word) => ({ word }));
  const source = ARGUMENTS[argument.name()];
  if (source !== undefined) return candidates(source, operands);
  return /file/.test(argument.name()) ? FILES : [];
}

/** The pipelines that a command can take, and then any file. */
function pipelineWords(): readonly Candidate[] {
  const words = offeredPipelines().map(({ name, about }) => ({
    word: name,
    ...(about === undefined ? {} : { about }),
  }));
  return [...words, ...FILES];
}

async function isRun(word: string | undefined): Promise<boolean> {
  if (word === undefined) return false;
  const { journal } = await openProject(process.cwd(), "read-only");
  return (await runsNamed(journal, word)).length > 0;
}

async function candidates(
  source: Source,
  operands: readonly (string | undefined)[],
): Promise<readonly Candidate[]> {
  if (source === "verdict") return VERDICTS;
  const project = await openProject(process.cwd(), "read-only");
  if (source === "run") return runs(project);
  const prefers = source === "step" ? {} : ({ prefers: "asking" } as const);
  const { runId } = await meantRun(project, operands.slice(0, 1), prefers);
  const known = await loadRun(project, runId);
  if (source === "step") return [...new Set(stepPaths(known).map(shortPath))].map(asCandidate);
  return source === "gate" ? gates(known) : choices(known, operands[1] ?? "");
}

const asCandidate = (word: string): Candidate => ({ word });

const VERDICTS: readonly Candidate[] = [
  { word: "done", about: "it happened" },
  { word: "redo", about: "it did not happen; run it again" },
  { word: "abort", about: "abandon it" },
];

/** How many runs are offered. */
const RUNS_OFFERED_MAX = 30;

async function runs({ journal }: Project): Promise<readonly Candidate[]> {
  const newest = await journal.log.list({ limit: RUNS_OFFERED_MAX });
  return Promise.all(
    newest.map(async ({ runId, pipeline, status }) => ({
      word: await shortIdOf(journal, runId),
      about: `${pipeline}, ${status}`,
    })),
  );
}

function gates(known: LoadedRun): readonly Candidate[] {
  return openQuestions(known).map(({ visit: { state }, visit }) => ({
    word: gateName(visit),
    ...(waitsFor(state, "person") ? { about: state.question.split("\n")[0] ?? "" } : {}),
  }));
}

function choices(known: LoadedRun, gate: string): readonly Candidate[] {
  return openQuestions(known).flatMap(({ visit }) => {
    const { state } = visit;
    if (gateName(visit) !== gate || !waitsFor(state, "person")) return [];
    return state.choices.map(({ key, label }) =>
      /\s/.test(label) ? { word: key, about: label } : { word: label },
    );
  });
}
