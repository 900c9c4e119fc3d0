/** What an agent does at this moment, as a page shows it: no event of the run holds it yet. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Dashboard } from "../rig/dashboard.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stateless, text } from "../rig/model/reply.ts";
import { Hold } from "../rig/project.ts";
import { Api, type Streamed } from "./api.ts";

it("the stream of a run tells the tool and the turns of an agent that works", async () => {
  // The model's replies are chosen before the project is there.
  const folder = mkdtempSync(join(tmpdir(), "perdure-test-"));
  const hold = new Hold(join(folder, "hold"));
  const project = await FakeClaude.open(stateless(shell(hold.command), text("Done.")));
  try {
    project.write("work.yaml", "name: work\nsteps:\n  - { id: fix, agent: claude, prompt: Go. }\n");
    const env = project.environment;
    const runner = project.begin(["run", "work.yaml"]);
    await hold.arrived();
    const id = await project.newestId();
    const api = await Api.of(await Dashboard.start(project, { env }));
    const rows = async (fits: (row: Streamed["data"]) => boolean): Promise<unknown> => {
      for await (const { data } of api.stream(`/api/runs/${id}/live`)) {
        const row = data.steps.find(({ step }: { step: string }) => step === "fix");
        if (row !== undefined && fits(row)) return row;
      }
      return undefined;
    };
    expect(await rows(({ tool }) => tool !== null)).toMatchObject({
      ...{ status: "running", tool: expect.stringContaining("read _"), turns: 1 },
    });
    await hold.release();
    const ended = await rows(({ status }) => status === "completed");
    expect(ended).toMatchObject({ tool: null, turns: 2 });
    const { runs } = await api.must("/api/runs");
    const [{ tokens, cost_usd }] = runs;
    const { overview } = await api.must(`/api/runs/${id}`);
    const { input_tokens, output_tokens } = overview.spent;
    expect([tokens, cost_usd]).toEqual([input_tokens + output_tokens, overview.spent.cost_usd]);
    expect((await runner.ended).exit).toBe(0);
  } finally {
    await project.close();
    rmSync(folder, { recursive: true });
  }
});
