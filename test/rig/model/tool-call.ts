/** Maps what the fake model wants to do to the tools that an agent offers. */
import { randomUUID } from "node:crypto";
import type { OfferedTool } from "./ask.ts";
import type { Move } from "./reply.ts";

/** What a reply says in the end: text, or a call of a tool that the agent has. */
export type Said =
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "call";
      readonly id: string;
      readonly name: string;
      readonly input: { readonly [key: string]: unknown };
      /** The input of a tool that takes free text instead of parameters. */
      readonly freeform?: string;
    };

type Input = { readonly [key: string]: unknown };

const SHELLS = [
  "Bash",
  "exec_command",
  "shell_command",
  "shell",
  "bash",
  "run_shell_command",
  "container.exec",
];
const WRITERS = ["Write", "write", "write_file", "create_file"];
const SHELL_MS_MAX = 600_000;

/** Thrown when an agent offers nothing that can do what the script says. */
export class NoSuchTool extends Error {}

/** The words and calls of a reply for an agent that offers these tools. */
export function sayWith(tools: readonly OfferedTool[], moves: readonly Move[]): readonly Said[] {
  return moves.map((move) => sayOne(tools, move));
}

function sayOne(tools: readonly OfferedTool[], move: Move): Said {
  switch (move.type) {
    case "text":
      return move;
    case "shell":
      return shellCall(tools, move.command);
    case "write":
      return writeCall(tools, move.path, move.content);
    case "tool":
      // A model can call what is not on offer; what the agent makes of it is worth a test.
      return call(move, move.input);
  }
}

function shellCall(tools: readonly OfferedTool[], command: string): Said {
  const offered = need(tools, SHELLS);
  const input: Record<string, unknown> = {};
  for (const name of offered.parameters) {
    if (name === "command" || name === "cmd") {
      const words = offered.listParameters.includes(name);
      input[name] = words ? ["bash", "-lc", command] : command;
    }
    if (name === "description") input[name] = "what the script says";
    // Codex hands a command that is not done after 10 s back to the model.
    if (name === "yield_time_ms") input[name] = SHELL_MS_MAX;
  }
  return call(offered, input);
}

function writeCall(tools: readonly OfferedTool[], path: string, content: string): Said {
  const writer = tools.find(({ name }) => WRITERS.includes(name));
  if (writer !== undefined) {
    const parameter = writer.parameters.find((name) => /^file_?path$|^path$/i.test(name));
    return call(writer, { [parameter ?? "file_path"]: path, content });
  }
  const patcher = tools.find(({ name }) => name === "apply_patch");
  if (patcher !== undefined) return patchCall(patcher, path, content);
  const quoted = `'${content.replaceAll("'", "'\\''")}'`;
  return shellCall(tools, `printf %s ${quoted} > '${path.replaceAll("'", "'\\''")}'`);
}

function patchCall(patcher: OfferedTool, path: string, content: string): Said {
  const lines = content.replace(/\n$/, "").split("\n");
  const body = lines.map((line) => `+${line}\n`).join("");
  const patch = `*** Begin Patch\n*** Add File: ${path}\n${body}*** End Patch\n`;
  const [parameter = "input"] = patcher.parameters;
  const input = patcher.freeform ? {} : { [parameter]: patch };
  return call(patcher, input, patcher.freeform ? patch : undefined);
}

function call({ name }: { readonly name: string }, input: Input, freeform?: string): Said {
  const id = randomUUID().replaceAll("-", "").slice(0, 24);
  return { type: "call", id, name, input, ...(freeform === undefined ? {} : { freeform }) };
}

function need(tools: readonly OfferedTool[], names: readonly string[]): OfferedTool {
  const found = names.flatMap((name) => tools.filter((offered) => offered.name === name))[0];
  if (found !== undefined) return found;
  const offered = tools.map(({ name }) => name).join(", ");
  throw new NoSuchTool(`the script wants one of ${names.join(", ")}; on offer are: ${offered}`);
}
