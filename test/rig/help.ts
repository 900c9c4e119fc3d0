/** The help of every command, as the program declares it; text.test.ts asks the program for some. */
import { buildProgram } from "../../src/cli/main.ts";

/** The helps by the words that ask for them: "run", "list runs". */
export function helps(): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const add = (command: ReturnType<typeof buildProgram>, before: readonly string[]): void => {
    for (const one of command.commands) {
      const words = [...before, one.name()];
      const parts: string[] = [];
      one.configureOutput({ writeOut: (part) => parts.push(part) });
      one.outputHelp();
      found.set(words.join(" "), parts.join(""));
      add(one, words);
    }
  };
  add(
    buildProgram("", () => undefined),
    [],
  );
  return found;
}
