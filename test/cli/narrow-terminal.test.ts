/**
 * The output of commands fits the terminal: the terminal breaks no row, and suggested commands can
 * be copied.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

const COLUMNS = 40;

let project: Project;
let terminal: Terminal;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

const PIPELINE = `name: a-pipeline-with-a-long-name
workspace: { snapshots: false }
steps:
  - { id: prepare-everything, run: "true" }
  - { id: test, run: "echo the parser reads 4 and not 3; exit 1" }
  - { id: publish, run: "true" }
`;

it("breaks no word in 40 columns", async () => {
  project.write("p.yaml", PIPELINE);
  await project.run(["run", "p.yaml"]);
  const id = (await project.newestId()).slice(0, 8);
  terminal = new Terminal(project, { columns: COLUMNS, rows: 60 });
  const looks = [`list`, `why`, `show`, `timeline`, `explain test`, `rewind test --dry-run`];
  const help = ["--help", "resume --help"];
  const commands = [...looks, ...help, `resume ${id} --dry-run`, `retry nothing`, `skip test`];
  for (const command of commands) {
    terminal.clear();
    terminal.perdure(command);
    await terminal.shows(/^status \d$/m);
    // After the line that was typed; a path is one word. In `text()`, lines that the terminal has broken are whole again.
    const text =
      terminal
        .text()
        .split(/status \$\?".*\n/)
        .at(-1) ?? "";
    const broken = text.split("\n").filter((line) => line.length > COLUMNS && /\S /.test(line));
    expect(broken, `perdure ${command}:\n${text}`).toEqual([]);
    if (command === "why" || command === "show") {
      expect(text).toContain(`\n  Fix the cause, then continue:\n    perdure resume ${id}\n`);
      expect(text).toContain(`\n  Skip it: perdure skip ${id} test\n`);
    }
  }
});
