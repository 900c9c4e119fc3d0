/**
 * Recordings of the live view: the real program in a real terminal, held at a fixed moment, at 40,
 * 80 and 200 columns. Times, ids and the width of the bar are normalised; the pure tests of the
 * layout (test/view/live.test.ts) check them exactly.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FAKE_CLAUDE } from "../rig/fake-claude.ts";
import { PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

const NARROW = { columns: 40, rows: 20 };
const SMALL = { columns: 80, rows: 24 };
const LARGE = { columns: 200, rows: 50 };
const SIZES = [NARROW, SMALL, LARGE];

let project: Project;
let terminal: Terminal;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

function pipeline(name: string, ...steps: readonly string[]): void {
  const head = `workspace: { snapshots: false }\nname: ${name}\nsteps:\n`;
  project.write("p.yaml", head + steps.map((step) => `  - ${step}\n`).join(""));
}

function open(size: { columns: number; rows: number }, env: Record<string, string> = {}): void {
  terminal = new Terminal(project, size, env);
  terminal.perdure("run p.yaml");
}

const TIME = / +(\d+ms|\d+\.\ds|\d+s|\d+m \d\ds)(?=[\s.,;:]|$)/gm;
const BAR_CELLS = 10;
/** Where a line is cut depends on how wide its times are. */
const CUT_ROW = /^([ ›][▶◆].{0,20}).*…$/gm;

function normalised(lines: readonly string[]): string {
  const text = lines
    .filter((line) => !line.includes("ready>"))
    .join("\n")
    .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "1a2b3c4d-(uuid)")
    .replaceAll(/\b[0-9a-f]{8}\b/g, "1a2b3c4d")
    .replaceAll(TIME, " 1s")
    .replaceAll(CUT_ROW, "$1…")
    .replaceAll(/▕(█*)(░*)▏/g, (_, full: string, rest: string) => {
      const cells = Math.round((full.length / (full.length + rest.length)) * BAR_CELLS);
      return `▕${"█".repeat(cells)}${"░".repeat(BAR_CELLS - cells)}▏`;
    });
  return `\n${text}\n`;
}

/** The live area only: from its header on. */
async function area(): Promise<string> {
  const lines = await terminal.wholeScreen();
  return normalised(lines.slice(lines.findLastIndex((line) => line.includes("▕"))));
}

/** Everything after the command was typed, when the program has ended. */
async function ended(): Promise<string> {
  await terminal.shows(/^status \d+$/m);
  const lines = terminal.text().split("\n");
  const first = lines.findIndex((line) => line.startsWith("Run "));
  return normalised(lines.slice(first)).replaceAll(/^ *ready>.*\n/gm, "");
}

describe.each(SIZES)("at $columns columns", (size) => {
  it("a normal run", async () => {
    const hold = project.hold("test");
    pipeline(
      "release",
      '{id: lint, run: "echo 12 files checked"}',
      `{id: test, run: "echo running 42 tests; echo parser; ${hold.command}; echo all passed"}`,
      '{id: ship, run: "echo shipped"}',
    );
    open(size);
    await hold.arrived();
    await terminal.shows(/─ test@1\.1 ─+\n +running 42 tests\n +parser/);
    expect(await area()).toMatchSnapshot("held");
    await hold.release();
    expect(await ended()).toMatchSnapshot("ended");
  });

  it("parallel agents", async () => {
    const go = project.path("go");
    const script = [
      { do: "usage", input: 100_000, output: 2_000 },
      { do: "text", text: "I look at the tests first.\nThen I fix the parser." },
      { do: "shell", command: "echo 41 passed; echo 1 failed" },
      { do: "text", text: "One test fails. I wait for the others." },
      { do: "wait-for-file", path: go },
      { do: "text", text: "All of it works now." },
    ];
    agents();
    open(size, agentEnvironment(script));
    await terminal.shows(/▶ parser .*\$.*On[\s\S]*▶ printer .*\$.*On/);
    terminal.key("Down");
    await terminal.shows(/›▶ parser[\s\S]*─ parser@1\.1 ─/);
    expect(await area()).toMatchSnapshot("held");
    fs.writeFileSync(go, "");
    const text = await ended();
    expect(text).toMatch(/^✓ parser completed in 1s \(\$1\.32, 4\s+turns\)$/m);
    expect(text.match(/← 41 passed\n {2}│ {3}1 failed\n/g)).toHaveLength(2);
    expect(text.match(/│ All of it works now\.\n/g)).toHaveLength(2);
  });

  it("a fan-out of 40", async () => {
    const items = Array.from({ length: 40 }, (_, at) => `src/part-${at}.ts`);
    const hold = project.hold("item");
    pipeline(
      "document",
      `{id: describe, for_each: {in: ${JSON.stringify(items)}, max_parallel: 4}, run: "case \${{ item }} in src/part-9.ts) ${hold.command.replaceAll("'", "''")};; esac; echo described \${{ item }}"}`,
      '{id: join, run: "echo joined"}',
    );
    open(size);
    await hold.arrived();
    await terminal.shows("39 of 40");
    expect(await area()).toMatchSnapshot("held");
    await hold.release();
    await terminal.shows("status 0");
    expect(terminal.text().match(/^ {2}│ described src\/part-\d+\.ts$/gm)).toHaveLength(40);
    expect(terminal.text()).toMatch(
      /✓ describe@1\.1\[9\]\/describe\s+\(src\/part-9\.ts\)\s+completed/,
    );
  });

  it("a failure", async () => {
    pipeline(
      "broken",
      '{id: lint, run: "echo 12 files checked"}',
      '{id: test, run: "echo running 42 tests; echo FAIL src/parser.test.ts; echo expected 3 but got 4; exit 1"}',
      '{id: ship, run: "echo shipped"}',
    );
    open(size);
    expect(await ended()).toMatchSnapshot("ended");
  });

  it("a gate", async () => {
    pipeline(
      "release",
      '{id: build, run: "echo built"}',
      '{id: approve, gate: "Ship version 3 to all customers?"}',
      '{id: ship, run: "echo shipped"}',
    );
    open(size);
    await terminal.shows(/^> *$/m);
    expect(await area()).toMatchSnapshot("asked");
    terminal.type("a go ahead");
    const text = await ended();
    expect(text).toMatch(
      /◆ approve: \S+ answered "approve"\s[\s\S]*go ahead[\s\S]*✓ ship completed/,
    );
    expect(text).not.toContain("> a go");
  });

  it("a resume after kill -9", async () => {
    const hold = project.hold("build");
    pipeline(
      "release",
      '{id: plan, run: "echo planned"}',
      `{id: build, run: "echo compiling; ${hold.command}; echo linked"}`,
      '{id: ship, run: "echo shipped"}',
    );
    open(size);
    await hold.arrived();
    await terminal.shows(/─ build@1\.1 ─+\n +compiling/);
    const [owner] = [...(await project.must(["why"])).matchAll(/pid (\d+)/g)];
    process.kill(Number(owner?.[1]), "SIGKILL");
    await terminal.shows("status 137");
    terminal.clear();
    terminal.perdure("resume");
    await terminal.shows("re-attached");
    await terminal.shows(/─ build@1\.1 ─+\n +compiling/);
    expect(await area()).toMatchSnapshot("held");
    await hold.release();
    await terminal.shows("status 0");
    expect(terminal.text()).toMatch(/✓ build completed in .*\n {2}│ compiling\n {2}│ linked/);
  });
});

/** Two agents that work side by side. */
function agents(): void {
  const claude = project.path("claude");
  fs.writeFileSync(claude, FAKE_CLAUDE, { mode: 0o755 });
  project.write(
    "p.yaml",
    `name: fix
workspace: { snapshots: false }
budget: { usd: 20 }
prices: { fake-model: { input: 3, output: 15 } }
agents: { coder: { adapter: claude, command: ${claude} } }
steps:
  - { id: parser, needs: [], agent: coder, prompt: Fix the parser. }
  - { id: printer, needs: [], agent: coder, prompt: Fix the printer. }
  - { id: test, needs: [parser, printer], run: echo tested }
`,
  );
}

function agentEnvironment(actions: readonly object[]): Record<string, string> {
  const config = project.path("config");
  fs.mkdirSync(join(config, "projects", "here"), { recursive: true });
  return {
    CLAUDE_CONFIG_DIR: config,
    FAKE_AGENT_HOME: join(config, "projects", "here"),
    FAKE_AGENT_SCRIPT: JSON.stringify(actions),
  };
}
