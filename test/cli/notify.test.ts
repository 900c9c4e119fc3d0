/**
 * Notices about a run: shell commands and webhooks, delivered at least once by a process of their
 * own, which never delays the run.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, killProcess, PlainProject, type Project } from "../rig/project.ts";

/** What a receiver answers to one request. */
type Answer = number | "hang" | "reset";

let project: Project;
let server: Server;
let url: string;
let received: Readonly<Record<string, unknown>>[];
let answers: Answer[];

beforeEach(async () => {
  project = new PlainProject();
  received = [];
  answers = [];
  server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
    });
    request.on("end", () => {
      received.push(JSON.parse(text));
      const answer = answers.shift() ?? 200;
      if (answer === "reset") request.socket.destroy();
      else if (answer !== "hang") response.writeHead(answer).end();
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await project.remove();
});

interface Notice {
  readonly on: string;
  readonly attempts: number;
  readonly sent_at: string | null;
  readonly error: string | null;
}

async function notices(): Promise<readonly Notice[]> {
  return JSON.parse(await project.must(["show", "--json"])).notices;
}

/** Waits until every notice was sent. */
async function allSent(): Promise<readonly Notice[]> {
  const unsent = async (): Promise<number> => {
    const found = await notices();
    return found.length === 0 ? -1 : found.filter(({ sent_at }) => sent_at === null).length;
  };
  await expect.poll(unsent).toBe(0);
  return notices();
}

describe("notify", () => {
  it("notifies a command and a webhook when a gate asks and when the run completes", async () => {
    const hook = 'cat > "told-$PERDURE_NOTIFY_ON.json"; echo "$PERDURE_NOTIFY_NEXT" >> next';
    project.write("perdure.yaml", `notify: { on: [completed], run: 'echo user >> config-told' }\n`);
    project.write(
      "p.yaml",
      `name: release
secrets: [TOKEN]
notify:
  - { on: [waiting, completed], run: '${hook}' }
  - { on: [waiting, failed, completed], webhook: $HOOK }
steps:
  - { id: approve, gate: "Ship it with $TOKEN?" }
  - { id: ship, run: ${project.effect("ship")} }
`,
    );
    const env = { HOOK: url, TOKEN: "do-not-tell" };
    expect((await project.run(["run", "p.yaml"], { env })).exit).toBe(6);
    await allSent();
    const id = await project.newestId();
    expect(received).toMatchObject([
      { run_id: id, on: "waiting", step: "approve", pipeline: "release", directory: project.dir },
    ]);
    expect(project.read("next")).toContain(`perdure answer ${id.slice(0, 8)} approve`);

    await project.must(["answer", id, "approve", "approve"], { env });
    await project.must(["resume", id], { env });
    // The three receivers of the end, and the two of the question.
    await expect.poll(async () => (await notices()).length).toBe(5);
    await allSent();
    expect(received.map(({ on }) => on)).toEqual(["waiting", "completed"]);
    expect(JSON.parse(project.read("told-completed.json"))).toMatchObject({ on: "completed" });
    expect(project.read("config-told")).toBe("user\n");
    expect(await project.must(["show"])).toMatch(/notices\n {2}waiting +run cat .* sent on /);
    expect(project.effects()).toEqual({ ship: 1 });
  });

  it("retries a refused notice without delaying the run", async () => {
    answers = [503];
    project.write(
      "p.yaml",
      `notify: { on: [failed], webhook: "${url}" }\nsteps: [{ id: a, run: exit 9 }]\n`,
    );
    expect((await project.run(["run", "p.yaml"])).exit).toBe(3);
    await eventually("the first attempt", () => received.length > 0);
    await expect.poll(async () => (await notices())[0]?.error).toContain("503");
    expect(await notices()).toMatchObject([{ on: "failed", attempts: 1, sent_at: null }]);
    // A person does not wait for the next attempt; the notifier in the background may be at work.
    const sent = async (): Promise<string | null | undefined> => {
      await project.run(["notify"]);
      return (await notices())[0]?.sent_at;
    };
    await expect.poll(sent).toBeTruthy();
    expect(received.length).toBeGreaterThanOrEqual(2);
  });

  it("delivers at the next resume after its process was killed", async () => {
    answers = ["hang"];
    project.write(
      "p.yaml",
      `notify: { on: [waiting], webhook: "${url}" }
steps: [{ id: approve, gate: Go? }, { id: b, run: ${project.effect("b")} }]\n`,
    );
    expect((await project.run(["run", "p.yaml"])).exit).toBe(6);
    await eventually("a receiver that hangs", () => received.length === 1);
    const id = await project.newestId();
    const claim = () => JSON.parse(project.read(".perdure", "runs", id, "notifier.json"));
    await killProcess(claim().pid);
    await project.must(["answer", id, "approve", "approve"]);
    await project.must(["resume", id]);
    await allSent();
    expect(received.map(({ on }) => on)).toEqual(["waiting", "waiting"]);
    expect(project.effects()).toEqual({ b: 1 });
  });

  it("is checked before the run", async () => {
    project.write(
      "p.yaml",
      `notify:
  - { on: [soon], run: ls }
  - { on: [failed] }
  - { on: [failed], webhook: example.com }
steps: [{ id: a, run: ls }]\n`,
    );
    const { exit, stderr } = await project.run(["validate", "p.yaml"]);
    expect(exit).toBe(4);
    for (const place of ["p.yaml:2:", "p.yaml:3:", "p.yaml:4:"]) expect(stderr).toContain(place);
    expect(stderr).toContain("either `run` or `webhook`");
  });
});
