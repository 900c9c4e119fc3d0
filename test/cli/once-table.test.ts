/**
 * A step that must not happen twice does not, whatever its exit status was and whatever brings it
 * back (P4). The effect is counted after each repetition; the step has its effect and then ends as
 * the row says.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, PlainProject, type Project } from "../rig/project.ts";
import { Terminal } from "../rig/terminal.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

const ENDS = {
  "exit 0": "exit 0",
  "exit 1": "exit 1",
  "exit 137": "kill -9 $$",
  timeout: "sleep 60",
} as const;
type End = keyof typeof ENDS;

const PROBE = `{ probe: 'grep -qxF "$PERDURE_IDEMPOTENCY_KEY" paid && echo "receipt $PERDURE_IDEMPOTENCY_KEY"' }`;

function pipeline(end: End, once: string, a = ":"): void {
  project.write(
    "p.yaml",
    `steps:
  - id: a
    run: "${a}"
  - id: pay
    once: ${once}
    retry: { attempts: 3, backoff: 1ms }
    timeout: ${end === "timeout" ? "1s" : "10m"}
    run: |
      ${project.effect("pay")}
      echo "$PERDURE_IDEMPOTENCY_KEY" >> paid
      ${ENDS[end]}
  - id: z
    run: ${project.effect("z")}
`,
  );
}

async function newest(): Promise<string> {
  const [id = ""] = await project.runIds();
  return id.slice(0, 8);
}

const paid = (): number | undefined => project.effects().pay;

/** Every way back but `settle`; each is a list of commands. */
const allWaysBack = (id: string): readonly (readonly (readonly string[])[])[] => [
  [["resume", id]],
  [["retry", id, "pay"]],
  [["retry", id, "a"]],
  [["resume", id, "--from-step", "a"]],
  [["resume", id, "--from-step", "pay"]],
  [
    ["rewind", id, "a"],
    ["resume", id],
  ],
  [
    ["rewind", id, "pay"],
    ["resume", id],
  ],
  [["fork", id, "--at", "a", "--start"]],
  [["resume", id, "--update", "--yes"]],
];

/**
 * After a signal or a timeout an effect is as uncertain as after exit 1: a third of them is enough.
 * After exit 0, once-again.test.ts shows the ways that come back by the step before.
 */
const waysBack = (id: string, end: End): ReturnType<typeof allWaysBack> =>
  allWaysBack(id).filter((commands, way) => {
    if (end === "exit 0") return commands.every((words) => !words.includes("a"));
    return end === "exit 1" || way % 3 === 2;
  });

describe.each(Object.keys(ENDS) as End[])("after %s", (end) => {
  it("happens once with a probe, and the run completes by itself", async () => {
    pipeline(end, PROBE);
    const first = await project.run(["run", "p.yaml"]);
    expect(first.exit, first.stdout).toBe(0);
    expect(project.effects()).toEqual({ pay: 1, z: 1 });
    const id = await newest();
    pipeline(end, PROBE, "true");
    for (const commands of waysBack(id, end)) {
      for (const args of commands) await project.run(args);
      expect(paid(), commands.join(" then ")).toBe(1);
    }
    expect(project.effects().z).toBeGreaterThan(end === "exit 0" ? 1 : 2);
  });

  it("happens once without a probe, when a person says that it did", async () => {
    pipeline(end, "true");
    const first = await project.run(["run", "p.yaml"]);
    expect(first.exit, first.stdout).toBe(end === "exit 0" ? 0 : 3);
    const id = await newest();
    if (end !== "exit 0") expect(first.stdout).toContain(`perdure settle ${id} pay done`);
    pipeline(end, "true", "true");
    for (const commands of waysBack(id, end)) {
      for (const args of commands) await project.run(args);
      expect(paid(), commands.join(" then ")).toBe(1);
    }
    await project.must(["settle", id, "pay", "done"]);
    await project.must(["resume", id]);
    expect(paid()).toBe(1);
    expect(project.effects().z).toBeGreaterThan(0);
  });
});

describe("an exit status", () => {
  it("is retried if it proves that nothing happened, or if the probe says no", async () => {
    project.write(
      "p.yaml",
      `steps:
  - id: proven
    once: { not_done: [2, 7] }
    retry: { attempts: 3, backoff: 1ms }
    run: |
      ${project.effect("proven")}
      test "$(grep -c proven effects)" -ge 3 || exit 7
  - id: denied
    once: { probe: 'test -e paid' }
    retry: { attempts: 3, backoff: 1ms }
    run: |
      ${project.effect("denied")}
      test "$(grep -c denied effects)" -ge 2 && : > paid
`,
    );
    await project.must(["run", "p.yaml"]);
    expect(project.effects()).toEqual({ proven: 3, denied: 2 });
  });

  it("of a step whose check failed proves nothing", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: pay, once: true, retry: 3, run: "${project.effect("pay")}", check: "false" }
`,
    );
    const { exit, stdout } = await project.run(["run", "p.yaml"]);
    expect(exit).toBe(3);
    expect(stdout).toContain("settle it");
    expect(paid()).toBe(1);
  });

  it("that a failure edge handles leaves the effect uncertain until the step comes back", async () => {
    project.write(
      "p.yaml",
      `steps:
  - { id: pay, once: true, run: "${project.effect("pay")}; exit 1", on_failure: repair, max_visits: 3 }
  - { id: z, run: "${project.effect("z")}" }
  - { id: repair, needs: [], run: "${project.effect("repair")}", goto: pay }
`,
    );
    const { exit, stdout } = await project.run(["run", "p.yaml"]);
    expect(exit).toBe(3);
    expect(stdout).toContain("pay must not happen twice, and it may have happened as pay@1");
    expect(project.effects()).toEqual({ pay: 1, repair: 1 });
    await project.must(["settle", await newest(), "pay", "done", "--identity", "r-1"]);
    await project.must(["resume", await newest()]);
    expect(project.effects()).toEqual({ pay: 1, repair: 1, z: 1 });
  });
});

describe("the identity of an effect", () => {
  const tell = `  - { id: tell, run: 'printf %s \${{ results.pay.identity }} > told' }\n`;
  const step = (probe: string): string => `steps:
  - id: pay
    once: { probe: '${probe}' }
    outputs: { note: note.txt }
    run: |
      ${project.effect("pay")}
      echo note > note.txt
${tell}`;

  it("comes from the probe after a success, if something refers to it", async () => {
    const more = `  - { id: quiet, once: { probe: 'echo probed >> quiet; echo id-3' }, run: 'true' }\n`;
    project.write("p.yaml", step("echo probed >> probes; echo id-1") + more);
    const stdout = await project.must(["run", "p.yaml"]);
    expect(stdout).toContain("? pay happened; the probe is asked for its identity\n");
    expect(stdout).toContain("quiet completed");
    expect(project.read("told")).toBe("id-1");
    expect(project.read("probes")).toBe("probed\n");
    expect(project.exists("quiet")).toBe(false);
    const receipt = project.receipt((await project.runIds())[0] ?? "", "pay@1.1");
    expect(receipt).toMatchObject({ status: "succeeded", exit: 0, identity: "id-1" });
  });

  it.each([1, 7])("is left to a person when the probe exits with %d", async (status) => {
    project.write("p.yaml", step(`test -e known && echo late || exit ${status}`));
    const { exit, stdout } = await project.run(["run", "p.yaml"]);
    expect(exit, stdout).toBe(3);
    const id = await newest();
    expect(stdout).toContain(`perdure settle ${id} pay done`);
    project.write("known", "");
    await project.must(["resume", id]);
    expect(project.read("told")).toBe("late");
    expect(paid()).toBe(1);
  });

  it("survives a kill while the probe is asked", async () => {
    const asked = project.hold("asked");
    project.write("probe.sh", `${asked.command}\necho id-2\n`);
    project.write("p.yaml", step("exec sh probe.sh"));
    const runner = project.start(["run", "p.yaml"]);
    await asked.arrived();
    await runner.kill("SIGKILL");
    const left = project.stepProcesses();
    const again = project.start(["resume", await newest()]);
    // The shell around the probe dies a moment before the probe, which would take the release.
    await eventually("the old probe is dead", () => {
      return !project.stepProcesses().some((pid) => left.includes(pid));
    });
    await asked.release();
    expect((await again.ended).exit, again.stdout).toBe(0);
    expect(project.read("told")).toBe("id-2");
    expect(paid()).toBe(1);
  });
});

describe("a request to repeat an effect", () => {
  it("needs --yes", async () => {
    pipeline("exit 0", PROBE);
    await project.must(["run", "p.yaml"]);
    const id = await newest();
    const commands = [
      ["retry", id, "pay"],
      ["resume", id, "--from-step", "pay"],
      ["rewind", id, "pay"],
    ];
    for (const [index, args] of commands.entries()) {
      const happened = `pay@${index + 1} happened and must not happen twice`;
      const table = await project.must([...args, "--dry-run"]);
      expect(table).toContain(`${happened}: repeating it needs --yes`);
      const refused = await project.run(args);
      expect(refused.exit, args.join(" ")).toBe(2);
      expect(refused.stderr).toContain(happened);
      const [, suggested = ""] = /perdure (.* --yes)/.exec(refused.stderr) ?? [];
      expect(suggested.split(" ")).toEqual([...args, "--yes"]);
      expect(project.effects()).toEqual({ pay: index + 1, z: index + 1 });
      await project.must(suggested.split(" "));
      if (args[0] === "rewind") await project.must(["resume", id]);
      expect(project.effects()).toEqual({ pay: index + 2, z: index + 2 });
    }
  });

  it("asks on a terminal", async () => {
    pipeline("exit 0", "true");
    await project.must(["run", "p.yaml"]);
    const id = await newest();
    const terminal = new Terminal(project, { columns: 100, rows: 24 });
    try {
      terminal.perdure(`retry ${id} pay`);
      await terminal.shows("pay@1 happened and must not happen twice. Let it happen again? [y/N]");
      terminal.type("n");
      await terminal.shows("Nothing was started.");
      expect(paid()).toBe(1);
      terminal.type("clear");
      terminal.perdure(`retry ${id} pay`);
      await terminal.shows("Let it happen again? [y/N]");
      terminal.type("y");
      await terminal.shows("status 0");
      expect(project.effects()).toEqual({ pay: 2, z: 2 });
    } finally {
      terminal.close();
    }
  });
});
