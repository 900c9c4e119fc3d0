/**
 * Writes a pipeline to start from: a copy of one of the templates of this package.
 *
 * Owns: the list of templates, and which agent a copy names.
 * Does not: choose one (the command line asks).
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { STAND_IN_AGENT, UNDECLARED_AGENTS } from "../util/agent-access.ts";
import { nearest } from "../util/nearest.ts";
import { advice, command, Refusal, when } from "./refusal.ts";
import { packageDirectory } from "./this-process.ts";

/** A pipeline to start from. */
export interface PipelineTemplate {
  readonly name: string;
  /** Its first sentence. */
  readonly about: string;
}

const EXTENSION = ".yaml";
const FOLDER = "pipelines";

/** The templates of this package. */
export function pipelineTemplates(): readonly PipelineTemplate[] {
  return readdirSync(templateFolder())
    .filter((file) => file.endsWith(EXTENSION))
    .map((file) => ({ name: basename(file, EXTENSION), about: aboutOf(textOf(file)) }));
}

function templateFolder(): string {
  return join(packageDirectory(), "templates");
}

function textOf(file: string): string {
  return readFileSync(join(templateFolder(), file), "utf8");
}

/** The first paragraph of comments, up to the end of its first sentence. */
function aboutOf(text: string): string {
  const lines = text.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("# "));
  const paragraph = lines.slice(0, end).map((line) => line.slice(2));
  return paragraph.join(" ").replace(/(?<=\.) .*$/, "");
}

/** A pipeline that was written. */
interface WrittenPipeline {
  readonly name: string;
  /** Its path from here. */
  readonly file: string;
  readonly agent: string;
}

/** Writes a copy of a template to the folder `pipelines`. Never replaces a file. */
export function writeTemplate(
  from: string,
  { template, agent = STAND_IN_AGENT }: { readonly template: string; readonly agent?: string },
): WrittenPipeline {
  const names = pipelineTemplates().map(({ name }) => name);
  if (!names.includes(template)) {
    const meant = nearest(template, names);
    const message = `there is no template ${template}; there are ${names.join(", ")}`;
    throw new Refusal("bad-option", message, command("init", meant ?? names[0] ?? ""));
  }
  if (!UNDECLARED_AGENTS.some((name) => name === agent)) {
    const message = `--agent ${agent}: there is no such agent`;
    throw new Refusal("bad-option", message, advice(`one of ${UNDECLARED_AGENTS.join(", ")}`));
  }
  const file = resolve(from, FOLDER, template + EXTENSION);
  const shown = relative(from, file);
  if (existsSync(file)) {
    throw new Refusal("files-in-the-way", `${shown} exists already`, [
      when("to run it", "run", template),
      advice(`to start over: rm ${shown}, then perdure init ${template}`),
    ]);
  }
  const text = textOf(template + EXTENSION).replaceAll(
    `agent: ${STAND_IN_AGENT}`,
    `agent: ${agent}`,
  );
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text, { flag: "wx" });
  return { name: template, file: shown, agent };
}
