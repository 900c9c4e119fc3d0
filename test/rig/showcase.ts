/**
 * A project that shows every kind of run, made with the real program and fake agents: completed,
 * failed, waiting at a gate, running, interrupted, a fan-out with failed items. The screenshots of the
 * dashboard are made from it.
 *
 * Owns: the project `calculator` with its pipelines, what its agents do, and its runs.
 * Does not: start a dashboard.
 */
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { userGit } from "../workspace/rig.ts";
import { FAKE_CLAUDE } from "./fake-claude.ts";
import { eventually, type Program, Project, type StartOptions } from "./project.ts";

/** The ids of the runs, by what they show. */
export interface ShowcaseRuns {
  readonly completed: string;
  readonly failed: string;
  readonly items: string;
  readonly waiting: string;
  readonly running: string;
  readonly interrupted: string;
}

type ScriptAction =
  | { readonly do: "text"; readonly text: string }
  | { readonly do: "shell"; readonly command: string }
  | { readonly do: "usage"; readonly input: number; readonly output: number }
  | { readonly do: "wait-for-file"; readonly path: string };

const PACKAGES = [
  ...["api", "auth", "billing", "cache", "cli", "config", "docs", "events", "forms", "graph"],
  ...["http", "i18n", "jobs", "lexer", "mail", "parser", "queue", "search", "store", "ui"],
];
/** Packages whose migration fails. */
const BROKEN = "billing|i18n|queue";

const LEXER = `export function readNumber(text: string, from: number): Token {
  let end = from;
  while (/[0-9.]/.test(text[end] ?? "")) end++;
  return { kind: "number", value: Number(text.slice(from, end)), end };
}
`;
const EDIT = String.raw`cat > src/lexer.ts <<'END'
export function readNumber(text: string, from: number): Token {
  const [digits = ""] = /^\d+(\.\d+)?([eE][+-]?\d+)?/.exec(text.slice(from)) ?? [];
  return { kind: "number", value: Number(digits), end: from + digits.length };
}
END
echo 'test("1e3 is 1000", () => expect(evaluate("1e3")).toBe(1000));' >> test/lexer.test.ts`;

const TESTS = String.raw`#!/bin/sh
if grep -q 'eE' src/lexer.ts; then
  printf '%s\n' '✓ lexer (18 tests)' '✓ parser (24 tests)' '' 'Tests  42 passed (42)'
else
  printf '%s\n' '✓ parser (24 tests)' '× lexer > 1e3 is 1000' '    expected 1000, received 1' \
    '' 'Tests  1 failed, 41 passed (42)'
  exit 1
fi
`;

/** A project with its runs; `remove` ends and removes everything. */
export class Showcase {
  readonly project: Project;
  readonly #parent: string;

  constructor() {
    this.#parent = fs.mkdtempSync(join(tmpdir(), "perdure-showcase-"));
    this.project = new Project(join(this.#parent, "calculator"));
    for (const folder of ["", "src", "test", "docs", "pipelines", "bin"]) {
      fs.mkdirSync(this.project.path(folder), { recursive: true });
    }
    fs.mkdirSync(join(this.#parent, "agent", "projects", "here"), { recursive: true });
    fs.writeFileSync(join(this.#parent, "claude"), FAKE_CLAUDE, { mode: 0o755 });
    this.#writeFiles();
    userGit(this.project.dir, "init", "-q", "-b", "main");
    userGit(this.project.dir, "add", "-A");
    userGit(this.project.dir, "commit", "-q", "-m", "A calculator");
  }

  /** The environment of every program of the project, `perdure ui` too. */
  get options(): StartOptions {
    const env = {
      CLAUDE_CONFIG_DIR: join(this.#parent, "agent"),
      FAKE_AGENT_HOME: join(this.#parent, "agent", "projects", "here"),
      GIT_AUTHOR_NAME: "Ada",
      GIT_AUTHOR_EMAIL: "ada@example.com",
      GIT_COMMITTER_NAME: "Ada",
      GIT_COMMITTER_EMAIL: "ada@example.com",
    };
    return { env };
  }

  /** Makes the runs, the oldest first. */
  async makeRuns(): Promise<ShowcaseRuns> {
    for (let night = 0; night < 3; night++) await this.#run("nightly", 0);
    const completed = await this.#run("feature", 6, "-i", "issue=Exponents in numbers");
    await this.project.must(
      ["answer", completed, "review", "approve", "--text", "Neat."],
      this.options,
    );
    await this.project.must(["resume", completed], this.options);
    const failed = await this.#run("release", 3, "-i", "version=1.4.0");
    const items = await this.#run("migrate", 0);
    const interrupted = await this.#killed();
    const waiting = await this.#run("feature", 6, "-i", "issue=Scientific notation");
    const running = await this.#begun("src/lexer.ts");
    return { completed, failed, items, waiting, running: running.id, interrupted };
  }

  async remove(): Promise<void> {
    await this.project.remove();
    fs.rmSync(this.#parent, { recursive: true, force: true });
  }

  /** Runs a pipeline until it ends or waits; gives the id. */
  async #run(name: string, exit: number, ...args: readonly string[]): Promise<string> {
    const words = ["run", `pipelines/${name}.yaml`, "--quiet", ...args];
    const result = await this.project.run(words, this.options);
    if (result.exit === exit) return this.project.newestId();
    throw new Error(`${words.join(" ")}: exit ${result.exit}\n${result.stdout}${result.stderr}`);
  }

  /** Starts a run whose agent waits in the middle of its work. */
  async #begun(part: string): Promise<{ readonly id: string; readonly program: Program }> {
    const reached = this.project.path(reachedFile(part));
    const args = ["run", "pipelines/refactor.yaml", "--quiet", "-i", `part=${part}`];
    const program = this.project.start(args, this.options);
    await eventually("the agent is in the middle of its work", () => fs.existsSync(reached));
    return { id: await this.project.newestId(), program };
  }

  async #killed(): Promise<string> {
    const { id, program } = await this.#begun("src/parser.ts");
    await program.kill("SIGKILL");
    await this.project.killSteps();
    return id;
  }

  #writeFiles(): void {
    const write = (name: string, text: string): void => void this.project.write(name, text);
    write(".gitignore", ".perdure/\n.reached-*\n");
    write("src/lexer.ts", LEXER);
    write("test/lexer.test.ts", 'test("12 is 12", () => expect(evaluate("12")).toBe(12));\n');
    write("docs/NUMBERS.md", "# Numbers\n\nA number has digits and at most one point.\n");
    fs.writeFileSync(this.project.path("bin/test"), TESTS, { mode: 0o755 });
    const agent = `agents: { coder: { adapter: claude, command: ${join(this.#parent, "claude")}, model: fake-model } }
prices: { fake-model: { input: 3, output: 15 } }\n`;
    write("perdure.yaml", agent);
    write("pipelines/nightly.yaml", this.#nightly());
    write("pipelines/feature.yaml", this.#feature());
    write("pipelines/release.yaml", RELEASE);
    write("pipelines/migrate.yaml", MIGRATE);
    write("pipelines/refactor.yaml", this.#refactor());
  }

  /** Keys of a step whose agent does this. */
  #agent(name: string, actions: readonly ScriptAction[]): string {
    const file = join(this.#parent, `${name}.json`);
    fs.writeFileSync(file, JSON.stringify(actions));
    return `agent: coder, env: { FAKE_AGENT_SCRIPT: "${file}" }`;
  }

  #nightly(): string {
    const summary = this.#agent("summary", [
      { do: "usage", input: 21_000, output: 640 },
      { do: "text", text: "All checks pass. Coverage rose by 0.4 % since yesterday." },
    ]);
    return `name: nightly
steps:
  - { id: lint, run: "echo 212 files checked" }
  - { id: unit, needs: [], run: "echo '41 passed'" }
  - { id: coverage, needs: [unit], run: "echo 93.1 %" }
  - { id: summary, needs: [lint, coverage], prompt: Summarise the night., ${summary} }
`;
  }

  #feature(): string {
    const plan = this.#agent("plan", [
      { do: "usage", input: 42_000, output: 1_900 },
      { do: "shell", command: "ls src test docs && cat src/lexer.ts" },
      {
        do: "text",
        text: "Plan:\n\n1. The lexer reads an optional exponent.\n2. A test that fails first.\n3. One paragraph in docs/NUMBERS.md.",
      },
    ]);
    const implement = this.#agent("implement", [
      { do: "usage", input: 31_000, output: 1_600 },
      { do: "text", text: "The lexer stops at the letter e. I change the pattern and add a test." },
      { do: "shell", command: "./bin/test || true" },
      { do: "shell", command: EDIT },
      { do: "text", text: "Now the tests again." },
      { do: "shell", command: "./bin/test" },
      { do: "text", text: "All 42 tests pass. `1e3`, `2.5E-4` and `7e+2` are numbers now." },
    ]);
    const describe = this.#agent("describe", [
      { do: "usage", input: 30_000, output: 800 },
      {
        do: "shell",
        command: "printf '\\nAn exponent follows the letter e: 1e3 is 1000.\\n' >> docs/NUMBERS.md",
      },
      { do: "text", text: "docs/NUMBERS.md describes exponents." },
    ]);
    return `name: feature
workspace: worktree
budget: { usd: 5 }
input:
  type: object
  required: [issue]
  properties:
    issue: { type: string, description: What to build }
    priority: { type: string, enum: [low, normal, high], default: normal }
steps:
  - { id: plan, prompt: "Make a plan for: \${{ input.issue }}", ${plan} }
  - { id: implement, prompt: "Follow the plan. Test first.", check: ./bin/test, ${implement} }
  - { id: describe, needs: [plan], prompt: Describe it for users., isolate: true, ${describe} }
  - { id: test, needs: [implement, describe], run: ./bin/test }
  - id: review
    gate:
      ask: "\${{ input.issue }}: is this ready to merge?"
      show: [diff, docs/NUMBERS.md, "\${{ results.test.output }}"]
  - { id: merge, run: "echo Merged." }
`;
  }

  #refactor(): string {
    const actions = (part: string): readonly ScriptAction[] => [
      { do: "usage", input: 64_000, output: 2_100 },
      { do: "text", text: "I look for functions that are longer than a screen." },
      { do: "shell", command: "wc -l src/*.ts" },
      { do: "text", text: "The lexer mixes reading and checking. I split it in two." },
      { do: "shell", command: `touch '${this.project.path(reachedFile(part))}'` },
      { do: "text", text: "The tests run now; this takes a minute." },
      { do: "wait-for-file", path: join(this.#parent, "never") },
    ];
    fs.mkdirSync(join(this.#parent, "src"));
    this.#agent("src/lexer.ts", actions("src/lexer.ts"));
    this.#agent("src/parser.ts", actions("src/parser.ts"));
    const file = `${this.#parent}/\${{ input.part }}.json`;
    return `name: refactor
input: { type: object, properties: { part: { type: string } } }
budget: { usd: 3 }
steps:
  - { id: measure, run: "wc -l src/*.ts" }
  - { id: split, agent: coder, prompt: Split long functions., env: { FAKE_AGENT_SCRIPT: "${file}" } }
  - { id: lint, needs: [measure], run: "echo 212 files checked" }
  - { id: test, needs: [split, lint], run: ./bin/test }
  - { id: ship, gate: "Ship it?" }
`;
  }
}

/** The agent that works on a part of the project makes this file when it waits. */
function reachedFile(part: string): string {
  return `.reached-${part.replaceAll("/", "-")}`;
}

const RELEASE = `name: release
input:
  type: object
  required: [version]
  properties: { version: { type: string, pattern: "^[0-9]+[.][0-9]+[.][0-9]+$" } }
steps:
  - { id: build, run: "mkdir -p dist && echo calculator \${{ input.version }} > dist/app.txt", outputs: { app: dist/app.txt } }
  - { id: test, run: ./bin/test, retry: { attempts: 2, backoff: 10ms } }
  - { id: publish, once: true, run: "echo published" }
  - { id: announce, run: "echo announced" }
`;

const MIGRATE = `name: migrate
max_parallel: 4
steps:
  - { id: list, run: "echo ${PACKAGES.length} packages" }
  - id: package
    for_each: [${PACKAGES.join(", ")}]
    on_item_failure: continue
    run: |
      echo "migrating \${{ item }}"
      case \${{ item }} in ${BROKEN}) echo "error: \${{ item }} uses the old loader" >&2; exit 1;; esac
      echo ok
  - { id: verify, run: "echo verified" }
`;
