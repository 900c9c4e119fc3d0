/**
 * On a real terminal the live view is readable, and the terminal stays usable whatever happens.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, type Hold, PlainProject, type Project } from "../rig/project.ts";
import { Terminal, type TerminalSize } from "../rig/terminal.ts";

let project: Project;
let terminal: Terminal;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

const SMALL = { columns: 80, rows: 24 };
const LARGE = { columns: 120, rows: 50 };
/** More steps than the view has room for. */
const MANY = 50;
/** Enough where the size of the view does not matter: each step is a process. */
const FEW = 6;

/** Steps, one of which is held in the middle. */
function heldSteps(count: number): Hold {
  const hold = project.hold("held");
  const steps = Array.from({ length: count }, (_, at) => {
    const say = `echo part ${at} of a line that is longer than eighty columns ${"-".repeat(60)}`;
    const run = at === count / 2 ? `${say}; ${hold.command}` : say;
    return `  - id: step-${String(at).padStart(2, "0")}\n    run: ${run}\n`;
  });
  project.write("p.yaml", `name: held\nsteps:\n${steps.join("")}`);
  return hold;
}

async function runHeld(size: TerminalSize, count: number): Promise<Hold> {
  const hold = heldSteps(count);
  terminal = new Terminal(project, size);
  terminal.perdure("run p.yaml");
  await hold.arrived();
  await terminal.shows(count === MANY ? /▶ step-25 +running/ : /▶ step-03 +running/);
  return hold;
}

async function shortId(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

describe.each([SMALL, LARGE])("a terminal of $columns x $rows", (size) => {
  it("shows running steps while they run, and all steps at the end", async () => {
    const hold = await runHeld(size, MANY);
    await terminal.shows(/▶ step-25 +running +\S+ +part 25 of a line/);
    await terminal.shows(/^─ step-25@1\.1 ─+\n {2}part 25 of a line/m);
    const id = await shortId();
    const screen = terminal.screen();

    expect(screen.length).toBeLessThanOrEqual(size.rows);
    expect(screen.join("\n")).toMatch(new RegExp(`^ held {2}${id} {2}▕█+░+▏ {2}25/50 {2}`, "m"));
    expect(screen.filter((line) => line.includes("▶ step-25"))).toHaveLength(1);
    expect(screen.join("\n")).toMatch(/✓ (\d+ more completed|step-00 +completed)/);
    expect(screen.join("\n")).toMatch(/✓ step-24 +completed/);
    expect(screen.join("\n")).toMatch(/· step-26 +pending/);
    expect(terminal.isCursorVisible()).toBe(true);
    await hold.release();
    await terminal.shows("status 0");
    const text = terminal.text();

    expect(text).toContain(`✓ Run ${id} (held) completed in `);
    expect(text.match(/^✓ step-\d\d completed in .*\n {2}│ part \d+ of a line/gm)).toHaveLength(
      MANY,
    );
    expect(text).not.toContain("▕");
    await terminal.isBack();
  });
});

it("stops the run on Ctrl-C, and prints the command that continues it", async () => {
  await runHeld(SMALL, FEW);
  const id = await shortId();
  terminal.key("C-c");
  await terminal.shows("status 130");

  const text = terminal.text();
  expect(text).toContain(`Run ${id} (held) was stopped by SIGINT (Ctrl-C).`);
  expect(text).toContain(`Continue: perdure resume ${id}`);
  expect(text).toMatch(/^‖ step-03 interrupted/m);
  await terminal.isBack();
});

it("leaves a usable terminal after kill -9, and resume draws the rest", async () => {
  const hold = await runHeld(SMALL, FEW);
  const [owner] = [...(await project.must(["why"])).matchAll(/pid (\d+)/g)];
  process.kill(Number(owner?.[1]), "SIGKILL");
  await terminal.shows("status 137");
  expect(terminal.isCursorVisible()).toBe(true);
  terminal.type("echo still $((40 + 2)) here");
  await terminal.shows("still 42 here");
  terminal.clear();
  terminal.perdure("resume");
  await terminal.shows(/Resuming run \S+ of held from\s+step\s+4\s+of\s+6:\s+step-03/);
  await terminal.shows(/▶ step-03 +running/);
  await hold.release();
  await terminal.shows("status 0");
});

it("lets the run continue to its end when the terminal is closed", async () => {
  const hold = await runHeld(SMALL, FEW);
  terminal.close();
  await hold.release();
  const attached = await project.run(["attach"]);
  expect(attached.exit, attached.stderr).toBe(0);
  expect(attached.stdout).toMatch(/✓ Run \w+ \(held\) completed in .*\n {2}6 steps\n/);
});

it("redraws a window that gets smaller, without remains", async () => {
  const hold = await runHeld(LARGE, MANY);
  await terminal.resize(SMALL);
  await eventually("the view fits", () => terminal.screen().length <= SMALL.rows);
  await hold.release();
  await terminal.shows("status 0");
  expect(terminal.text()).toMatch(/✓ Run \w+ \(held\) completed in .*\n {2}50 steps\n/);
});

describe("a run of a pipeline that has an unfinished run", () => {
  async function asked(): Promise<{ id: string; hold: Hold }> {
    const hold = await runHeld(SMALL, FEW);
    const id = await shortId();
    await project.must(["stop"]);
    await terminal.shows("status 143");
    terminal.clear();
    terminal.perdure("run p.yaml");
    await terminal.shows(`Run ${id} of p.yaml is unfinished (3 of 6 steps completed).`);
    await terminal.shows("[r]esume it, [s]kip");
    await terminal.shows("or [a]bort?");
    return { id, hold };
  }

  it("asks, and resumes it with r", async () => {
    const { id, hold } = await asked();
    terminal.type("r");
    await terminal.shows(`Resuming run ${id}`);
    await hold.release();
    await terminal.shows("status 0");
    expect(await project.runIds()).toHaveLength(1);
  });

  it("asks, and skips the interrupted step and resumes with s", async () => {
    await asked();
    terminal.type("s");
    await terminal.shows("status 0");
    expect(await project.runIds()).toHaveLength(1);
    expect(await project.must(["show"])).toMatch(/skipped .*by \S+@/);
  });

  it("asks, and watches a living run with w", async () => {
    const hold = heldSteps(FEW);
    const other = project.start(["run", "p.yaml"]);
    await hold.arrived();
    terminal = new Terminal(project, SMALL);
    terminal.perdure("run p.yaml");
    await terminal.shows("[w]atch it, start a [n]ew run, or [a]bort?");
    terminal.type("w");
    await terminal.shows(`Attached to run ${await shortId()}`);
    await hold.release();
    await terminal.shows("status 0");
    expect((await other.ended).exit).toBe(0);
    expect(await project.runIds()).toHaveLength(1);
  });

  it("asks, and changes nothing after Ctrl-C or an empty answer", async () => {
    await asked();
    terminal.key("C-c");
    await terminal.shows("status 130");
    terminal.clear();
    terminal.perdure("run p.yaml");
    await terminal.shows("or [a]bort?");
    terminal.key("Enter");
    await terminal.shows("Nothing was started.");
    await terminal.shows("status 130");
    expect(await project.runIds()).toHaveLength(1);
    expect(terminal.text()).not.toContain("Warning");
  });
});
