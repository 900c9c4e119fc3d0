/**
 * Control sequences in the output of steps, in questions and in file names never reach a person's
 * terminal; files keep every byte.
 */
import * as fs from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

const ESC = "\u001b";
/** Clipboard, title, cursor, other screen, device query, and the same with one-character controls. */
const EVIL = [
  `${ESC}]52;c;cHduZWQ=\u0007`,
  `${ESC}]0;pwned${ESC}\\`,
  `${ESC}[7;7H`,
  `${ESC}[?1049h`,
  `${ESC}[5n`,
  `${ESC}P1$r0m${ESC}\\`,
  "\u009b7;7H",
  "\u009d0;pwned\u009c",
  "\b\b\b",
].join("");
const RED = `${ESC}[31m`;
const TEXT = `before${EVIL}${RED}after`;

let project: Project;
let terminal: Terminal;
beforeEach(() => {
  project = new PlainProject();
  project.write("evil.txt", `${TEXT}\n`);
  project.write("input.json", JSON.stringify({ text: TEXT }));
  terminal = new Terminal(project, { columns: 120, rows: 40 });
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

function expectClean(): void {
  const bytes = terminal.bytes();
  for (const part of ["]52;", "]0;", "[7;7H", "[?1049h", "[5n", "P1$r"]) {
    expect(bytes).not.toContain(`${ESC}${part}`);
  }
  // The one-character controls, as UTF-8.
  expect(bytes).not.toMatch(/\u00c2[\u0080-\u009f]/);
  expect(bytes).not.toContain("\b\b\b");
}

async function shortId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

it("are removed from a step's output, during and after the step", async () => {
  const hold = project.hold("one");
  project.write(
    "p.yaml",
    `steps:
  - id: one
    run: |
      cat evil.txt
      ${hold.command}
      cat evil.txt >&2
      exit 1
`,
  );
  terminal.perdure("run p.yaml --input @input.json");
  await hold.arrived();
  await terminal.shows(/one +running .*before.*after/);
  await hold.release();
  await terminal.shows("status 3");
  const id = await shortId();
  for (const args of [`logs ${id} one`, `logs ${id}`, `show ${id}`, `why ${id}`, `report ${id}`]) {
    terminal.clear();
    terminal.perdure(args);
    await terminal.shows("status 0");
  }
  terminal.clear();
  terminal.perdure(`logs ${id} one`);
  await terminal.shows(/before.*after/);
  expectClean();
  expect(terminal.bytes()).toContain(`${RED}after${ESC}[0m`);
});

it("are removed from a step's output for attach and logs --follow", async () => {
  const hold = project.hold("one");
  project.write("p.yaml", `steps:\n  - id: one\n    run: cat evil.txt; ${hold.command}\n`);
  const running = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const id = await shortId();
  terminal.perdure(`attach ${id}`);
  await terminal.shows(/one +running .*before.*after/);
  terminal.key("C-c");
  await terminal.shows("status 0");
  terminal.clear();
  terminal.perdure(`logs ${id} one -f`);
  await terminal.shows(/before.*after/);
  await hold.release();
  await running.ended;
  await terminal.shows("status 0");
  expectClean();
});

it("are removed from a question, from names of changed files, and from an error", async () => {
  project.write(
    "p.yaml",
    `workspace: { kind: copy }
steps:
  - { id: make, run: cp evil.txt made.txt }
  - { id: ask, gate: "Is \${{ input.text }} right?" }
`,
  );
  terminal.perdure("run p.yaml --input @input.json --no-such-option");
  await terminal.shows("status 2");
  terminal.clear();
  terminal.perdure("run p.yaml --input @input.json");
  await terminal.shows(/Is before.*after right/);
  terminal.key("C-c");
  await terminal.shows(/status \d+/);
  terminal.clear();
  terminal.perdure(`diff ${await shortId()} make --patch`);
  await terminal.shows(/\+before.*after/);
  fs.writeFileSync(project.path(`${EVIL.replaceAll("/", "")}.yaml`), "steps: 3\n");
  terminal.clear();
  terminal.perdure("validate *[!p].yaml");
  await terminal.shows("status 4");
  expectClean();
});

it("are kept byte by byte when the output is not a terminal", async () => {
  project.write("p.yaml", "steps: [{ id: one, run: cat evil.txt }]\n");
  await project.must(["run", "p.yaml"]);
  expect(await project.must(["logs", await shortId(), "one"])).toBe(`${TEXT}\n`);
});
