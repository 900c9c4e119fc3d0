/**
 * Pipelines for which the user has no file: one prompt or one command from the command line, a pipeline
 * from standard input, or one that a program submits as text. Their runs are like all others: durable,
 * listed and resumable.
 *
 * Owns: the pipeline that such a command line stands for, and the files of submitted pipelines. A run
 * keeps its plan, so such a file matters only for an update.
 * Does not: read a plan (pipeline-file.ts).
 */
import { existsSync, readFileSync } from "node:fs";
import { defined } from "../../util/defined.ts";
import { sha256 } from "../../util/json.ts";
import { userStatePath, writeUserState } from "../project/user-state.ts";
import { command, Refusal } from "../refusal.ts";
import { isDotFile } from "./pipeline-file.ts";
import { knownPipeline } from "./pipeline-name.ts";

/** The options of `run` that describe a single step. */
interface OneOffOptions {
  readonly agent?: string;
  readonly shell?: string;
  readonly model?: string;
  readonly permissions?: string;
  readonly input?: readonly string[];
}

/** The text of a pipeline without a file, and the command line that stands for it. */
interface OneOff {
  readonly text: string;
  readonly typed: readonly string[];
}

/** The pipeline that a command line stands for; undefined when it names a file. */
export function oneOffOf(named: string | undefined, options: OneOffOptions): OneOff | undefined {
  const { agent, shell, model, permissions } = options;
  const prompts = agent !== undefined && !isFile(named);
  if (!prompts && shell === undefined) {
    return named === "-" ? { text: standardInput(options), typed: ["run", "-"] } : undefined;
  }
  if (shell !== undefined) return shellRun(named, shell, options);
  if (named === undefined) {
    const message = "--agent needs a prompt";
    throw new Refusal("bad-option", message, command("run", "--agent", agent ?? "claude", "..."));
  }
  const prompt = named === "-" ? standardInput(options) : named;
  const settings = defined({ model, permissions });
  const words = Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value]);
  return {
    text: pipelineText({ id: "agent", agent, prompt, ...settings }),
    typed: ["run", "--agent", agent ?? "", ...words, named],
  };
}

function shellRun(named: string | undefined, shell: string, options: OneOffOptions): OneOff {
  for (const [word, given] of Object.entries({
    [named ?? "FILE"]: named,
    "--agent": options.agent,
    "--model": options.model,
  })) {
    if (given === undefined) continue;
    const message = `--shell runs one command; ${word} cannot be combined with it`;
    throw new Refusal("bad-option", message, command("run", "--shell", shell));
  }
  return { text: pipelineText({ id: "shell", run: shell }), typed: ["run", "--shell", shell] };
}

/** `--agent` with a pipeline file is an option of that pipeline. */
function isFile(named: string | undefined): boolean {
  if (named === undefined || named === "-") return false;
  return isDotFile(named) || FILE_NAME.test(named) || existsSync(knownPipeline(named) ?? "");
}

/** The names of files, as opposed to a prompt that ends with a full stop. */
const FILE_NAME = /^\S+\.(ya?ml|[cm]?[jt]s)$/i;

/** JSON is YAML, so its mistakes have a position as well. */
function pipelineText(step: object): string {
  return `${JSON.stringify({ name: "ad-hoc", steps: [step] })}\n`;
}

function standardInput({ input = [] }: OneOffOptions): string {
  if (input.includes("-")) {
    const message = "standard input cannot be both the pipeline and its input";
    throw new Refusal("bad-option", message, command("run", "-", "--input", "@input.json"));
  }
  return readFileSync(0, "utf8");
}

const FOLDER = "submitted";
const NAME_LENGTH = 16;

/** The file of a pipeline in DOT; the same text has the same file. */
export function submittedFile(source: string): string {
  const place = [FOLDER, `${sha256(source).slice(0, NAME_LENGTH)}.dot`];
  writeUserState(place, source);
  return userStatePath(...place);
}
