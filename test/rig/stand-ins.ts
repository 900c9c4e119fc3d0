/**
 * A project in which the pipelines of documents and examples run: a git repository with stand-ins for
 * the programs that they call (`npm`, `make`, `gh`, the scripts of the project) and for the agents.
 *
 * Owns: `project/`, the repository with its first commit; `bin/`, first on the PATH; `agents/`, what
 * the agents do and answer (stand-in-agent.ts); `called`, a line for each call of a stand-in.
 */
import { chmodSync, copyFileSync, globSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { userGit } from "../workspace/rig.ts";
import { PROGRAM, Project, type Result, type StartOptions } from "./project.ts";

const CACHE = process.env.NODE_COMPILE_CACHE ?? "";
const AGENT = resolve(import.meta.dirname, "stand-in-agent.ts");

/** Programs that pipelines call; each also writes down that it was called. */
const PROGRAMS: Readonly<Record<string, string>> = {
  npm: `case "$*" in "run demo") exec '${process.execPath}' '${PROGRAM}' demo;; esac`,
  npx: 'exec "$@"',
  make: "mkdir -p dist coverage; echo app > dist/app.tar.gz; echo {} > coverage/summary.json",
  gh: 'case "$1 $2" in "pr create") echo https://example.com/pull/1;; esac',
  curl: "echo '{}'",
};

export class StandIns {
  readonly world = new Project();
  /** The repository. */
  readonly dir = this.world.path("project");
  readonly environment: Readonly<Record<string, string>>;

  constructor(files: Readonly<Record<string, string>> = {}, { snapshots = true } = {}) {
    for (const folder of [
      "project",
      "bin",
      "home/.config/perdure",
      "agents",
      "config/projects/here",
    ]) {
      mkdirSync(this.world.path(folder), { recursive: true });
    }
    // What the stand-in of claude reports; a budget in dollars needs it.
    this.world.write("home/.config/perdure/prices.json", '{"fake-model":{"input":3,"output":15}}');
    // What PlainProject does.
    if (!snapshots) {
      this.world.write("home/.config/perdure/config.yaml", "workspace: { snapshots: false }\n");
    }
    this.program("perdure", `exec '${process.execPath}' '${PROGRAM}' "$@"`);
    for (const name of ["claude", "codex"]) {
      this.program(
        name,
        `NODE_COMPILE_CACHE='${CACHE}' exec '${process.execPath}' '${AGENT}' ${name} "$@"`,
      );
    }
    for (const [name, text] of Object.entries(PROGRAMS))
      this.program(name, this.counted(name, text));
    this.environment = {
      PATH: `${this.world.path("bin")}:${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: this.world.path("home"),
      STAND_INS: this.world.dir,
      CLAUDE_CONFIG_DIR: this.world.path("config"),
      FAKE_AGENT_HOME: this.world.path("config/projects/here"),
      CODEX_HOME: this.world.path("config/codex"),
      DEPLOY_TOKEN: "stand-in",
      DOCS_TOKEN: "stand-in",
      ANTHROPIC_API_KEY: "stand-in",
      CODEX_API_KEY: "stand-in",
      GIT_AUTHOR_NAME: "user",
      GIT_AUTHOR_EMAIL: "user@localhost",
      GIT_COMMITTER_NAME: "user",
      GIT_COMMITTER_EMAIL: "user@localhost",
    };
    for (const [name, text] of Object.entries(files)) this.write(name, text);
    this.write(".gitignore", ".perdure/\nnode_modules/\n");
    userGit(this.dir, "init", "-q", "-b", "main");
    this.commit();
  }

  /** Writes a file of the project; a script can be executed. */
  write(name: string, text: string): void {
    const path = join(this.dir, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    if (text.startsWith("#!")) chmodSync(path, 0o755);
  }

  /** Commits what the project holds. */
  commit(): void {
    userGit(this.dir, "add", "-A");
    userGit(this.dir, "commit", "-q", "--allow-empty", "-m", "the project");
  }

  /** A program that is found before all others. */
  program(name: string, text: string): void {
    writeFileSync(this.world.path("bin", name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }

  /** The text of a stand-in that writes down its calls. */
  counted(name: string, text = ""): string {
    return `echo "${name} $*" >> '${this.world.path("called")}'\n${text}`;
  }

  /** How often each stand-in was called with which words. */
  called(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    const text = this.world.exists("called") ? this.world.read("called") : "";
    for (const line of text.split("\n")) if (line !== "") counts[line] = (counts[line] ?? 0) + 1;
    return counts;
  }

  /** What an agent does in a step, as shell text. */
  agentDoes(step: string, text: string): void {
    this.world.write(`agents/${step}.sh`, text);
  }

  /** What an agent answers in a step, or in one visit of it (`review@1`). */
  agentAnswers(step: string, answer: unknown): void {
    this.world.write(`agents/${step}.json`, JSON.stringify(answer));
  }

  options(more: StartOptions = {}): StartOptions {
    return { cwd: this.dir, ...more, env: { ...this.environment, ...more.env } };
  }

  /** Runs the program to its end. */
  async perdure(...words: readonly string[]): Promise<Result> {
    return this.world.run(words, this.options());
  }

  /** Runs shell text to its end. */
  async shell(text: string, cwd = this.dir): Promise<Result> {
    return this.world.command(["sh", "-ec", text], this.options({ cwd })).ended;
  }

  /** The directory of the project on a machine; another machine has a clone, and our exports. */
  async machine(name: string): Promise<string> {
    const dir = this.world.path(name);
    if (name === "" || name === "laptop") return this.dir;
    if (!this.world.exists(name)) userGit(this.world.dir, "clone", "-q", this.dir, name);
    for (const file of globSync("*.perdure", { cwd: this.dir })) {
      if (file !== ".perdure") copyFileSync(join(this.dir, file), join(dir, file));
    }
    return dir;
  }

  /** The id of the newest run in a directory. */
  async newestId(dir = this.dir): Promise<string> {
    return new Project(dir).newestId();
  }

  async remove(): Promise<void> {
    await this.world.remove();
  }
}
