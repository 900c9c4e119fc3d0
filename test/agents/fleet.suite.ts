/**
 * Real agents on a fleet: the machine that drives a run is destroyed in the middle of a
 * conversation, with its disk and the agent's home, and the worker of another machine continues the
 * conversation.
 */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { textOf } from "../../src/app/fleet/stored-parts.ts";
import type { FleetJournal } from "../../src/journal/journal.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { findMarked, runMarker } from "../../src/runner/process/sweep.ts";
import { conversationOf } from "../rig/model/conversation.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import { newDatabase } from "../rig/postgres.ts";
import { killProcess, type Program } from "../rig/project.ts";
import { AgentProject, CHOSEN } from "./agent-project.ts";

/** A lease runs out, and an agent starts. */
const PATIENCE = { timeout: 60_000, interval: 100 };

let store: string;
let journal: FleetJournal;
beforeEach(async () => {
  store = await newDatabase();
  journal = await openPostgresJournal(store, { mode: "create" });
});
afterEach(() => journal.close());

/** A machine with a directory and a home of its own, and its worker. */
interface AgentMachine {
  readonly project: AgentProject;
  readonly supervisor: Program;
}

async function machineBeside(origin: AgentProject): Promise<AgentMachine> {
  const project = await AgentProject.beside(origin);
  const args = ["worker", "--directory", project.path("worker")];
  const supervisor = project.begin(args, { PERDURE_STORE: store });
  await supervisor.printed("takes runs");
  return { project, supervisor };
}

/** Kills everything of a machine at once, and removes its disk. */
async function destroy({ project, supervisor }: AgentMachine, runId: string): Promise<void> {
  const { pid } = JSON.parse(project.read("worker", "process.json")) as { pid: number };
  // First the supervisor, which would start the worker again.
  const ended = supervisor.kill("SIGKILL");
  await Promise.all([pid, ...findMarked(runMarker(runId))].map(killProcess));
  await ended;
  await expect.poll(() => findMarked(runMarker(runId)), PATIENCE).toEqual([]);
  fs.rmSync(project.dir, { recursive: true });
}

/** What the store has of the conversations of a run. */
async function storedConversations(runId: string): Promise<string> {
  const { files } = await journal.files.changedSince(runId, 0);
  const transcripts = files.filter(({ path }) => path.startsWith("transcripts/"));
  return (await Promise.all(transcripts.map((file) => textOf(journal.blobs, file)))).join("\n");
}

async function eventsOf(runId: string): Promise<readonly { readonly type: string }[]> {
  return (await journal.log.load(runId)).events.map(({ event }) => event);
}

const SHOWN = CHOSEN.filter((name) => agentAdapter(name)?.transcriptTarget !== undefined);
describe.each(SHOWN)("%s", (agent) => {
  it("continues its conversation on another machine after its own was destroyed", async () => {
    const origin = await AgentProject.forTest(agent);
    const { model } = origin;
    // What it prints is not in the command itself.
    const counted = shell(`${origin.effect("tool")}; echo kept > kept; printf 'count%s' ed`);
    model.play(stateless(counted, stall("middle", text("All done."))));
    origin.pipeline("Do it.");
    origin.write("p.yaml", `workspace: directory\n${origin.read("p.yaml")}`);
    const first = await machineBeside(origin);
    const submitted = await origin.begin(["submit", "p.yaml", "--json"], { PERDURE_STORE: store })
      .ended;
    const { run_id: runId } = JSON.parse(submitted.stdout) as { run_id: string };
    await model.stalled();
    await expect.poll(() => storedConversations(runId), PATIENCE).toMatch(/counted/);
    await destroy(first, runId);
    const before = model.requests("work").length;
    model.release();

    const second = await machineBeside(origin);
    await expect
      .poll(async () => (await eventsOf(runId)).at(-1)?.type, PATIENCE)
      .toBe("run.completed");
    const request = model.requests("work")[before];
    const turns = request === undefined ? [] : conversationOf(request);
    for (const turn of [
      { type: "user", text: "Do it." },
      { type: "result", text: expect.stringContaining("counted") },
      { type: "user", text: expect.stringContaining("You were interrupted") },
    ]) {
      expect(turns).toContainEqual(expect.objectContaining(turn));
    }
    expect(origin.effects()).toEqual({ tool: 1, next: 1 });
    const started = (await eventsOf(runId)).filter(({ type }) => type === "step.started");
    expect(started[1]).toMatchObject({ step: "work", conversation: { kind: "continue" } });
    const place = ["worker", "runs", runId, "project", ".perdure", "runs", runId, "workspace"];
    expect(second.project.read(...place, "kept")).toBe("kept\n");
    await second.supervisor.kill("SIGTERM");
    await second.project.remove();
  });
});
