/** Views of many runs: `list --all-projects`, `inbox` and `cost`, over two projects. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { stateless, text } from "../rig/model/reply.ts";
import { PlainProject, type Project } from "../rig/project.ts";

const PRICES = "prices: { fake-model: { input: 1000, output: 2000 } }\n";

let here: FakeClaude;
let there: Project;
/** Both projects belong to one user. */
const env = (): Readonly<Record<string, string>> => ({ XDG_STATE_HOME: here.stateHome });

beforeAll(async () => {
  here = await FakeClaude.open(stateless(text("Done.")));
  const agent = "steps: [{ id: work, agent: claude, prompt: Do it. }]\n";
  here.write("paid.yaml", `name: paid\n${PRICES}${agent}`);
  for (const _ of ["first", "second"]) {
    const { exit, stdout } = await here.finish(["run", "paid.yaml"]);
    expect(exit, stdout).toBe(0);
  }
  there = new PlainProject();
  const release = "  - { id: approve, gate: 'Ship it?' }\n  - { id: ship, run: echo shipped }\n";
  there.write("release.yaml", `name: release\nsteps:\n${release}`);
  expect((await there.run(["run", "release.yaml"], { env: env() })).exit).toBe(6);
});

afterAll(async () => {
  await there.remove();
  await here.close();
});

async function read(args: readonly string[]): Promise<{ readonly [key: string]: unknown }> {
  return JSON.parse(await here.must([...args, "--json"], { env: env() }));
}

describe("list --all-projects", () => {
  it("lists the runs of every project with their directories, the newest first", async () => {
    const { runs } = await read(["list", "--all-projects"]);
    expect(runs).toMatchObject([
      { pipeline: "release", status: "waiting", directory: there.dir },
      { pipeline: "paid", directory: here.dir },
      { pipeline: "paid", directory: here.dir },
    ]);
    const table = await here.must(["list", "--all-projects", "-n", "1"], { env: env() });
    expect(table.split("\n")[0]).toMatch(/^PIPELINE-ID .* PROJECT$/);
    expect(table).toContain(there.dir);
    expect(table).not.toContain("paid");
  });
});

describe("inbox", () => {
  it("shows the open questions of all projects, and the command that answers", async () => {
    expect(await read(["inbox"])).toMatchObject({
      questions: [{ directory: there.dir, step: "approve", question: "Ship it?", answered: false }],
      uncertain: [],
    });
    const lines = (await here.must(["inbox"], { env: env() })).split("\n");
    const command =
      lines
        .find((line) => line.includes("perdure -C"))
        ?.trim()
        .split(" ") ?? [];
    expect(command.slice(1, 3)).toEqual(["-C", there.dir]);

    await here.must([...command.slice(1), "approve"], { env: env() });
    await there.must(["resume"], { env: env() });
    expect(await here.must(["inbox"], { env: env() })).toBe("Nothing waits for a person.\n");
  });
});

describe("cost", () => {
  it("adds up what agents used, grouped as asked", async () => {
    // Each run: 100 tokens in at $1000, 20 out at $2000 for a million.
    const row = { runs: 2, tokens: 240, usd: expect.closeTo(0.28, 6) };
    const rows = [{ pipeline: "paid", model: "fake-model", agent: "claude", ...row }];
    const costs = await read(["cost", "--since", "400d", "--by", "pipeline,model,agent"]);
    expect(costs).toMatchObject({ by: ["pipeline", "model", "agent"], total: row, rows });

    const text = await here.must(["cost", "--by", "project", "--all-projects"], { env: env() });
    expect(text.split("\n")[0]).toMatch(/^PROJECT +RUNS +TOKENS +COST +SHARE$/);
    expect(text).toMatch(/ 2 +240 +\$0\.28 +100%$/m);
    expect(await there.must(["cost"], { env: env() })).toMatch(/^No agent has used anything since/);
  });

  it("names the values of --by and --since", async () => {
    for (const [args, named] of [
      [["--by", "colour"], "pipeline, model, agent, day, project"],
      [["--since", "soon"], "12h or 30d"],
    ] as const) {
      const { exit, stderr } = await here.run(["cost", ...args], { env: env() });
      expect(exit).toBe(2);
      expect(stderr).toContain(named);
    }
  });
});
