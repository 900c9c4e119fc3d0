/**
 * Steps that report their outcome in a status file, which is read from a real process and kept
 * after a kill.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { PlainProject, type Project } from "../rig/project.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const tells = (status: unknown): string =>
  `printf '%s' '${JSON.stringify(status)}' > "$PERDURE_STATUS_FILE"`;

it("chooses the edge that the step asks for, and passes on its values", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: review
    run: |
      ${tells({
        ...{ status: "SUCCEEDED", preferred_next_label: "fix it", notes: "two mistakes" },
        context_updates: { count: 2 },
      })}
    edges: [{to: ship, weight: 5}, {to: fix, label: "[F] Fix it"}]
  - {id: ship, needs: [], run: "${project.effect("ship")}"}
  - {id: fix, needs: [], run: "${project.effect("fix-${{ context.count }}-${{ results.review.outcome }}")}"}
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.effects()).toEqual({ "fix-2-success": 1 });
  expect(await project.must(["show"])).toContain('success, label "fix it": two mistakes');
});

it("follows the edge of an earlier outcome, without a process", async () => {
  project.write(
    "p.yaml",
    `steps:
  - {id: find, run: "echo outcome=port >> $PERDURE_CONTEXT"}
  - {id: meet, pass: true, edges: [{to: port, when: outcome == "port"}, {to: other}]}
  - {id: port, needs: [], run: "${project.effect("port")}"}
  - {id: other, needs: [], run: "${project.effect("other")}"}
`,
  );
  await project.must(["run", "p.yaml"]);
  expect(project.effects()).toEqual({ port: 1 });
  expect(await project.must(["graph"])).toContain("meet");
});

it("retries a step that asks for it, and fails a step at once that says so", async () => {
  project.write(
    "p.yaml",
    `steps:
  - id: again
    retry: {attempts: 3, backoff: 1ms}
    run: |
      ${project.effect("again")}
      test "$PERDURE_ATTEMPT" = 3 || ${tells({ outcome: "retry" })}
  - id: fails
    retry: 3
    run: |
      ${project.effect("fails")}
      ${tells({ outcome: "fail", notes: "no tests were found" })}
`,
  );
  const failed = await project.run(["run", "p.yaml"]);
  expect(failed.exit).toBe(3);
  expect(failed.stdout).toContain("it reported a failure: no tests were found");
  expect(project.effects()).toEqual({ again: 3, fails: 1 });
});

it("fails a step with an invalid status file, and says what is wrong", async () => {
  const wrong: readonly (readonly [string, string])[] = [
    ["{", "is not JSON"],
    ["[]", "is no JSON object"],
    ['{"outcome": 3}', "has a `outcome` that is no text"],
    ['{"suggested_next_ids": "a"}', "has `suggested_next_ids` that is no list of texts"],
    ['{"context_updates": []}', "has `context_updates` that is no object"],
    ['{"context_updates": {"a b": 1}}', 'has the key "a b", which no context can have'],
  ];
  const steps = wrong.map(
    ([text], index) =>
      `  - {id: s${index}, needs: [], run: "printf %s '${text.replaceAll('"', '\\"')}' > $PERDURE_STATUS_FILE"}`,
  );
  project.write("p.yaml", `steps:\n${steps.join("\n")}\n`);
  expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
  const shown = await project.must(["show"]);
  for (const [, words] of wrong) expect(shown).toContain(words);
});
