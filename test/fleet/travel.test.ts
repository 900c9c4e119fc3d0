/** A run that moves between machines through a store: its files, branches, outputs and transcripts. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { userGit } from "../workspace/rig.ts";
import { FleetProject, initGit } from "./fleet-project.ts";

let fleet: FleetProject;
beforeEach(() => {
  fleet = new FleetProject();
});
afterEach(() => fleet.remove());

describe("a submitted run", () => {
  const kinds = [
    ["here, with git", "workspace: here", true],
    ["here, without git", "workspace: here", false],
    ["here, without snapshots", "workspace: { snapshots: false }", true],
    ["a worktree", "workspace: worktree", true],
    ["a directory", "workspace: directory", false],
    ["a copy", "workspace: copy", true],
  ] as const;
  it.each(kinds)("completes on a worker: %s", async (_name, workspace, hasGit) => {
    if (hasGit) initGit(fleet.dir);
    else fleet.write("a.txt", "a\n");
    fleet.write("new.txt", "not committed\n");
    fleet.write(
      "p.yaml",
      `name: moving
${workspace}
steps:
  - id: one
    run: |
      ${fleet.effect("one")}
      ls > "$PERDURE_OUTPUT_SEEN"
      echo changed >> a.txt
    outputs: { seen: out/seen }
  - { id: two, run: "cat \${{ outputs.one.seen }} a.txt > result.txt; ${fleet.effect("two")}" }
`,
    );
    const id = await fleet.submitted();
    const { exit, stdout, stderr } = await fleet.driven("one", id);
    expect({ exit, stdout, stderr }).toEqual({ exit: 0, stdout: "completed\n", stderr: "" });
    expect(fleet.effects()).toEqual({ one: 1, two: 1 });
    const kind = /worktree|directory|copy/.exec(workspace)?.[0];
    const place =
      kind === undefined
        ? fleet.at("one", id)
        : fleet.at("one", id, ".perdure", "runs", id, "workspace");
    const result = fs.readFileSync(join(place, "result.txt"), "utf8");
    const seen =
      { worktree: "a.txt", directory: "out" }[kind ?? ""] ?? "a.txt\nnew.txt\nout\np.yaml";
    expect(result).toContain(`${seen}\n`);
    expect(result).toContain("changed\n");
    if (!hasGit) return;
    const status = userGit(fleet.at("one", id), "log", "--format=%s", "-1", "main");
    expect(status.trim()).toBe("first");
  });
});
