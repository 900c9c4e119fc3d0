/**
 * `npm run picture`: makes docs/live.svg, the picture of the live view in the README. The real program
 * runs in a real terminal, with fake agents, and one moment of the screen is drawn.
 */
import * as fs from "node:fs";
import { resolve } from "node:path";
import { FAKE_CLAUDE } from "../test/rig/fake-claude.ts";
import { Project } from "../test/rig/project.ts";
import { type StyledPart, Terminal } from "../test/rig/terminal.ts";

const FILE = resolve(import.meta.dirname, "../docs/live.svg");
const SIZE = { columns: 92, rows: 26 };
const CELL_WIDTH = 8.4;
const LINE_HEIGHT = 19;
const MARGIN = 18;
const BAR_HEIGHT = 30;
const BASELINE = 14;

/** The colours of the palette that the view uses, for a dark window. */
const COLOURS: Readonly<Record<number, string>> = {
  [-1]: "#d8dee9",
  1: "#ff7b72",
  2: "#7ee787",
  3: "#f2cc60",
  6: "#79c0ff",
};
const BACKGROUND = "#161b22";
const BAR = "#21262d";

/** Test runs that fail first and then pass. */
const FAKE_NPM = `#!/bin/sh
case "$*" in
  *exponents*) echo "FAIL parses 1e3"; echo "  expected 1000 but got 1";;
  *) echo "42 passed";;
esac
`;

const project = new Project();
const terminal = await record();
try {
  fs.writeFileSync(FILE, svgOf(terminal.styledScreen()));
  console.log(`Wrote ${FILE}`);
} finally {
  fs.writeFileSync(project.path("go"), "");
  terminal.close();
  await project.remove();
}

/** A pipeline with two agents at work, held at a moment that shows much of the view. */
async function record(): Promise<Terminal> {
  const home = project.path("config", "projects", "here");
  fs.mkdirSync(home, { recursive: true });
  fs.writeFileSync(project.path("claude"), FAKE_CLAUDE, { mode: 0o755 });
  fs.mkdirSync(project.path("bin"));
  fs.writeFileSync(project.path("bin", "npm"), FAKE_NPM, { mode: 0o755 });
  const wait = { do: "wait-for-file", path: project.path("go") };
  const work = (name: string, actions: readonly object[]): string => {
    const file = project.path(`${name}.json`);
    fs.writeFileSync(file, JSON.stringify(actions));
    return `agent: coder, prompt: Do it., env: { FAKE_AGENT_SCRIPT: ${file} }`;
  };
  const used = { do: "usage", input: 42_000, output: 900 };
  const plan = [used, { do: "text", text: "Three things to do: lexer, parser, tests." }];
  const parser = [
    used,
    {
      do: "text",
      text: "The lexer does not know exponents. I add them, and a test that fails first.",
    },
    { do: "shell", command: "npm test -- exponents" },
    { do: "text", text: "As expected. Now the lexer." },
    { do: "shell", command: "npm test" },
    { do: "text", text: "All tests pass. I look for other places that read numbers." },
    wait,
  ];
  const docs = [used, { do: "text", text: "I describe the new syntax in docs/NUMBERS.md." }, wait];
  project.write(
    "feature.yaml",
    `name: feature
workspace: { snapshots: false }
budget: { usd: 5 }
prices: { fake-model: { input: 3, output: 15 } }
agents: { coder: { adapter: claude, command: ${project.path("claude")}, model: fake-model } }
steps:
  - { id: plan, ${work("plan", plan)} }
  - { id: lint, run: "echo 212 files checked" }
  - { id: parser, ${work("parser", parser)} }
  - { id: docs, needs: [lint], ${work("docs", docs)} }
  - { id: review, needs: [parser, docs], gate: "Ship it?" }
  - { id: release, run: "true" }
`,
  );
  const env = {
    CLAUDE_CONFIG_DIR: project.path("config"),
    FAKE_AGENT_HOME: home,
    PATH: `${project.path("bin")}:${process.env.PATH ?? ""}`,
  };
  const screen = new Terminal(project, SIZE, env);
  await screen.isBack();
  screen.clear();
  screen.perdure("run feature.yaml");
  await screen.shows(/All tests pass\. I look for other/);
  await screen.shows(/▶ docs .*I describe/);
  screen.key("Down");
  screen.key("Down");
  screen.key("Down");
  await screen.shows(/›▶ parser[\s\S]*─ parser@1\.1/);
  await screen.wholeScreen();
  return screen;
}

/** A window with these lines, beginning with the first line of the program. */
function svgOf(screen: readonly (readonly StyledPart[])[]): string {
  const textOf = (line: readonly StyledPart[]): string => line.map(({ text }) => text).join("");
  const first = screen.findIndex((line) => textOf(line).startsWith("Run "));
  const lines = screen.slice(Math.max(0, first));
  const width = Math.ceil(SIZE.columns * CELL_WIDTH + 2 * MARGIN);
  const height = BAR_HEIGHT + lines.length * LINE_HEIGHT + MARGIN;
  const rows = lines.flatMap((line, at) => line.map((part) => partText(part, at)));
  const dots = ["#ff5f57", "#febc2e", "#28c840"].map(
    (color, at) => `<circle cx="${20 + at * 18}" cy="15" r="5.5" fill="${color}"/>`,
  );
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="The live view of a run with two agents at work">`,
    `<rect width="${width}" height="${height}" rx="10" fill="${BACKGROUND}"/>`,
    `<path d="M0 ${BAR_HEIGHT}V10a10 10 0 0 1 10-10H${width - 10}a10 10 0 0 1 10 10V${BAR_HEIGHT}z" fill="${BAR}"/>`,
    ...dots,
    `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`,
    ...rows,
    "</g>",
    "</svg>",
  ].join("\n")}\n`;
}

function partText({ text, column, color, isBold, isDim }: StyledPart, line: number): string {
  const shown = text.trimEnd();
  if (shown === "") return "";
  const lead = shown.length - shown.trimStart().length;
  const x = (MARGIN + (column + lead) * CELL_WIDTH).toFixed(1);
  const y = BAR_HEIGHT + line * LINE_HEIGHT + BASELINE + 4;
  const words = shown.trimStart();
  const attributes = [
    `x="${x}" y="${y}" fill="${COLOURS[color] ?? COLOURS[-1]}"`,
    `textLength="${(words.length * CELL_WIDTH).toFixed(1)}"`,
    ...(isBold ? ['font-weight="bold"'] : []),
    ...(isDim ? ['opacity="0.6"'] : []),
  ];
  return `<text ${attributes.join(" ")} xml:space="preserve">${escaped(words)}</text>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
