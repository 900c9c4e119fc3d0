/** `graph`, `report` and `replay` on runs that the real program made. */

import { copyFileSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventOf, Recorded, RunEvent } from "../../src/core/event.ts";
import { initialSummary } from "../../src/core/summary.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { normalised, PlainProject, type Project } from "../rig/project.ts";
import { several } from "../rig/several-commands.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject(mkdtempSync(join(tmpdir(), "perdure-report-")));
});
afterEach(() => project.remove());

async function said(...args: readonly string[]): Promise<string> {
  const { exit, stdout, stderr } = await project.run(args);
  const text = `${stdout}${stderr === "" ? "" : `--- stderr\n${stderr}`}[exit ${exit}]\n`;
  // In the boxes of a graph a time stands right after a line break.
  return normalised(text, project).replaceAll(/(?<=<br>|\\n)(?:[\d.]|#46;)+m?s\b/g, "5ms");
}

const PARALLEL = `name: release
max_parallel: 3
steps:
  - id: build
    run: echo compiling && echo "size=7" >> "$PERDURE_CONTEXT"
  - id: lint
    needs: [build]
    when: context.size == "8"
    run: echo linting
  - id: test
    needs: [build]
    run: echo "size=9" >> "$PERDURE_CONTEXT"
  - id: ship
    needs: [lint, test]
    run: echo shipping
`;

const FAILING = `name: bad
steps:
  - id: build
    run: echo compiling
  - id: test
    run: echo "1 of 7 tests failed"; test -e fixed
    retry: { attempts: 2, backoff: { initial: 10ms, jitter: 0.5 } }
  - id: ship
    run: echo shipping
`;

it("writes a person's words as text in every format", async () => {
  project.write("p.yaml", "steps:\n  - id: one\n    run: 'true'\n");
  const evil = "<script>alert(1)</script>[l](javascript:x)```\n# h";
  await project.must(["run", "p.yaml", "-i", `text=${evil}`]);
  const formats = ["md", "html"];
  const texts = await several(
    project,
    formats.map((format) => ["report", "--format", format]),
  );
  for (const [index, format] of formats.entries()) {
    const text = texts[index];
    expect(text).not.toContain("<script>");
    expect(text).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
    if (format === "md") expect(text).toContain("\\[l\\](javascript:x)\\`\\`\\`");
    expect(text).not.toMatch(/^# h/m);
  }
});

describe("graph", () => {
  it("prints the plan of a file as Mermaid", async () => {
    project.write("p.yaml", PARALLEL);
    expect(await said("graph", "p.yaml")).toMatchInlineSnapshot(`
      "flowchart TD
        n1["build"]
        n2["lint<br>when context.size == #34;8#34;"]
        n3["test"]
        n4["ship"]
        n1 --> n2
        n1 --> n3
        n2 --> n4
        n3 --> n4
      [exit 0]
      "
    `);
  });

  it("prints a run with its states, as DOT if that is asked for", async () => {
    project.write("p.yaml", FAILING);
    await project.run(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    expect(await said("graph", id, "--format", "dot")).toMatchInlineSnapshot(`
      "digraph "bad" {
        compound=true;
        node [shape=box, style="filled", fontname="Courier", fontsize=11];
        edge [fontname="Courier", fontsize=9];
        graph [fontname="Courier", fontsize=11];
        n1 [label="✓ build\\n5ms", style="filled", fillcolor="#dafbe1", color="#1a7f37"];
        n2 [label="✗ test\\nit exited with 1\\n2 attempts", style="filled", fillcolor="#ffebe9", color="#cf222e"];
        n3 [label="· ship", style="filled", fillcolor="#ffffff", color="#8c959f"];
        n1 -> n2 [style=bold];
        n2 -> n3 [style=dashed, color="#8c959f"];
      }
      [exit 0]
      "
    `);
  });

  it("takes the format from the extension of the file", async () => {
    project.write("p.yaml", PARALLEL);
    await project.must(["run", "p.yaml"]);
    const endings = { "r.svg": "<svg ", "r.DOT": "digraph ", "r.gv": "digraph ", "r.mmd": "flow" };
    const names = Object.keys(endings);
    const printed = await several(
      project,
      names.map((name) => ["graph", "-o", name]),
    );
    expect(printed).toEqual(names.map((name) => `Wrote ${name}\n`));
    for (const [name, start] of Object.entries(endings)) {
      expect(project.read(name).slice(0, start.length)).toBe(start);
    }
  });

  it("says what is wrong with its arguments", async () => {
    expect(await said("graph", "none.yaml")).toMatchInlineSnapshot(`
      "--- stderr
      error: none.yaml: there is no such file
        next: give the path of a pipeline file, or a run
      [exit 2]
      "
    `);
    expect(await said("graph", "-o", "run.png")).toMatchInlineSnapshot(`
      "--- stderr
      error: the extension of run.png is not that of a known format
        next: add --format mermaid|dot|svg|json
      [exit 2]
      "
    `);
    expect(await said("graph", "--format", "png")).toMatchInlineSnapshot(`
      "--- stderr
      error: --format takes one of mermaid, dot, svg, json, not "png"
      [exit 2]
      "
    `);
    project.write("wrong.yaml", "steps:\n  - id: one\n");
    expect((await project.run(["graph", "wrong.yaml"])).exit).toBe(4);
    project.write("p.yaml", FAILING);
    expect(await said("graph", "p.yaml", "-o", "no/such/dir.svg")).toMatchInlineSnapshot(`
      "--- stderr
      error: no/such/dir.svg cannot be written (ENOENT)
      [exit 1]
      "
    `);
  });
});

describe("replay finds no difference in a run", () => {
  const same = /^Run \w+ \(\w+\): \d+ turns in \d+ events decided again; no difference\.\n$/;

  it("with parallel steps, skips, values and snapshots", async () => {
    project.write("p.yaml", `workspace: here\n${PARALLEL}`);
    await project.must(["run", "p.yaml"]);
    expect(await said("replay")).toMatchInlineSnapshot(`
      "Run 1a2b3c4d (release): 8 turns in 11 events decided again; no difference.
      [exit 0]
      "
    `);
  });

  it("that failed, was resumed, retried and rewound", async () => {
    project.write("p.yaml", FAILING);
    await project.run(["run", "p.yaml"]);
    const [id = ""] = await project.runIds();
    await project.run(["resume", id]);
    project.write("fixed", "");
    await project.must(["resume", id]);
    await project.must(["retry", id, "test"]);
    await project.must(["resume", id, "--from-step", "ship"]);
    expect(await project.must(["replay", id])).toMatch(same);
  });

  it("that was killed, stopped and resumed", async () => {
    const hold = project.hold("x");
    project.write("p.yaml", `name: held\nsteps:\n  - id: one\n    run: ${hold.command}\n`);
    const first = project.start(["run", "p.yaml"]);
    await hold.arrived();
    await first.kill("SIGKILL");
    const second = project.start(["resume"]);
    await second.printed("re-attached");
    await second.kill("SIGINT");
    const third = project.start(["resume"]);
    await hold.release();
    expect((await third.ended).exit).toBe(0);
    expect(await project.must(["replay"])).toMatch(same);
    const report = await project.must(["report", "--format", "json"]);
    const { owners, problems } = JSON.parse(report) as {
      owners: { left: string }[];
      problems: { kind: string; handling: string[] }[];
    };
    expect(owners.map(({ left }) => left)).toEqual([
      "ended without releasing the lease",
      "stopped it: SIGINT",
      "completed it",
    ]);
    expect(problems.map(({ kind }) => kind)).toEqual(["orphaned", "interrupted"]);
    expect(problems[1]?.handling[0]).toMatch(/^owner 3 \(.*\) started one@1\.2$/);
  });

  it("whose conditions need the environment, without recording a secret", async () => {
    const env = { MOON: "full", MOON_TOKEN: "werewolf-1234" };
    const when = 'env.MOON == "full" && env.MOON_TOKEN != "werewolf"';
    project.write(
      "p.yaml",
      `name: wolf\nsteps:\n  - id: howl\n    when: ${when}\n    run: "true"\n`,
    );
    await project.must(["run", "p.yaml"], { env });
    expect(await said("replay")).toMatchInlineSnapshot(`
      "Run 1a2b3c4d (wolf): 2 turns in 5 events decided again; no difference.
      [exit 0]
      "
    `);
  });
});

/** A copy of the only run here in which some events are others, in a project of its own. */
async function copyOf(change: (event: RunEvent) => RunEvent): Promise<Project> {
  const [id = ""] = await project.runIds();
  const source = await openSqliteJournal(project.path(".perdure/state.db"), { mode: "read-only" });
  const { planText, events } = await source.log.load(id);
  await source.close();
  const copy = new PlainProject(mkdtempSync(join(tmpdir(), "perdure-copy-")));
  mkdirSync(copy.path(".perdure"), { mode: 0o700 });
  const journal = await openSqliteJournal(copy.path(".perdure/state.db"), { mode: "create" });
  const [created, ...rest] = events as [Recorded<EventOf<"run.created">>, ...Recorded[]];
  const summary = initialSummary(JSON.parse(planText) as Plan);
  await journal.log.create({
    runId: id,
    planText,
    created: created.event,
    time: created.time,
    summary,
  });
  let epoch = 0;
  for (const { seq, time, event, facts } of rest) {
    if (event.type === "run.opened") {
      const acquired = await takeLease(journal.leases, id, {
        owner: event.owner,
        isAlive: () => false,
      });
      epoch = acquired.ok ? acquired.epoch : 0;
    }
    const write = { epoch, afterSeq: seq - 1, time, events: [change(event)], summary };
    await journal.log.append(id, facts === undefined ? write : { ...write, facts });
  }
  await journal.close();
  return copy;
}

describe("replay finds", () => {
  async function replayed(change: (event: RunEvent) => RunEvent): Promise<string> {
    const copy = await copyOf(change);
    try {
      const { exit, stdout, stderr } = await copy.run(["replay"]);
      return normalised(`${stdout}${stderr}[exit ${exit}]\n`, copy);
    } finally {
      await copy.discard();
    }
  }

  it("a planted edge, and no difference in an unchanged copy", async () => {
    project.write("p.yaml", PARALLEL);
    await project.must(["run", "p.yaml"]);
    expect(await replayed((event) => event)).toContain("no difference");
    const change = (event: RunEvent): RunEvent =>
      event.type === "step.skipped" ? { ...event, edges: [] } : event;
    expect(await replayed(change)).toMatchInlineSnapshot(`
      "Run 1a2b3c4d (release): 2 turns in 5 events decided again; the last one differs.
      Event 5, step.skipped lint@1, 2026-01-02 03:04:05 UTC: its edges
        recorded  []
        now       [2]
      [exit 3]
      "
    `);

    // As JSON.
    const copy = await copyOf(change);
    const { exit, stdout } = await copy.run(["replay", "--json"]);
    await copy.discard();
    expect(exit).toBe(3);
    const found = JSON.parse(stdout) as { difference: object };
    expect(found).toMatchObject({ schema_version: 1, pipeline: "release" });
    expect(found.difference).toMatchObject({
      event: "step.skipped lint@1",
      field: "edges",
      recorded: [],
      now: [2],
    });
  });

  it("a planted delay, and an impossible event", async () => {
    project.write("p.yaml", FAILING);
    await project.run(["run", "p.yaml"]);
    const change = (event: RunEvent): RunEvent =>
      event.type === "step.failed" && event.retry !== undefined
        ? { ...event, retry: { at: 1, delayMs: 1 } }
        : event;
    const text = await replayed(change);
    expect(text).toContain("the last one differs.\n");
    expect(text).toContain('  recorded  {"at":1,"delayMs":1}\n');
    expect(text).toContain("[exit 3]");

    const third = (event: RunEvent): RunEvent =>
      event.type === "step.started" && event.attempt === 2 ? { ...event, attempt: 3 } : event;
    expect(await replayed(third)).toMatchInlineSnapshot(`
      "Run 1a2b3c4d (bad): 4 turns in 7 events decided again; the last one differs.
      Event 7, step.started test@1.3, 2026-01-02 03:04:05 UTC: what happened
        recorded  step.started test@1.3
        now       step.started test@1.2
      [exit 3]
      "
    `);
  });
});

describe("report", () => {
  it("shows a run that failed and was resumed", async () => {
    project.write("p.yaml", FAILING);
    await project.run(["run", "p.yaml"]);
    project.write("fixed", "");
    await project.must(["resume", await project.newestId()]);
    const text = await said("report", "--with-output");
    expect(
      text
        .replace(/```\n(\S+ +\|[^`]*)```/, "(the timeline)")
        .replaceAll(/\(\S+ on [^)]+\)/g, "(ada on HOST)")
        .replaceAll(/\| \S+ on \S+, pid \d+ \|/g, "| ada on HOST, pid 4711 |"),
    ).toMatchInlineSnapshot(`
      "# Report on run 1a2b3c4d: bad

      Run 1a2b3c4d (bad) completed in 5ms.

      3 of 3 steps completed: build, test, ship.

      Details: perdure show 1a2b3c4d   (a new run: perdure run DIR/p.yaml)

      |  |  |
      |---|---|
      | run | \`1a2b3c4d-(uuid)\` |
      | pipeline | bad |
      | state | completed |
      | file | \`DIR/p.yaml\` |
      | directory | \`DIR\` |
      | started | 2026-01-02 03:04:05 UTC |
      | last event | 2026-01-02 03:04:05 UTC |
      | took | 5ms |
      | active time | 5ms |

      ## Pipeline

      \`\`\`mermaid
      flowchart TD
        n1["✓ build<br>5ms"]
        n2["✓ test<br>5ms<br>3 attempts"]
        n3["✓ ship<br>5ms"]
        n1 ==> n2
        n2 ==> n3
        classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328
        class n1,n2,n3 done
      \`\`\`

      ## Timeline

      (the timeline)

      ## Steps

      | Step | State | Visits | Attempts | Time | Result |
      |---|---|---|---|---|---|
      | ✓ build | completed | 1 | 1 | 5ms | exit 0 |
      | ✓ test | completed | 1 | 3 | 5ms | exit 0 |
      | ✓ ship | completed | 1 | 1 | 5ms | exit 0 |

      ## Problems

      | When (UTC) | Attempt | What | Why | Handled |
      |---|---|---|---|---|
      | 2026-01-02 03:04:05 | \`test@1.1\` | failed | it exited with 1 | retried after 5ms |
      | 2026-01-02 03:04:05 | \`test@1.2\` | failed | it exited with 1 | owner 2 (ada on HOST) granted 2 more attempts; then owner 2 (ada on HOST) started test@1.3 |

      ## Path

      |  | Visit | Began (UTC) | Took | Attempts | Outcome | Next |
      |---|---|---|---|---|---|---|
      | 1 | \`build@1\` | 2026-01-02 03:04:05 | 5ms | 1 | completed | test |
      | 2 | \`test@1\` | 2026-01-02 03:04:05 | 5ms | 3 | completed | ship |
      | 3 | \`ship@1\` | 2026-01-02 03:04:05 | 5ms | 1 | completed |  |

      ## Runners

      |  | Owner | From (UTC) | For | How it ended |
      |---|---|---|---|---|
      | 1 | ada on HOST, pid 4711 | 2026-01-02 03:04:05 | 5ms | ended it: failed |
      | 2 | ada on HOST, pid 4711 | 2026-01-02 03:04:05 | 5ms | completed it |

      ## Decisions

      | Event | When (UTC) | Decision |
      |---|---|---|
      | 11 | 2026-01-02 03:04:05 | test@1 was granted 2 more attempts |

      ## Output

      ### build@1.1

      \`\`\`
      compiling
      \`\`\`

      ### test@1.1

      \`\`\`
      1 of 7 tests failed
      \`\`\`

      ### test@1.2

      \`\`\`
      1 of 7 tests failed
      \`\`\`

      ### test@1.3

      \`\`\`
      1 of 7 tests failed
      \`\`\`

      ### ship@1.1

      \`\`\`
      shipping
      \`\`\`
      [exit 0]
      "
    `);
  });

  it("needs nothing but the journal, and its page runs and loads nothing", async () => {
    project.write("p.yaml", FAILING);
    await project.run(["run", "p.yaml"]);
    const whole = JSON.parse(await project.must(["report", "--format", "json"])) as object;
    const copy = await copyOf((event) => event);
    const text = await copy.must(["report", "--format", "json", "--with-output"]);
    // The paths of a run are those of the project that it is looked at in.
    expect(JSON.parse(text.replaceAll(copy.dir, project.dir))).toEqual(whole);
    await copy.remove();

    expect(await said("report", "-o", "r.html")).toBe("Wrote r.html\n[exit 0]\n");
    const page = project.read("r.html");
    expect(page).toContain("it exited with 1");
    expect(page).not.toMatch(/<script|<link|<img|src=|url\((?!#)|@import/);
    expect(page.match(/https?:[^"\s]*/g)).toEqual([
      "http://www.w3.org/2000/svg",
      "http://www.w3.org/2000/svg",
    ]);
  });

  it("uses no words of the environment that the journal lacks", async () => {
    const env = { MY_TOKEN: "hunter2-hunter2" };
    project.write("p.yaml", 'name: s\nsteps:\n  - id: one\n    run: echo "$MY_TOKEN"\n');
    await project.must(["run", "p.yaml"], { env });
    for (const format of ["md", "html", "json"]) {
      const text = await project.must(["report", "--format", format, "--with-output"], { env });
      expect(text).not.toContain("hunter2");
      expect(text).toContain("[redacted]");
    }
  });
});

it("refuses a journal from before the first release, and says why", async () => {
  mkdirSync(project.path(".perdure"), { mode: 0o700 });
  const fixture = join(import.meta.dirname, "../journals/v1.db");
  copyFileSync(fixture, project.path(".perdure/state.db"));
  for (const command of ["graph", "report", "replay"]) {
    expect(await said(command, "a1b2c3d4")).toBe(
      "--- stderr\n" +
        "error: DIR/.perdure/state.db has version 1, and this program reads version 3 and later: " +
        "an older perdure wrote it.\n" +
        "  next: finish its runs with the perdure that wrote it, or start again: " +
        "mv .perdure .perdure.old\n" +
        "[exit 1]\n",
    );
  }
  await project.discard();
});
