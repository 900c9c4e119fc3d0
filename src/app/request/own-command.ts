/**
 * Runs a command of Perdure in a process of its own, for faces that serve many runs and projects.
 *
 * A run takes its environment from the process that starts it, and adds the files of `env_file` to it.
 * In a process of its own, the variables of one project never reach another one, and a TypeScript
 * pipeline runs no code in the server.
 *
 * Owns: the process, its input and its limits; a refusal that the command printed is thrown here.
 * Does not: know what a command does.
 */
import { spawn } from "node:child_process";
import { isObject, parseJson } from "../../util/json.ts";
import { throughOption } from "../drive/owner.ts";
import { advice, type ErrorJson, PrintedRefusal, Refusal } from "../refusal.ts";

/** How much of what a command prints is kept; the commands that are run here print less. */
const PRINTED_BYTES_MAX = 16 * 1024 * 1024;
const ERRORS_SHOWN_BYTES_MAX = 4096;

interface CommandInput {
  /** The directory in which the command works. */
  readonly cwd: string;
  /** What the command reads from stdin. */
  readonly stdin?: string | undefined;
}

/** Runs `perdure WORDS --json` and returns the document that it printed. Throws its refusal. */
export async function runOwnCommand(
  words: readonly string[],
  { cwd, stdin = "" }: CommandInput,
): Promise<Readonly<Record<string, unknown>>> {
  const { printed, errors } = await outputOf(words, cwd, stdin);
  const parsed = parseJson(printed);
  const document = parsed.ok && isObject(parsed.json) ? parsed.json : undefined;
  if (document === undefined) {
    const reason = errors.trim().slice(-ERRORS_SHOWN_BYTES_MAX);
    const message = `perdure ${words[0]} ended without a result${reason && `: ${reason}`}`;
    throw new Refusal("not-started", message, advice("look at the state of the run"));
  }
  if ("error" in document) throw new PrintedRefusal(document.error as ErrorJson);
  return document;
}

async function outputOf(
  words: readonly string[],
  cwd: string,
  stdin: string,
): Promise<{ readonly printed: string; readonly errors: string }> {
  const program = process.argv[1] ?? "perdure";
  // Detached: the end of this process does not end a command that is about to start a run.
  const [command = "", ...rest] = words;
  const args = [program, command, "--json", ...throughOption(), ...rest];
  const child = spawn(process.execPath, args, { cwd, detached: true });
  const [printed, errors] = [collected(child.stdout), collected(child.stderr)];
  child.stdin.on("error", () => undefined);
  child.stdin.end(stdin);
  await new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve());
  });
  return { printed: printed(), errors: errors() };
}

/** Collects the beginning of a stream. */
function collected(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    if (bytes < PRINTED_BYTES_MAX) chunks.push(chunk);
    bytes += chunk.length;
  });
  return () => Buffer.concat(chunks).toString("utf8");
}
