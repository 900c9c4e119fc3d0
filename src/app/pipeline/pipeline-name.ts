/**
 * Which pipeline is meant: `perdure run release` finds `release.yaml` here, or in a folder `pipelines`
 * here or above. Other command lines stand for a pipeline that has no file: one prompt, one command, or
 * the text of standard input. And which pipelines can be started in a project: those of its folder
 * `pipelines`, and the files of its newest runs.
 *
 * Owns: where pipelines are looked for, which ones a person is offered, what is said about each, and the
 * files of pipelines that a program submits as text. A run keeps its plan, so such a file matters only
 * for an update.
 * Does not: run anything, or read a plan (pipeline-file.ts). A TypeScript module is a program, so a list
 * does not read it.
 */
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { defined } from "../../util/defined.ts";
import type { Json } from "../../util/json.ts";
import { sha256 } from "../../util/json.ts";
import { nearest } from "../../util/nearest.ts";
import type { Project } from "../project/project.ts";
import { userStatePath, writeUserState } from "../project/user-state.ts";
import { after, command, Refusal, when } from "../refusal.ts";
import { PROJECT_FILE } from "./configuration-file.ts";
import { isDotFile, readPipeline } from "./pipeline-file.ts";

const EXTENSIONS = [".yaml", ".yml", ".dot", ".gv", ".ts"];
const FOLDER = "pipelines";
/** What a file that is not in the folder must contain to be offered as a pipeline, by its extension. */
const CONTENTS: Readonly<Record<string, RegExp>> = {
  ".yaml": /^steps:/m,
  ".yml": /^steps:/m,
  ".dot": /\bdigraph\b/,
  ".gv": /\bdigraph\b/,
};
const ABOUT_CHARACTERS_MAX = 300;

/** The file that is meant by a name or a path; `verb` is the command that asks. */
export function findPipeline(named: string, verb = "run"): string {
  const found = knownPipeline(named);
  if (found !== undefined) return found;
  const meant = nearest(named, filesAround().map(nameOf));
  const where = `${process.cwd()} or ${FOLDER}/`;
  const message = `there is no file ${named}, and no pipeline of that name in ${where}`;
  // A name with spaces is a prompt rather than a file.
  const isPrompt = verb === "run" && /\S\s+\S/.test(named);
  const prompt = when("if it is a prompt", "run", "--agent", "claude", named);
  const file = meant === undefined ? after("name a file", verb, "FILE") : command(verb, meant);
  throw new Refusal("missing-file", message, isPrompt ? prompt : file);
}

/** The file that is meant; undefined for a word that is no path and names no pipeline. */
export function knownPipeline(named: string): string | undefined {
  const path = resolve(named);
  if (existsSync(path) || named.includes("/") || extname(named) !== "") return path;
  return filesAround().find((file) => nameOf(file) === named);
}

function filesAround(): readonly string[] {
  const from = process.cwd();
  const folder = folderAbove(from);
  return [...filesIn(from), ...(folder === undefined ? [] : filesIn(folder))];
}

/** A pipeline that a person can choose. */
interface NamedPipeline {
  /** What `perdure run` takes here. */
  readonly name: string;
  /** The comment at the top of its file. */
  readonly about: string | undefined;
}

/** The pipelines of the folder by their names, then the files here that are pipelines. */
export function offeredPipelines(from = process.cwd()): readonly NamedPipeline[] {
  const here = filesIn(from);
  const taken = new Set(here.map(nameOf));
  const named = pipelineFiles(from).map((file) => {
    const name = taken.has(nameOf(file)) ? relative(from, file) : nameOf(file);
    return { name, about: commentAt(readFileSync(file, "utf8")) };
  });
  const beside = here.flatMap((file) => {
    const content = CONTENTS[extname(file)];
    const text = content === undefined ? "" : readFileSync(file, "utf8");
    return content?.test(text) === true ? [{ name: basename(file), about: commentAt(text) }] : [];
  });
  return [...named, ...beside];
}

/** The files of the pipelines in the folder. */
export function pipelineFiles(from: string): readonly string[] {
  const folder = folderAbove(from);
  return folder === undefined ? [] : filesIn(folder);
}

function folderAbove(from: string): string | undefined {
  for (let at = resolve(from); ; at = dirname(at)) {
    const folder = join(at, FOLDER);
    if (existsSync(folder)) return folder;
    if (existsSync(join(at, ".git")) || dirname(at) === at) return undefined;
  }
}

function filesIn(directory: string): readonly string[] {
  return globSync(
    EXTENSIONS.map((extension) => `*${extension}`),
    { cwd: directory },
  )
    .filter((name) => name !== PROJECT_FILE)
    .sort()
    .map((name) => join(directory, name));
}

function nameOf(file: string): string {
  return basename(file, extname(file));
}

/** The first comment of a file, without its marks; undefined when the file begins otherwise. */
function commentAt(text: string): string | undefined {
  const lines = text.split("\n");
  const [first = ""] = lines;
  const start = first.startsWith("#!") || first.startsWith("# yaml-language-server") ? 1 : 0;
  const end = lines.findIndex((line, at) => at >= start && !/^(#|\/\/)/.test(line));
  const comment = lines
    .slice(start, end < 0 ? lines.length : end)
    .map((line) => line.replace(/^(#+|\/\/+) ?/, "").trim())
    .join(" ")
    .trim();
  return comment === "" ? undefined : comment.slice(0, ABOUT_CHARACTERS_MAX);
}

/** How many of the newest runs are looked at for files, and how many files are listed. */
const RUNS_MAX = 500;
const FILES_MAX = 200;

/** A pipeline that can be started. */
interface ListedPipeline {
  /** What `perdure run` takes in the directory of the project. */
  readonly name: string;
  readonly file: string;
  /** The comment at the top of its file. */
  readonly description: string | undefined;
  readonly steps: number;
  /** JSON Schema of its input. */
  readonly input: Json;
  /** Why it cannot be started as it is. */
  readonly problem: string | undefined;
}

/** The pipelines of the project in a directory; `project` is absent before its first run. */
export async function listPipelines(
  directory: string,
  project: Project | undefined,
): Promise<readonly ListedPipeline[]> {
  const runs = project === undefined ? [] : await project.journal.log.list({ limit: RUNS_MAX });
  const used = [...new Set(runs.map(({ file }) => file))].filter(
    (file) => file !== "" && existsSync(file) && statSync(file).isFile(),
  );
  const files = [...new Set([...pipelineFiles(directory), ...used])].slice(0, FILES_MAX);
  const listed: ListedPipeline[] = [];
  for (const file of files) listed.push(await listedPipeline(directory, file));
  return listed;
}

async function listedPipeline(directory: string, file: string): Promise<ListedPipeline> {
  const name = relative(directory, file);
  const about = { name: name.startsWith("..") ? file : name, file };
  const unknown = { ...about, description: undefined, steps: 0, input: null, problem: undefined };
  if (extname(file) === ".ts") return unknown;
  try {
    const { plan, text, diagnostics } = await readPipeline(file, {}, directory);
    const description = commentAt(text);
    const mistake = diagnostics.find(({ severity }) => severity === "error");
    if (plan === undefined) {
      const problem = mistake?.message ?? "it is not a valid pipeline";
      return { ...unknown, description, problem };
    }
    const { inputSchema: input = null, graph } = plan;
    return { ...unknown, description, steps: graph.steps.length, input };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...unknown, problem: error.message };
  }
}

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

const SUBMITTED = "submitted";
const NAME_LENGTH = 16;

/** The file of a pipeline in DOT; the same text has the same file. */
export function submittedFile(source: string): string {
  const place = [SUBMITTED, `${sha256(source).slice(0, NAME_LENGTH)}.dot`];
  writeUserState(place, source);
  return userStatePath(...place);
}
