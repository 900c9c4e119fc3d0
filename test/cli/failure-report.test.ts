/**
 * An agent that a failure leads to learns what failed and how, without instructions by its author.
 */
import { afterEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { stateless, text } from "../rig/model/reply.ts";
import { PlainProject } from "../rig/project.ts";

describe("an agent that is only a command", () => {
  const project = new PlainProject();
  afterEach(() => project.remove());

  it("learns of each failure that leads to it, as in the loop of the README", async () => {
    project.write(
      "p.yaml",
      `agents: { fixer: 'cat > "prompt$(ls prompt* 2>/dev/null | wc -l | tr -d " ")"' }
steps:
  - id: test
    run: |
      n=$(ls prompt* 2>/dev/null | wc -l | tr -d " ")
      echo "FAIL parser.test: expected 3, got $n"
      test "$n" = 2
    on_failure: fix
    max_visits: 5
    stall_after: 9
  - { id: ship, run: echo shipped }
  - { id: fix, needs: [], agent: fixer, prompt: Make the failing tests pass., goto: test }
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(
      project.read("prompt0"),
    ).toBe(`The step before this one has failed. Step test@1 failed: it exited with 1.
Its command:
> n=$(ls prompt* 2>/dev/null | wc -l | tr -d " ")
> echo "FAIL parser.test: expected 3, got $n"
> test "$n" = 2
>
The end of what it printed:
> FAIL parser.test: expected 3, got 0

---

Make the failing tests pass.`);
    expect(project.read("prompt1")).toContain("Step test@2 failed: it exited with 1.");
    expect(project.read("prompt1")).toContain("> FAIL parser.test: expected 3, got 1\n");
  });
});

describe("an agent with an adapter", () => {
  let project: FakeClaude;
  afterEach(() => project.close());

  it("learns of a failure in a shared conversation, too, and of a failure inside a group", async () => {
    project = await FakeClaude.open(stateless(text("Done.")));
    project.write(
      "p.yaml",
      `steps:
  - { id: plan, agent: claude, prompt: Make a plan., session: dev }
  - id: checks
    steps:
      - { id: lint, run: 'echo "line 7: no semicolon" >&2; exit 2' }
    on_failure: fix
  - { id: ship, run: echo shipped }
  - { id: fix, needs: [], agent: claude, session: dev, prompt: Repair it. }
`,
    );
    const { exit, stdout } = await project.finish(["run", "p.yaml"]);
    expect(exit, stdout).toBe(0);
    const [planned, fixed] = project.model.requests("work");
    const asked = JSON.stringify(fixed);
    expect(asked).toContain("Step checks@1 failed: a step in it failed.");
    expect(asked).toContain("Step checks@1.1[0]/lint@1 failed: it exited with 2.");
    expect(asked).toContain("> line 7: no semicolon");
    expect(asked).toContain("Repair it.");
    expect(JSON.stringify(planned)).not.toContain("failed");
  });
});
