/** The conversation of an agent continues on another machine, after its own was destroyed. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually } from "../rig/project.ts";
import { FleetProject } from "./fleet-project.ts";

const TOOL = "echo tool >> effects; echo counted";

let claude: FakeClaude;
let fleet: FleetProject;
beforeEach(async () => {
  claude = await FakeClaude.open(stateless(shell(TOOL), stall("accept", text("?"))));
  fleet = new FleetProject();
  fleet.write(
    "p.yaml",
    `workspace: directory
steps:
  - { id: work, agent: claude, prompt: Do it. }
  - { id: next, run: cat effects }
`,
  );
});
const { HOME = "" } = process.env;
afterEach(async () => {
  process.env.HOME = HOME;
  await fleet.remove();
  await claude.close();
});

/** The directory of the transcripts of a run at a worker, as Claude Code names it. */
function transcriptsAt(worker: string, id: string): string {
  fs.mkdirSync(fleet.home(worker), { recursive: true });
  const cwd = join(fs.realpathSync(fleet.home(worker)), "runs", id, "project");
  const workspace = join(cwd, ".perdure", "runs", id, "workspace");
  const folder = workspace.replaceAll(/[^A-Za-z0-9]/g, "-");
  return join(fleet.home(worker), ".claude", "projects", folder);
}

function environment(worker: string, id: string): Record<string, string> {
  return {
    PATH: `${claude.path("bin")}:${process.env.PATH ?? ""}`,
    CLAUDE_CODE_MAX_RETRIES: "0",
    ANTHROPIC_BASE_URL: claude.model.url,
    FAKE_AGENT_HOME: transcriptsAt(worker, id),
  };
}

/** The agent has used its tool on the first machine, and waits for the model. */
async function interrupted(): Promise<string> {
  const id = await fleet.submitted();
  const worker = fleet.worker("one", id, environment("one", id));
  await eventually("the model is asked again", () => claude.model.stalls().length > 0);
  const [name = ""] = fs.readdirSync(transcriptsAt("one", id));
  const now = fs.readFileSync(join(transcriptsAt("one", id), name), "utf8");
  await fleet.storedAs(id, `transcripts/${name.replace(/\.jsonl$/, "")}`, now);
  await worker.kill("SIGKILL");
  await fleet.killStepsOf(id);
  claude.model.play(stateless(shell(TOOL), text("All done.")));
  claude.model.release();
  return id;
}

async function continued(worker: string, id: string): Promise<void> {
  const before = claude.model.requests("work").length;
  const { stdout, stderr } = await fleet.driven(worker, id, environment(worker, id));
  expect(stdout, stderr).toBe("completed\n");
  const asked = JSON.stringify(claude.model.requests("work")[before]);
  for (const words of ["Do it.", "counted", "You were interrupted"]) expect(asked).toContain(words);
  const place = fleet.at(worker, id, ".perdure", "runs", id, "workspace");
  // The file that the tool wrote is there as well, and the tool was not used again.
  expect(fs.readFileSync(join(place, "effects"), "utf8")).toBe("tool\n");
}

it("a conversation continues on another machine with its transcript and its files", async () => {
  const id = await interrupted();
  fleet.destroy("one");
  await continued("two", id);
  const { events } = await (await fleet.store()).log.load(id);
  const started = events.flatMap(({ event }) => (event.type === "step.started" ? [event] : []));
  expect(started[1]?.conversation).toMatchObject({ kind: "continue", says: "interrupted" });
  expect(fs.readdirSync(transcriptsAt("two", id))).toHaveLength(1);
});

it("a fetch replaces an older beginning of the transcript, and sets another transcript aside (F3)", async () => {
  const id = await interrupted();
  const [name = ""] = fs.readdirSync(transcriptsAt("one", id));
  const whole = fs.readFileSync(join(transcriptsAt("one", id), name), "utf8");
  for (const [worker, there] of [
    ["two", whole.slice(0, whole.indexOf("\n") + 1)],
    ["three", `${whole.slice(0, whole.indexOf("\n") + 1)}{"another":true}\n`],
  ] as const) {
    fs.mkdirSync(transcriptsAt(worker, id), { recursive: true });
    fs.writeFileSync(join(transcriptsAt(worker, id), name), there);
    process.env.HOME = fleet.home(worker);
    await fleet.fetched(worker, id);
    expect(fs.readFileSync(join(transcriptsAt(worker, id), name), "utf8")).toBe(whole);
  }
  const aside = (worker: string): string =>
    join(fleet.home(worker), "runs", `${id}.earlier`, "transcripts", name);
  expect(fs.existsSync(aside("two"))).toBe(false);
  expect(fs.readFileSync(aside("three"), "utf8")).toContain("another");
});
