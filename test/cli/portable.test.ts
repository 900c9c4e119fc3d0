/** A run that is exported in one place and continues in another directory, HOME and repository. */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { KeptProject } from "../rig/kept-project.ts";
import { shell, stall, stateless, text } from "../rig/model/reply.ts";
import {
  eventually,
  type Hold,
  normalised,
  type Program,
  Project,
  runIdsIn,
} from "../rig/project.ts";
import { contentOf, userGit, userState } from "../workspace/rig.ts";

/** Lines of events of a run, as they are in its file. */
function eventsIn(project: Project, id: string): readonly RunEvent[] {
  return project
    .read(".perdure", "runs", id, "events.jsonl")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string; data: object })
    .map(({ type, data }) => ({ type, ...data }) as RunEvent);
}

async function good(program: Program): Promise<string> {
  const { exit, stdout, stderr } = await program.ended;
  expect(exit, stdout + stderr).toBe(0);
  return stdout;
}

/** The runs that the journal of a project has, also when it has none yet. */
function runsIn(project: Project): readonly string[] {
  return project.exists(".perdure", "state.db")
    ? runIdsIn(project.path(".perdure", "state.db"))
    : [];
}

function initGit(dir: string): void {
  userGit(dir, "init", "-q", "-b", "main");
  fs.writeFileSync(join(dir, ".gitignore"), "out/\n.perdure/\n");
  fs.writeFileSync(join(dir, "a.txt"), "a\n");
  userGit(dir, "add", ".gitignore", "a.txt");
  userGit(dir, "commit", "-q", "-m", "first");
}

describe("a run of commands", () => {
  let here: Project;
  let there: Project;
  let hold: Hold;
  beforeEach(() => {
    here = new Project();
    there = new Project();
    hold = here.hold("two");
  });
  afterEach(async () => {
    await here.remove();
    await there.remove();
  });

  /** The second step is interrupted in the middle of its work. */
  function pipeline(workspace: string): void {
    fs.mkdirSync(here.path("flow"));
    here.write(
      "flow/p.yaml",
      `name: moving
${workspace}
steps:
  - id: one
    run: |
      ${here.effect("one")}
      echo changed >> a.txt
      echo made > "$PERDURE_OUTPUT_APP"; chmod 755 "$PERDURE_OUTPUT_APP"
    outputs: { app: out/app }
  - id: two
    run: |
      echo half > half.txt
      if [ -e '${hold.path}' ]; then ${hold.command}; fi
      cat \${{ outputs.one.app }} a.txt > result.txt
      test -x \${{ outputs.one.app }}
`,
    );
  }

  async function cutOff(): Promise<string> {
    const runner = here.start(["run", "flow/p.yaml"]);
    await hold.arrived();
    await eventually(
      "half of the work is done",
      () => fs.globSync(`${here.dir}/{half.txt,.perdure/runs/*/workspace/half.txt}`).length > 0,
    );
    await runner.kill("SIGKILL");
    await here.killSteps();
    const [id = ""] = await here.runIds();
    return id;
  }

  /** The runs that were cut off and exported, by their place: made once, and put back. */
  const made = new Map<string, { readonly kept: KeptProject; readonly id: string }>();
  afterAll(() => {
    for (const { kept } of made.values()) kept.forget();
  });

  /** A run that was cut off and exported to `run.perdure` of its own project; gives its id. */
  async function exportedFrom(workspace: string, withGit = false): Promise<string> {
    const name = `${workspace} ${withGit}`;
    const known = made.get(name);
    if (known !== undefined) {
      await here.remove();
      here = known.kept.project;
      known.kept.putBack();
      return known.id;
    }
    if (withGit) initGit(here.dir);
    else here.write("a.txt", "a\n");
    pipeline(workspace);
    const id = await cutOff();
    await here.must(["export", id, "-o", here.path("run.perdure")]);
    made.set(name, { kept: new KeptProject(here), id });
    return id;
  }

  /** What is at the old place must not be needed. */
  function leave(): void {
    fs.renameSync(here.path(".perdure"), here.path("gone"));
    fs.rmSync(here.path("hold-two"));
    for (const name of ["out", "a.txt", "half.txt"]) {
      fs.rmSync(here.path(name), { recursive: true, force: true });
    }
  }

  it("continues elsewhere after its pipeline was edited", async () => {
    const steps = (second: string): string =>
      `name: edited\nworkspace: { snapshots: false }\nsteps:\n` +
      `  - {id: one, run: "${here.effect("one")}"}\n` +
      `  - {id: two, run: "${second}"}\n`;
    here.write("p.yaml", steps(`${here.effect("two")}; exit 1`));
    expect((await here.run(["run", "p.yaml"])).exit).toBe(3);
    here.write("p.yaml", steps(`${here.effect("two")}; exit 2`));
    expect((await here.run(["resume", await here.newestId(), "--update", "--yes"])).exit).toBe(3);
    const [id = ""] = await here.runIds();
    await here.must(["export", id, "-o", there.path("run.perdure")]);
    await there.must(["import", "run.perdure"]);
    const said = (await there.run(["resume", await there.newestId()])).stdout;
    expect(said).toContain("it exited with 2");
    expect(said).toContain("p.yaml cannot be read; the run continues with its plan as it was\n");
    expect(here.effects()).toEqual({ one: 1, two: 3 });
  });

  const kinds = [
    ["here, with git on both sides", "workspace: here", [true, true]],
    ["here, without git", "workspace: here", [false, false]],
    ["here, from git to none", "workspace: here", [true, false]],
    ["a worktree", "workspace: worktree", [true, true]],
    ["a directory", "workspace: directory", [false, false]],
    ["a copy", "workspace: copy", [false, true]],
  ] as const;
  it.each(kinds)("continues elsewhere: %s", async (_name, workspace, [gitHere, gitThere]) => {
    const id = await exportedFrom(workspace, gitHere);
    if (gitThere) initGit(there.dir);
    fs.renameSync(here.path("run.perdure"), there.path("run.perdure"));
    leave();
    expect(await there.must(["import", "run.perdure"])).toContain("1 of 2 steps completed");
    const said = await there.must(["resume"]);
    // What git ignores is in no snapshot; it comes from its kept copy.
    if (gitHere) expect(said).toContain("is put back");
    const own = workspace !== "workspace: here";
    const place = own ? there.path(".perdure", "runs", id, "workspace") : there.dir;
    const lines = workspace.endsWith("directory") ? "made\nchanged\n" : "made\na\nchanged\n";
    expect(fs.readFileSync(join(place, "result.txt"), "utf8")).toBe(lines);
    expect(fs.readFileSync(join(place, "half.txt"), "utf8")).toBe("half\n");
    expect(here.effects()).toEqual({ one: 1 });
    expect(there.exists("run.perdure")).toBe(true);
    const events = eventsIn(there, id);
    expect(events.find(({ type }) => type === "run.moved")).toMatchObject({
      from: fs.realpathSync(here.dir),
      to: fs.realpathSync(there.dir),
    });
    // The half of the work that no snapshot had when the runner was killed is carried along.
    const lost = events.find(({ type }) => type === "step.lost");
    expect(lost).toMatchObject({ step: "two", snapshot: { commit: expect.any(String) } });
    const { snapshot } = lost as Extract<RunEvent, { type: "step.lost" }>;
    const git = there.path(".perdure", "snapshots.git");
    const names = userGit(git, "ls-tree", "-r", "--name-only", snapshot?.commit ?? "");
    expect(names.split("\n")).toContain("half.txt");
    expect((await there.run(["doctor"])).exit).toBe(0);
    const shown = await there.must(["show", id]);
    expect(shown).not.toContain(here.dir);
  });

  it("leaves the user's own repository alone, and contains the commits of its branch", async () => {
    initGit(here.dir);
    initGit(there.dir);
    here.write(
      "p.yaml",
      `workspace: worktree
steps:
  - { id: one, run: 'echo b > b.txt; git add b.txt; git -c user.name=x -c user.email=x@x commit -qm work' }
  - { id: two, run: "test -e '${there.dir}/allowed' && git log --format=%s > log.txt" }
`,
    );
    expect((await here.run(["run", "p.yaml"])).exit).toBe(3);
    const [id = ""] = await here.runIds();
    const before = userState(there.dir);
    await here.must(["export", id, "-o", here.path("run.perdure")]);
    await there.must(["import", here.path("run.perdure")]);
    const { status, ...after } = userState(there.dir);
    expect({ status, ...after }).toEqual(before);
    there.write("allowed", "");
    await there.must(["resume", await there.newestId()]);
    expect(there.read(".perdure", "runs", id, "workspace", "log.txt")).toBe("work\nfirst\n");
    expect(userGit(there.dir, "rev-parse", "--abbrev-ref", "HEAD")).toBe("main\n");
  });

  it("without its base needs the commits there, and is smaller", async () => {
    initGit(here.dir);
    here.write(
      "big.bin",
      Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString("base64"),
    );
    userGit(here.dir, "add", "big.bin");
    userGit(here.dir, "commit", "-q", "-m", "big");
    there.write("x", "");
    fs.rmSync(there.dir, { recursive: true });
    userGit(here.dir, "clone", "-q", here.dir, there.dir);
    pipeline("workspace: here");
    const id = await cutOff();
    await here.must(["export", id, "-o", here.path("whole.perdure")]);
    await here.must(["export", id, "--without-base", "-o", here.path("thin.perdure")]);
    const size = (name: string): number => fs.statSync(here.path(name)).size;
    expect(size("thin.perdure")).toBeLessThan(size("whole.perdure") - 50_000);
    const stranger = new Project();
    try {
      const refused = await stranger.run(["import", here.path("thin.perdure")]);
      expect(refused.exit).toBe(1);
      expect(refused.stderr).toContain("without its base, and the commit");
      expect(runsIn(stranger)).toEqual([]);
    } finally {
      await stranger.remove();
    }
    leave();
    await there.must(["import", here.path("thin.perdure")]);
    await there.must(["resume"]);
    expect(there.read("result.txt")).toBe("made\na\nchanged\n");
  });

  it("reports what it does, word for word", async () => {
    here.write("a.txt", "a\n");
    here.write("p.yaml", "name: moving\nsteps:\n  - { id: one, run: test -e ok }\n");
    await here.run(["run", "p.yaml"]);
    const [id = ""] = await here.runIds();
    const sized = (words: string): string => words.replaceAll(/\(\d[\d.]* \w+\)/g, "(5 KB)");
    expect(sized(normalised(await here.must(["export", id, "-o", "x.perdure"]), here))).toBe(
      `Exported run 1a2b3c4d to DIR/x.perdure (5 KB):
  6 events, 3 snapshots, 0 artifacts, 0 conversations
Continue it elsewhere, and only there: perdure import FILE && perdure resume 1a2b3c4d
`,
    );
    fs.copyFileSync(here.path("x.perdure"), there.path("x.perdure"));
    const imported = normalised(await there.must(["import", "x.perdure"]), there);
    expect(imported.replaceAll(here.dir, "OLD")).toBe(
      `Imported run 1a2b3c4d-(uuid) of moving (0 of 1 steps completed), from OLD.
When it continues, the project's files are first restored to those of the run.
Continue: perdure resume 1a2b3c4d
`,
    );
    expect(await there.must(["import", "x.perdure"])).toContain("already exists here");
    there.write("ok", "");
    expect((await there.run(["resume", await there.newestId()])).stdout).toContain("resumed");
    const refused = await there.run(["import", "x.perdure"]);
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain("exists here already, and differs from the one in the file");
  });

  it("asks before it changes files that are nowhere else", async () => {
    const id = await exportedFrom("workspace: here");
    fs.renameSync(here.path("run.perdure"), there.path("run.perdure"));
    leave();
    there.write("mine.txt", "mine\n");
    const refused = await there.run(["import", "run.perdure"]);
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain("which has other files: mine.txt");
    expect(runsIn(there)).toEqual([]);
    await there.must(["import", "run.perdure", "--files", "restore"]);
    await there.must(["resume"]);
    expect(there.exists("mine.txt")).toBe(false);
    const restored = eventsIn(there, id).find(({ type }) => type === "run.restored");
    const { aside = "" } = restored as Extract<RunEvent, { type: "run.restored" }>;
    const git = there.path(".perdure", "snapshots.git");
    expect(userGit(git, "show", `${aside}:mine.txt`)).toBe("mine\n");
  });

  it("is refused while it is active, unless a copy is forced", async () => {
    here.write("a.txt", "a\n");
    pipeline("workspace: here");
    const runner = here.start(["run", "flow/p.yaml"]);
    await hold.arrived();
    const [id = ""] = await here.runIds();
    const owned = await here.run(["export", id, "-o", "x.perdure"]);
    expect(owned.exit).toBe(7);
    expect(owned.stderr).toContain(`perdure export ${id.slice(0, 8)} --force`);
    expect(here.exists("x.perdure")).toBe(false);
    await here.must(["export", id, "-o", "x.perdure", "--force"]);
    const living = await there.run(["import", here.path("x.perdure")]);
    expect(living.exit).toBe(7);
    expect(living.stderr).toContain("still run on this machine");
    expect(there.exists(".perdure")).toBe(false);
    await runner.kill("SIGKILL");
    const orphaned = await here.run(["export", id, "-o", "y.perdure"]);
    expect(orphaned.exit).toBe(7);
    expect(orphaned.stderr).toContain("step two of run");
    await here.killSteps();
    leave();
    await there.must(["import", here.path("x.perdure")]);
    await there.must(["resume"]);
    expect(there.read("result.txt")).toBe("made\na\nchanged\n");
  });

  const damages: Record<string, (bytes: Buffer) => Buffer> = {
    "a cut end": (bytes) => bytes.subarray(0, -100),
    "half of it": (bytes) => bytes.subarray(0, bytes.length / 2),
    "nothing in it": () => Buffer.alloc(0),
    "something else": () => Buffer.from("hello\n"),
    "a flipped bit": flipped,
    "a changed event under a good checksum of the file": (bytes) =>
      changed(bytes, '"one","visit"', '"two","visit"'),
    "a changed file under a good checksum": (bytes) => changed(bytes, "echo half", "echo calf"),
    "a path that leads out": (bytes) => changed(bytes, '"run/attempts', '"run/../../..'),
  };

  it("changes nothing when its file is damaged", async () => {
    await exportedFrom("workspace: here");
    const file = here.path("run.perdure");
    const whole = fs.readFileSync(file);
    initGit(there.dir);
    const before = everything(there.dir);
    for (const [name, damage] of Object.entries(damages)) {
      fs.writeFileSync(file, damage(whole));
      const refused = await there.run(["import", file]);
      expect(refused.exit, name + refused.stdout + refused.stderr).toBe(1);
      expect(refused.stderr, name).toMatch(/cannot be imported: .*\n {2}next: /);
      expect(everything(there.dir), name).toEqual(before);
    }
  });

  it("brings no file permissions along: only its user can read its files", async () => {
    here.write("p.yaml", "workspace: directory\nsteps:\n  - { id: one, run: echo hi }\n");
    await here.must(["run", "p.yaml"]);
    const [id = ""] = await here.runIds();
    const file = here.path("run.perdure");
    await here.must(["export", id, "-o", file]);
    // 384 is 0600, and 4000 is 07640: with the rights of its owner and its group.
    fs.writeFileSync(file, changed(fs.readFileSync(file), '"mode": 384', '"mode": 4e3'));
    await there.must(["import", file]);
    const folder = there.path(".perdure", "runs", id);
    const found = fs.readdirSync(folder, { recursive: true, withFileTypes: true });
    expect(found.length).toBeGreaterThan(5);
    for (const entry of found) {
      const mode = fs.statSync(join(entry.parentPath, entry.name)).mode & 0o7777;
      expect([entry.name, mode]).toEqual([entry.name, entry.isDirectory() ? 0o700 : 0o600]);
    }
  });

  it("is imported whole or not at all, wherever the import is killed", async () => {
    const id = await exportedFrom("workspace: here");
    const file = here.path("run.perdure");
    leave();
    let kills = 0;
    for (let nth = 1; ; nth += CRASH_ALL ? 1 : 7) {
      const target = new Project();
      try {
        const log = here.path("failpoints");
        fs.rmSync(log, { force: true });
        const env = { PERDURE_FAILPOINT: String(nth), PERDURE_FAILPOINT_LOG: log };
        const killed = await target.run(["import", file], { env });
        if (killed.signal === null) break;
        kills++;
        const passed = fs.readFileSync(log, "utf8");
        const where = `killed at ${passed.trim().split("\n").at(-1)}`;
        const there = passed.includes("journal.receive.after");
        expect(runsIn(target), where).toEqual(there ? [id] : []);
        await target.must(["import", file]);
        const left = fs.readdirSync(target.path(".perdure"));
        expect(
          left.filter((name) => name.startsWith("incoming-")),
          where,
        ).toEqual([]);
        await target.must(["resume"]);
        expect(target.read("result.txt"), where).toBe("made\na\nchanged\n");
      } finally {
        await target.remove();
      }
    }
    expect(kills).toBeGreaterThan(2);
  });

  it("exports whole or not at all, wherever the export is killed", async () => {
    const id = await exportedFrom("workspace: here");
    fs.rmSync(here.path("run.perdure"));
    for (let nth = 1; ; nth += CRASH_ALL ? 1 : 3) {
      const env = { PERDURE_FAILPOINT: String(nth) };
      const killed = await here.run(["export", id, "-o", "run.perdure"], { env });
      if (killed.signal === null) break;
      if (here.exists("run.perdure")) fs.rmSync(here.path("run.perdure"));
    }
    await there.must(["import", here.path("run.perdure")]);
    expect(await there.runIds()).toEqual([id]);
  });
});

describe("a conversation with an agent", () => {
  const TOOL = "echo tool >> effects; echo counted";
  let here: FakeClaude;
  let there: Project;
  let env: Record<string, string>;
  beforeEach(async () => {
    here = await FakeClaude.open(stateless(shell(TOOL), stall("accept", text("?"))));
    there = new Project();
    const home = `${there.dir}-home`;
    env = {
      HOME: home,
      PATH: `${here.path("bin")}:${process.env.PATH ?? ""}`,
      CLAUDE_CODE_MAX_RETRIES: "0",
      ANTHROPIC_BASE_URL: here.model.url,
    };
    fs.mkdirSync(home);
  });
  afterEach(async () => {
    fs.rmSync(env.HOME ?? "", { recursive: true, force: true });
    await there.remove();
    await here.close();
  });

  /** An agent that was killed after its first tool; gives the id of the run and its file. */
  async function exported(): Promise<{ id: string; file: string }> {
    here.write(
      "p.yaml",
      `workspace: directory
steps:
  - { id: work, agent: claude, prompt: Do it. }
  - { id: next, run: cat effects }
`,
    );
    const runner = here.begin(["run", "p.yaml"]);
    await eventually("the model is asked again", () => here.model.stalls().length > 0);
    await runner.kill("SIGKILL");
    await here.killSteps();
    const [id = ""] = await here.runIds();
    const file = there.path("run.perdure");
    const said = await good(here.begin(["export", id, "-o", file]));
    expect(said).toContain("1 conversation");
    const cwd = join(fs.realpathSync(there.dir), ".perdure", "runs", id, "workspace");
    const folder = cwd.replaceAll(/[^A-Za-z0-9]/g, "-");
    env.FAKE_AGENT_HOME = join(env.HOME ?? "", ".claude", "projects", folder);
    expect(execFileSync("tar", ["tzf", file], { encoding: "utf8" })).toContain("manifest.json");
    return { id, file };
  }

  it("continues elsewhere, under another HOME, and holds no value of the environment", async () => {
    const { id, file } = await exported();
    const bytes = gunzipSync(fs.readFileSync(file)).toString("latin1");
    expect(bytes).not.toContain(process.env.PATH ?? "?");
    expect(bytes).toContain("Do it.");
    fs.rmSync(here.path("config", "projects", "here"), { recursive: true });
    await there.must(["import", "run.perdure"], { env });
    here.model.play(stateless(shell(TOOL), text("All done.")));
    here.model.release();
    const before = here.model.requests("work").length;
    await good(there.start(["resume"], { env }));
    const [, second] = eventsIn(there, id).filter((event) => event.type === "step.started");
    expect(second?.conversation).toMatchObject({ kind: "continue", says: "interrupted" });
    const asked = JSON.stringify(here.model.requests("work")[before]);
    for (const words of ["Do it.", "counted", "You were interrupted"])
      expect(asked).toContain(words);
    expect(there.read(".perdure", "runs", id, "workspace", "effects")).toBe("tool\n");
    expect(fs.readdirSync(env.FAKE_AGENT_HOME ?? "")).toHaveLength(1);
  });

  it("does not overwrite another transcript, and uses an identical one", async () => {
    const { id, file } = await exported();
    const [name = ""] = fs.readdirSync(here.path("config", "projects", "here"));
    const mine = join(env.HOME ?? "", ".claude", "projects", "elsewhere");
    fs.mkdirSync(mine, { recursive: true });
    const original = fs.readFileSync(here.path("config", "projects", "here", name), "utf8");
    fs.writeFileSync(join(mine, name), `${original}{"type":"user"}\n`);
    const refused = await there.run(["import", file], { env });
    expect(refused.exit).toBe(1);
    expect(refused.stderr).toContain(
      "another transcript of the conversation of work already exists",
    );
    expect(runsIn(there)).toEqual([]);
    fs.writeFileSync(join(mine, name), original);
    await there.must(["import", file], { env });
    expect(await there.runIds()).toEqual([id]);
    expect(fs.existsSync(env.FAKE_AGENT_HOME ?? "")).toBe(false);
  });
});

/** All files of a directory, .git and .perdure included, with their bytes. */
function everything(dir: string): object {
  const names = fs.readdirSync(dir, { recursive: true, encoding: "utf8" }).toSorted();
  const hidden = names
    .filter((name) => fs.statSync(join(dir, name)).isFile())
    .map((name) => [name, fs.readFileSync(join(dir, name), "latin1")] as const);
  return { ...contentOf(dir), ...Object.fromEntries(hidden) };
}

/** An archive with another bit near its middle, one that has a meaning: padding has none. */
function flipped(bytes: Buffer): Buffer {
  for (let at = bytes.length >> 1; at < bytes.length; at++) {
    const copy = Buffer.from(bytes);
    copy[at] = (copy[at] ?? 0) ^ 8;
    try {
      if (gunzipSync(copy).equals(gunzipSync(bytes))) continue;
    } catch {
      // It cannot even be unpacked.
    }
    return copy;
  }
  throw new Error("no bit of the archive has a meaning");
}

/** An archive in which every occurrence of some words is another one of the same length. */
function changed(bytes: Buffer, from: string, to: string): Buffer {
  const text = gunzipSync(bytes).toString("latin1");
  expect(text).toContain(from);
  expect(to).toHaveLength(from.length);
  return gzipSync(Buffer.from(text.replaceAll(from, to), "latin1"));
}
