/**
 * The snippets of a page, and how they run. A fence names its language; the line above it may be a
 * comment that says how the snippet runs (`<!-- run: WORDS -->`), or why it does not
 * (`<!-- not run: WHY -->`).
 *
 * | Language | What happens |
 * |---|---|
 * | `yaml` with `steps`, `dot`, `ts` with a default export | written to the file that its first comment names, and run; WORDS follow `perdure run FILE` |
 * | `yaml` and `json` with a file name in the first comment, other `ts` | written to that file; a program is run |
 * | `sh` | each line is run; it succeeds, or ends with the status that its comment names (`exit 3`) |
 * | `console` | each line after `$` is run, and the lines below it are part of what it prints |
 *
 * In commands, RUN and 1a2b3c4d stand for the newest run.
 */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import type { Result } from "../rig/project.ts";
import type { StandIns } from "../rig/stand-ins.ts";

export interface Snippet {
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** What the comment above it asks for. */
  readonly run?: string;
  readonly notRun?: string;
}

const FENCE = /(?:^<!-- (run|not run): (.*) -->\n)?^```(\S*)\n([\s\S]*?)^```$/gm;
/** Languages that only show something; a `text` holds no command. */
const SHOWN: ReadonlySet<string> = new Set(["mermaid", "text"]);

export function snippetsOf(file: string): readonly Snippet[] {
  const page = readFileSync(file, "utf8");
  return [...page.matchAll(FENCE)].map(([all, form, words = "", language = "", text = ""]) => {
    const line = page.slice(0, page.indexOf(all)).split("\n").length;
    const comment = form === "run" ? { run: words } : form === undefined ? {} : { notRun: words };
    return { line, language, text, ...comment };
  });
}

/** Runs one snippet in a project; throws when it does not do what the page says. */
export async function runSnippet(site: StandIns, snippet: Snippet): Promise<void> {
  if (snippet.notRun !== undefined) return;
  if (SHOWN.has(snippet.language)) return expect(snippet.text).not.toMatch(/^\$? ?perdure /m);
  switch (snippet.language) {
    case "yaml":
    case "dot":
    case "ts":
    case "json":
      return runFile(site, snippet);
    case "sh":
      return runLines(site, snippet.text);
    case "console":
      return runConsole(site, snippet);
    default:
      throw new Error(`a snippet of the language "${snippet.language}"`);
  }
}

function fileNameOf({ language, text }: Snippet): string | undefined {
  return (
    /^(?:#|\/\/) ([\w./-]+\.\w+)(?=$|[:,\s])/m.exec(text.split("\n")[0] ?? "")?.[1] ??
    (language === "yaml" && /^steps:/m.test(text) ? "pipeline.yaml" : undefined)
  );
}

async function runFile(site: StandIns, snippet: Snippet): Promise<void> {
  const name = fileNameOf(snippet);
  if (name === undefined) throw new Error("the first line names no file");
  // Time passes faster here.
  site.write(name, snippet.text.replaceAll(/\bwait: \d+[mh]\b/g, "wait: 10ms"));
  site.commit();
  const { language, text, run = "" } = snippet;
  if (language === "ts" && !text.includes("export default")) {
    return good(await site.shell(`node ${name} ${run}`));
  }
  const isPipeline = language !== "json" && (language !== "yaml" || /^steps:/m.test(text));
  if (isPipeline) good(await site.shell(`perdure run ${name} --auto-approve ${run}`));
}

/** Lines that end with a backslash, and indented ones, belong to the line above. */
function commandsIn(text: string): readonly string[] {
  const joined = text.replaceAll("\\\n", "");
  return joined.split(/\n(?=[^\s}])/).map((line) => line.trim());
}

async function runLines(site: StandIns, text: string): Promise<void> {
  for (const line of commandsIn(text)) {
    if (line === "" || line.startsWith("#")) continue;
    const status = Number(/# .*\bexit (\d+)/.exec(line)?.[1] ?? 0);
    good(await site.shell(await withRun(site, line, site.dir)), status);
  }
}

async function withRun(site: StandIns, line: string, dir: string): Promise<string> {
  if (!/\b(RUN|1a2b3c4d)\b/.test(line)) return line;
  return line.replaceAll(/\b(RUN|1a2b3c4d)\b/g, (await site.newestId(dir)).slice(0, 8));
}

async function runConsole(site: StandIns, { text, run }: Snippet): Promise<void> {
  if (run !== undefined) {
    return expectPrinted(await site.shell(run), text);
  }
  for (const part of text.split(/^(?=\w*\$ )/m)) {
    const [, machine = "", command = "", shown = ""] = /^(\w*)\$ (.*)\n([\s\S]*)$/.exec(part) ?? [];
    const dir = await site.machine(machine);
    const line = await withRun(site, command, site.dir);
    expectPrinted(await site.shell(line, dir), shown);
  }
}

/** What is shown is printed in this order; what differs from run to run does not matter. */
function expectPrinted(result: Result, shown: string): void {
  const printed = plain(result.stdout + result.stderr);
  let from = 0;
  for (const line of shown.split("\n").map(plain)) {
    if (line === "" || line === "...") continue;
    const at = printed.indexOf(line, from);
    expect(at, `"${line}" in this order in:\n${printed}`).toBeGreaterThanOrEqual(0);
    from = at + line.length;
  }
}

function plain(text: string): string {
  return text
    .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "ID")
    .replaceAll(/\b[0-9a-f]{8}\b/g, "ID")
    .replaceAll(/\bpid \d+ on [\w.-]+/g, "pid PID")
    .replaceAll(/\/\S*(?=\/\.config\/)/g, "~")
    .replaceAll(/kill -9 \d+/g, "kill -9 PID")
    .replaceAll(/\b\d+ms\b|\b\d+\.\ds\b|\b\d+m \d+s\b/g, "TIME")
    .replaceAll(/\$\d+\.\d\d/g, "$MONEY")
    .replaceAll(/[ \t]+/g, " ")
    .replaceAll(/^ | $/gm, "");
}

function good(result: Result, status = 0): void {
  expect(result.exit, result.stdout + result.stderr).toBe(status);
}
