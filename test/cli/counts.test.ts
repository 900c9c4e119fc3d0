/** How many steps are completed, in every view. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

it("does not count a step that failed or was not reached", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: triage
    run: echo size=small >> $PERDURE_CONTEXT
    edges: [{ to: small, when: "context.size == 'small'" }, { to: big }]
  - { id: small, run: exit 1, needs: [], on_failure: continue }
  - { id: big, run: echo, needs: [] }
`,
  );
  await project.must(["run", "p.yaml"]);
  const { runs } = JSON.parse(await project.must(["list", "--json"])) as { runs: object[] };
  const shown = JSON.parse(await project.must(["show", "--json"])) as Record<string, unknown>;
  for (const counts of [runs[0], shown]) {
    expect(counts).toMatchObject({ status: "completed", steps_completed: 1, steps_total: 3 });
  }
  expect(await project.must(["why"])).toContain(
    "1 of 3 steps completed: triage; 1 failed: small; 1 not needed: big.",
  );
});
