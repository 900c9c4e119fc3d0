/** The material that a gate shows with its question stays as it was when the gate asked. */
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
  const git = (...args: readonly string[]): void => {
    execFileSync("git", args, { cwd: project.dir, stdio: "ignore" });
  };
  git("init");
  project.write("plan.md", "Ship on Monday.\n");
  git("add", "-A");
  git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "first");
  project.write(
    "p.yaml",
    `steps:
  - { id: test, run: "echo 12 tests passed; echo Ship on Tuesday. > plan.md; echo x > new.md" }
  - id: approve
    gate:
      ask: Ship it?
      show: [plan.md, diff, "\${{ results.test.output }}", missing.md]
  - { id: ship, run: "${project.effect("ship")}" }
`,
  );
});
afterEach(() => project.remove());

describe("a gate with material", () => {
  it("names the material with its question, and show prints it as it was", async () => {
    const waits = await project.run(["run", "p.yaml"]);
    expect(waits.exit).toBe(6);
    expect(waits.stdout).toContain("(shows plan.md, diff, results.test.output, missing.md)");
    const id = (await project.newestId()).slice(0, 8);
    project.write("plan.md", "Never ship.\n");
    const shown = await project.must(["show", id, "approve"]);
    expect(shown).toContain("── plan.md ──\nShip on Tuesday.\n");
    expect(shown).toContain("-Ship on Monday.\n+Ship on Tuesday.\n");
    expect(shown).toContain("new file: new.md\n");
    expect(shown).toContain("── results.test.output ──\n12 tests passed\n");
    expect(shown).toContain("── missing.md ──\n(there is no such file)\n");
    expect(shown).not.toContain("Never ship");
    expect(await project.must(["show", id])).toContain("(shows plan.md, diff");
    expect((await project.run(["why", id])).stdout).toContain(`perdure show ${id} approve`);
    expect(await project.must(["answer", id])).toContain(`perdure show ${id} approve`);
    const json = JSON.parse(await project.must(["show", id, "approve", "--json"]));
    expect(json.material[0]).toMatchObject({ name: "plan.md", text: "Ship on Tuesday.\n" });
    await project.must(["answer", id, "approve", "approve"]);
    await project.must(["resume", id]);
    expect(project.effects()).toEqual({ ship: 1 });
    expect(await project.must(["show", id, "approve"])).toContain("Ship on Tuesday.");
    const none = await project.run(["show", id, "ship"]);
    expect(none.exit).toBe(2);
  });

  it("shows the material at the terminal with ?", async () => {
    const terminal = new Terminal(project, { columns: 100, rows: 40 });
    try {
      terminal.perdure("run p.yaml");
      await terminal.shows("? shows plan.md");
      terminal.type("?");
      await terminal.shows("── results.test.output ──");
      await terminal.shows("+Ship on Tuesday.");
      terminal.type("a");
      await terminal.shows("status 0");
    } finally {
      terminal.close();
    }
    expect(project.effects()).toEqual({ ship: 1 });
  });
});
