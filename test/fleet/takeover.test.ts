/** A machine is destroyed in the middle of a run; another one continues from the store alone. */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { thisOwner } from "../../src/app/drive/owner.ts";
import { openShipper } from "../../src/app/fleet/ship.ts";
import { loadRun } from "../../src/app/loaded-run.ts";
import type { RunEvent } from "../../src/core/event.ts";
import { fullSummary } from "../../src/core/summary.ts";
import { stateDirOf } from "../../src/engine/state-dir.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { newDatabase } from "../rig/postgres.ts";
import type { Hold } from "../rig/project.ts";
import { userGit } from "../workspace/rig.ts";
import { FleetProject, initGit } from "./fleet-project.ts";

let fleet: FleetProject;
let hold: Hold;
beforeEach(() => {
  fleet = new FleetProject();
  hold = fleet.hold("one");
});
afterEach(() => fleet.remove());

/** A step waits at the hold on the first machine, and everything it wrote is shipped; then it is gone. */
async function loseFirst(id: string, written: string): Promise<void> {
  const worker = fleet.worker("one", id);
  const first = await Promise.race([hold.arrived(), worker.ended]);
  expect(first, "the worker has not ended").toBeUndefined();
  await fleet.shipped(id, written);
  await worker.kill("SIGKILL");
  await fleet.killStepsOf(id);
  fs.rmSync(hold.path);
  fleet.destroy("one");
}

async function continued(id: string): Promise<void> {
  const { exit, stdout, stderr } = await fleet.driven("two", id);
  expect({ exit, stdout, stderr }).toEqual({ exit: 0, stdout: "completed\n", stderr: "" });
}

/** Waits at the hold while it is there. */
function wait(): string {
  return `if [ -e '${hold.path}' ]; then ${hold.command}; fi`;
}

async function eventsOf(id: string): Promise<readonly RunEvent[]> {
  return (await (await fleet.store()).log.load(id)).events.map(({ event }) => event);
}

describe("a machine that is destroyed", () => {
  // The others use a store in a directory.
  it("loses no commit and no file of a worktree that the store has", async () => {
    await fleet.remove();
    fleet = new FleetProject(await newDatabase());
    hold = fleet.hold("one");
    initGit(fleet.dir);
    fleet.write(
      "p.yaml",
      `name: tree
workspace: worktree
steps:
  - { id: one, run: "echo 1 >> a.txt; mkdir -p deep; echo x > deep/x; ${fleet.effect("one")}" }
  - { id: two, run: "echo 2 >> a.txt; ln -s a.txt link; ${fleet.effect("two")}" }
  - { id: three, run: "echo 3 >> a.txt; echo printed; ${wait()}; ${fleet.effect("three")}" }
  - { id: four, run: "rm link; git log --format=%s > log.txt; ${fleet.effect("four")}" }
`,
    );
    const id = await fleet.submitted();
    await loseFirst(id, "printed");
    await continued(id);
    expect(fleet.effects()).toEqual({ one: 1, two: 1, three: 1, four: 1 });
    const repository = fleet.at("two", id);
    const branch = `perdure/${id.slice(0, 8)}`;
    const log = userGit(repository, "log", "--format=%s", branch).trim().split("\n");
    expect(log).toEqual(["tree: four", "tree: three", "tree: two", "tree: one", "first"]);
    const show = (name: string): string => userGit(repository, "show", `${branch}:${name}`);
    expect(show("a.txt")).toBe("a\n1\n2\n3\n");
    expect(show("log.txt")).toBe("tree: three\ntree: two\ntree: one\nfirst\n");
    expect(userGit(repository, "ls-tree", "-r", "--name-only", branch).trim().split("\n")).toEqual([
      ".gitignore",
      "a.txt",
      "deep/x",
      "log.txt",
    ]);
    // The half of the interrupted attempt is kept: its snapshot has what it had written.
    const lost = (await eventsOf(id)).find((event) => event.type === "step.lost");
    expect(lost).toMatchObject({ step: "three", attempt: 1 });
    // On a third machine the branch comes from the store alone.
    fleet.destroy("two");
    const third = await fleet.fetched("three", id);
    expect(userGit(third, "log", "--format=%s", branch).trim().split("\n")).toEqual(log);
    expect(userGit(third, "show", `${branch}:log.txt`)).toBe(
      "tree: three\ntree: two\ntree: one\nfirst\n",
    );
  });

  it("loses no work of steps and instances with their own workspaces", async () => {
    initGit(fleet.dir);
    fleet.write(
      "p.yaml",
      `name: apart
workspace: worktree
max_parallel: 1
steps:
  - { id: left, workspace: own, needs: [], run: "echo l > l; ${fleet.effect("left")}" }
  - id: map
    needs: []
    for_each: { in: [1, 2] }
    workspace: own
    steps:
      - { id: make, run: "echo $PERDURE_ITEM > f$PERDURE_ITEM; git add .; git -c user.name=t -c user.email=t@t commit -qm made-$PERDURE_ITEM; ${fleet.effect("make")}" }
      - id: more
        run: |
          test "$(git log -1 --format=%s)" = made-$PERDURE_ITEM
          if [ $PERDURE_ITEM = 2 ]; then echo waiting; ${wait()}; fi
          echo more >> f$PERDURE_ITEM
          ${fleet.effect("more")}
  - { id: after, needs: [left, map], run: "cat l f1 f2 > all" }
`,
    );
    const id = await fleet.submitted();
    await loseFirst(id, "waiting");
    await continued(id);
    expect(fleet.effects()).toEqual({ left: 1, make: 2, more: 2 });
    const all = fleet.at("two", id, ".perdure", "runs", id, "workspace", "all");
    expect(fs.readFileSync(all, "utf8")).toBe("l\n1\nmore\n2\nmore\n");
  });

  it("leaves an effect that must happen once uncertain, and nobody repeats it", async () => {
    fleet.write(
      "p.yaml",
      `name: once
workspace: { snapshots: false }
steps:
  - { id: pay, once: true, run: "${fleet.effect("pay")}; echo paid; ${wait()}" }
`,
    );
    const id = await fleet.submitted();
    await loseFirst(id, "paid");
    const { stdout } = await fleet.driven("two", id);
    expect(stdout).not.toContain("completed");
    expect(fleet.effects()).toEqual({ pay: 1 });
    expect((await eventsOf(id)).some((event) => event.type === "step.uncertain")).toBe(true);
  });

  it("loses no file of a run in the project itself, uncommitted ones and outputs included", async () => {
    initGit(fleet.dir);
    fleet.write("new.txt", "not committed\n");
    fleet.write("a.txt", "edited\n");
    fleet.write(
      "p.yaml",
      `name: here
steps:
  - { id: one, outputs: { app: out/app }, run: "echo app > \\"$PERDURE_OUTPUT_APP\\"; chmod +x out/app; rm new.txt; ${fleet.effect("one")}" }
  - { id: two, run: "echo half > half.txt; echo printed; ${wait()}; cat \${{ outputs.one.app }} a.txt > result.txt; test -x out/app; test ! -e new.txt" }
`,
    );
    const id = await fleet.submitted();
    await loseFirst(id, "printed");
    await continued(id);
    expect(fs.readFileSync(fleet.at("two", id, "result.txt"), "utf8")).toBe("app\nedited\n");
    expect(fleet.effects()).toEqual({ one: 1 });
    expect(userGit(fleet.at("two", id), "status", "--porcelain", "a.txt")).toBe(" M a.txt\n");
    expect(fleet.read("new.txt")).toBe("not committed\n");
  });

  it("is reused by its own next process, and made again after another machine had the run", async () => {
    fleet.write(
      "p.yaml",
      `name: again
steps:
  - { id: one, run: "echo 1 > one; ${fleet.effect("one")}" }
  - { id: two, run: "echo printed; ${wait()}; echo 2 > two; ${fleet.effect("two")}" }
`,
    );
    const id = await fleet.submitted();
    const worker = fleet.worker("one", id);
    await hold.arrived();
    await worker.kill("SIGKILL");
    // Only the worker died: its next process finds the step and waits for it.
    fs.writeFileSync(fleet.at("one", id, ".perdure", "kept"), "");
    const next = fleet.worker("one", id);
    await hold.release();
    expect((await next.ended).stdout).toBe("completed\n");
    expect(fleet.effects()).toEqual({ one: 1, two: 1 });
    expect(fs.existsSync(fleet.at("one", id, ".perdure", "kept"))).toBe(true);
    expect((await fleet.driven("two", id)).stdout).toBe("completed\n");
    // The directory of the first machine is not the newest any more.
    expect((await fleet.driven("one", id)).stdout).toBe("completed\n");
    expect(fs.existsSync(fleet.at("one", id, ".perdure", "kept"))).toBe(false);
    expect(fs.readFileSync(fleet.at("one", id, "two"), "utf8")).toBe("2\n");
    const earlier = join(fleet.home("one"), "runs", `${id}.earlier`);
    expect(fs.existsSync(join(earlier, "project", ".perdure", "kept"))).toBe(true);
  });
});

it("an owner that was replaced changes nothing in the store (S2)", async () => {
  fleet.write("p.yaml", "name: stale\nsteps:\n  - { id: one, run: echo }\n");
  const id = await fleet.submitted();
  const store = await fleet.store();
  const take = async (): Promise<number> => {
    const claim = { owner: thisOwner(), isAlive: () => false };
    const taken = await takeLease(store.leases, id, claim);
    return taken.ok ? taken.epoch : 0;
  };
  const epoch = await take();
  const project = { dir: stateDirOf(await fleet.fetched("one", id)), journal: store };
  const known = await loadRun(project, id);
  const shipper = await openShipper({ project, known, epoch, ...store });
  const note = join(known.dir.root, "runner.log");
  fs.writeFileSync(note, "mine");
  await shipper.shipRunning();
  const before = await store.files.changedSince(id, 0);
  expect(before.files.map(({ path }) => path)).toContain("run/runner.log");
  await shipper.shipRunning();
  expect((await store.files.changedSince(id, 0)).revision).toBe(before.revision);
  await take();
  fs.writeFileSync(note, "not mine any more");
  await expect(shipper.shipRunning()).rejects.toMatchObject({ code: "stale-writer" });
  const write = { epoch, afterSeq: known.run.seq, time: 1, summary: fullSummary(known.run) };
  const log = shipper.wrap(store.log);
  const moved = { type: "run.moved", from: "/a", to: "/b" } as const;
  const append = log.append(id, { ...write, events: [moved] });
  await expect(append).rejects.toMatchObject({ code: "stale-writer" });
  await expect(shipper.close()).rejects.toMatchObject({ code: "stale-writer" });
  expect(await store.files.changedSince(id, 0)).toEqual(before);
});
