/** The keys of the live view on a real terminal, and their effect on the run. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, type Hold, PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
let terminal: Terminal;
let hold: Hold;
beforeEach(() => {
  project = new PlainProject();
  hold = project.hold("build");
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

const SIZE = { columns: 100, rows: 30 };

/** A step is done, one is held after twenty lines, one comes after it. */
async function held(args = "run p.yaml"): Promise<void> {
  project.write(
    "p.yaml",
    `workspace: { snapshots: false }
name: release
steps:
  - { id: plan, run: "echo planned; ${project.effect("plan")}" }
  - { id: build, run: "seq -f 'line %g' 1 20; ${project.effect("build")}; ${hold.command.replaceAll('"', '\\"')}" }
  - { id: ship, run: "echo shipped; ${project.effect("ship")}" }
`,
  );
  terminal = new Terminal(project, SIZE);
  terminal.perdure(args);
  await hold.arrived();
  await terminal.shows(/─ build@1\.1 ─[\s\S]*line 20/);
}

function screen(): string {
  return terminal.screen().join("\n");
}

async function screenShows(text: RegExp): Promise<void> {
  await eventually(`the screen shows ${text}`, () => text.test(screen())).catch((error) => {
    throw new Error(`${String(error)}; it shows:\n${screen()}`);
  });
}

it("choose a step, expand it, scroll, and return to the newest output", async () => {
  await held();
  expect(screen()).not.toContain("  line 5\n");
  terminal.key("Enter");
  await screenShows(/─ build@1\.1 ─+\n {2}line 1\n/);
  terminal.key("k");
  await screenShows(/›▶ build/);
  terminal.key("Up");
  await screenShows(/›✓ plan[\s\S]*─ plan@1\.1 ─+\n {2}planned\n/);
  terminal.key("Escape");
  await screenShows(/ ✓ plan[\s\S]*─ build@1\.1 ─/);
  terminal.key("?");
  await screenShows(/─ keys ─[\s\S]*detach: the run continues in the background/);
  terminal.key("?");
  await screenShows(/─ build@1\.1 ─/);
  await hold.release();
  await terminal.shows("status 0");
  expect(project.effects()).toEqual({ plan: 1, build: 1, ship: 1 });
});

it("stop the run after the running step with s", async () => {
  await held();
  terminal.key("s");
  await screenShows(/stopping after the steps/);
  await hold.release();
  await terminal.shows("status 143");
  expect(terminal.text()).toMatch(/‖ Run \w+ \(release\) was stopped by \S+ \(key s\)\./);
  expect(project.effects()).toEqual({ plan: 1, build: 1 });
});

it("leave the run to the background with d, without starting its step again", async () => {
  await held();
  terminal.key("d");
  await terminal.shows(/Run \S+ runs in the background as process \d+\nSee it: perdure attach/);
  await terminal.shows("status 0");
  expect(screen()).not.toContain("▕");
  terminal.perdure("attach");
  await screenShows(/▶ build +running/);
  await hold.release();
  await terminal.shows(/✓ Run \w+ \(release\) completed in /);
  expect(project.effects()).toEqual({ plan: 1, build: 1, ship: 1 });
});

it("redraw a window of any size", async () => {
  await held();
  for (const size of [
    { columns: 40, rows: 12 },
    { columns: 200, rows: 50 },
    { columns: 60, rows: 3 },
    { columns: 80, rows: 24 },
  ]) {
    await terminal.resize(size);
    await eventually(`${size.columns} x ${size.rows}`, () => {
      const lines = terminal.screen();
      return lines.length <= size.rows && lines.some((line) => line.includes("▶ build"));
    });
    expect(terminal.isCursorVisible()).toBe(true);
  }
  await hold.release();
  await terminal.shows("status 0");
});

it("suspend the view with Ctrl-Z, and redraw it after fg", async () => {
  await held();
  terminal.key("\u001a");
  await terminal.shows(/Stopped/);
  terminal.type("echo between $((40 + 2))");
  await terminal.shows("between 42");
  terminal.type("fg");
  await eventually("it is drawn again", () => /between 42[\s\S]*▶ build/.test(terminal.text()));
  await hold.release();
  await terminal.shows(/✓ Run \w+ \(release\) completed in /);
  expect(project.effects()).toEqual({ plan: 1, build: 1, ship: 1 });
});
