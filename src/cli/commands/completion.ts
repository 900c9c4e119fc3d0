/** `perdure completion SHELL`: a completion script, made from the program's own commands. */
import type { Command } from "commander";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print } from "../print.ts";

/** Prints the script for bash, zsh or fish. */
export async function completionCommand(program: Command, shell: string): Promise<ExitCode> {
  const words = program.commands
    .filter((command) => command.name() !== "completion")
    .map((command) => ({
      name: command.name(),
      description: command.description().split("\n")[0] ?? "",
      options: command.options.flatMap(({ long }) => (long === undefined ? [] : [long])),
    }));
  switch (shell) {
    case "bash":
      print(bash(words));
      return EXIT.done;
    case "zsh":
      print(`autoload -U +X bashcompinit && bashcompinit\n${bash(words)}`);
      return EXIT.done;
    case "fish":
      print(fish(words));
      return EXIT.done;
    default:
      throw new CliError(
        EXIT.usage,
        `there is a completion for bash, zsh and fish, not for ${shell}`,
      );
  }
}

interface Words {
  readonly name: string;
  readonly description: string;
  readonly options: readonly string[];
}

function bash(words: readonly Words[]): string {
  const cases = words.map(
    ({ name, options }) =>
      `    ${name}) COMPREPLY=($(compgen -W "${options.join(" ")}" -f -- "$cur"));;`,
  );
  return [
    '# eval "$(perdure completion bash)"',
    "_perdure() {",
    '  local cur="${COMP_WORDS[COMP_CWORD]}"',
    '  if [ "$COMP_CWORD" -eq 1 ]; then',
    `    COMPREPLY=($(compgen -W "${words.map(({ name }) => name).join(" ")}" -- "$cur")); return`,
    "  fi",
    '  case "${COMP_WORDS[1]}" in',
    ...cases,
    "  esac",
    "}",
    "complete -o default -F _perdure perdure",
  ].join("\n");
}

function fish(words: readonly Words[]): string {
  const lines = ["# perdure completion fish | source"];
  for (const { name, description, options } of words) {
    const text = description.replaceAll("'", "");
    lines.push(`complete -c perdure -n __fish_use_subcommand -a ${name} -d '${text}'`);
    for (const option of options) {
      lines.push(
        `complete -c perdure -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`,
      );
    }
  }
  return lines.join("\n");
}
