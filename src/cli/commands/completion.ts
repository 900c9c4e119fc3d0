/** `perdure completion SHELL`: a completion script, made from the program's own commands. */
import type { Command } from "commander";
import { Refusal } from "../../app/refusal.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

/** Prints the script for bash, zsh or fish. */
export async function completionCommand(program: Command, shell: string): Promise<ExitCode> {
  const words = program
    .createHelp()
    .visibleCommands(program)
    .filter((command) => !["completion", "help"].includes(command.name()))
    .map((command) => ({
      name: command.name(),
      description: command.description().split("\n")[0] ?? "",
      options: command.options.flatMap(({ long }) => (long === undefined ? [] : [long])),
      takesRun: command.registeredArguments[0]?.name().startsWith("run") === true,
      takesFile: command.registeredArguments[0]?.name().includes("file") === true,
    }));
  switch (shell) {
    case "bash":
      print(bash(words));
      return EXIT.done;
    case "zsh":
      print(ZSH_PRELUDE + bash(words).replace("completion bash", "completion zsh"));
      return EXIT.done;
    case "fish":
      print(fish(words));
      return EXIT.done;
    default:
      throw new Refusal(
        "bad-option",
        `there is a completion for bash, zsh and fish, not for ${shell}`,
      );
  }
}

interface Words {
  readonly name: string;
  readonly description: string;
  readonly options: readonly string[];
  /** Whether its first argument is a run. */
  readonly takesRun: boolean;
  /** Whether it may be a file. */
  readonly takesFile: boolean;
}

/** Shell text that prints the ids of the runs here, one a line. */
const FISH_RUN_IDS = "perdure list runs 2>/dev/null | sed -n '2,\\$s/ .*//p'";
const RUN_IDS = "perdure list runs 2>/dev/null | sed -n '2,$s/ .*//p'";

/** zsh can use completions of bash. */
const ZSH_PRELUDE = `autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
`;

function bash(words: readonly Words[]): string {
  const cases = words.map(
    ({ name, options, takesRun }) =>
      `    ${name}) words="${options.join(" ")}${takesRun ? ` $(${RUN_IDS})` : ""}";;`,
  );
  return [
    '# eval "$(perdure completion bash)"',
    "_perdure() {",
    '  local cur="${COMP_WORDS[COMP_CWORD]}" words=""',
    '  if [ "$COMP_CWORD" -eq 1 ]; then',
    `    COMPREPLY=($(compgen -W "${words.map(({ name }) => name).join(" ")}" -- "$cur")); return`,
    "  fi",
    '  case "${COMP_WORDS[1]}" in',
    ...cases,
    "  esac",
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "}",
    "complete -o default -F _perdure perdure",
  ].join("\n");
}

function fish(words: readonly Words[]): string {
  const lines = ["# perdure completion fish | source"];
  for (const { name, description, options, takesRun, takesFile } of words) {
    const text = description.replaceAll("'", "");
    lines.push(`complete -c perdure -n __fish_use_subcommand -a ${name} -d '${text}'`);
    const seen = `__fish_seen_subcommand_from ${name}`;
    const only = takesFile ? "" : " -f";
    if (takesRun) lines.push(`complete -c perdure${only} -n '${seen}' -a "(${FISH_RUN_IDS})"`);
    for (const option of options) {
      lines.push(`complete -c perdure -n '${seen}' -l ${option.slice(2)}`);
    }
  }
  return lines.join("\n");
}
