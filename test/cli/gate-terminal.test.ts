/** Questions on a real terminal: asked while the run continues, in a view that stays readable. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
let terminal: Terminal;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(async () => {
  terminal.close();
  await project.remove();
});

const SIZE = { columns: 100, rows: 24 };

function write(...steps: readonly string[]): void {
  const list = steps.map((step) => `  - ${step}`).join("\n");
  project.write("p.yaml", `workspace: { snapshots: false }\nname: release\nsteps:\n${list}\n`);
}

function open(args = "run p.yaml"): void {
  terminal = new Terminal(project, SIZE);
  terminal.perdure(args);
}

it("asks below the steps while others continue, and accepts the answer", async () => {
  const hold = project.hold("slow");
  write(
    `{id: slow, needs: [], run: "echo working; ${hold.command}"}`,
    '{id: approve, needs: [], gate: "Ship it?\\nAll of it?"}',
    `{id: ship, run: "${project.effect("ship")}"}`,
  );
  open();
  await terminal.shows("◆ approve asks: Ship it?");
  await hold.arrived();
  terminal.key("mayb");
  await terminal.shows(/> mayb$/m);
  terminal.key("e");
  terminal.key("Enter");
  await terminal.shows('there is no choice "maybe": choose one of [A] approve, [R] reject');
  const screen = terminal.screen().join("\n");
  expect(screen).toMatch(/▶ slow +running .*working/);
  expect(screen).toContain("All of it?");
  expect(screen.match(/◆ approve asks/g)).toHaveLength(1);
  expect(terminal.isCursorVisible()).toBe(true);
  terminal.type("a looks good");
  await terminal.shows(/✓ ship +completed/);
  await hold.release();
  await terminal.shows("status 0");
  await terminal.isBack();

  const text = terminal.text();
  expect(text).not.toContain("▕");
  expect(text).not.toContain("> a looks good");
  const said = await project.must(["logs", (await project.runIds())[0] ?? "", "approve"]);
  expect(said).toMatch(/\S+@\S+ answered "approve" \(terminal\): looks good/);
  // The terminal is as it was: what is typed is seen, and lines are lines.
  terminal.type("echo back-again");
  await terminal.shows("back-again\nback-again");
});

it("withdraws the question when another person has answered it", async () => {
  write('{id: approve, gate: "Ship it?"}', `{id: ship, run: "${project.effect("ship")}"}`);
  open();
  await terminal.shows("◆ approve asks: Ship it?");
  const [id = ""] = await project.runIds();
  await project.must(["answer", id, "approve", "approve"]);
  await terminal.shows("status 0");
  expect(project.effects()).toEqual({ ship: 1 });
});

it("stops the run on Ctrl-C, and leaves the question to others on Ctrl-D", async () => {
  write('{id: approve, gate: "Ship it?"}');
  open();
  await terminal.shows("◆ approve asks: Ship it?");
  terminal.key("C-c");
  await terminal.shows("status 130");
  await terminal.isBack();
  terminal.perdure("resume");
  await eventually("it asks again", () => terminal.text().split("◆ approve asks").length >= 2);
  await terminal.shows(/^> $|^>$/m);
  terminal.key("C-d");
  await terminal.shows("status 6");
});

it("asks an attached person, and in plain lines, too", async () => {
  write(
    '{id: approve, gate: "Ship it?"}',
    '{id: again, gate: "Really?"}',
    `{id: ship, run: "${project.effect("ship")}"}`,
  );
  await project.must(["run", "p.yaml", "--detach", "--stay"]);
  open("attach");
  await terminal.shows("◆ approve asks: Ship it?");
  terminal.type("approve");
  await terminal.shows("◆ again asks: Really?");
  terminal.key("C-c");
  await terminal.isBack();
  terminal.perdure("attach --plain");
  await terminal.shows("Type an answer to again: [A] approve, [R] reject");
  terminal.type("A");
  await terminal.shows("status 0");
  expect(project.effects()).toEqual({ ship: 1 });
});
