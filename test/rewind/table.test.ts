/** Going back with the real program: which steps run again, and which files are there, byte for byte. */
import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { snapshotNames, userGit } from "../workspace/rig.ts";
import { type Kind, type MadeRun, MadeRuns, type Repo, type Shape } from "./rig.ts";

interface Case {
  readonly shape: Shape;
  readonly kind: Kind;
  /** `RUN` stands for the run; `resume RUN` follows when the command starts nothing itself. */
  readonly command: string;
  readonly starts: boolean;
  /** How often each step has run in the end. */
  readonly effects: Readonly<Record<string, number>>;
  /** The files when the command has ended without starting anything. */
  readonly between?: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<string, string>>;
}

/** What an uninterrupted run leaves. */
const WHOLE = { "log.txt": "one\na\nb\nc\n", "a.txt": "a\n", "c.txt": "c\n" };
const AFTER_A = { "log.txt": "one\na\n", "a.txt": "a\n" };
/** b and c have run again on what was there. */
const TWICE = { ...WHOLE, "log.txt": "one\na\nb\nc\nb\nc\n" };
const BRANCHES = {
  "log.txt": "one\na\nd\n",
  "a.txt": "a\n",
  "b.txt": "b\n",
  "c.txt": "c\n",
  "d.txt": "d\n",
};
const AGAIN_B = { a: 1, b: 2, c: 2 };

const CASES: readonly Case[] = [
  ...(["worktree", "copy", "directory"] as const).map(
    (kind): Case => ({
      shape: "sequential",
      kind,
      command: "resume RUN --from-step b",
      starts: true,
      effects: AGAIN_B,
      // A fresh directory has none of the project's files.
      files: kind === "directory" ? { ...WHOLE, "log.txt": "a\nb\nc\n" } : WHOLE,
    }),
  ),
  {
    shape: "sequential",
    kind: "worktree",
    command: "resume RUN --from-step b --files keep",
    starts: true,
    effects: AGAIN_B,
    files: TWICE,
  },
  {
    shape: "sequential",
    kind: "here",
    command: "resume RUN --from-step b",
    starts: true,
    effects: AGAIN_B,
    files: TWICE,
  },
  {
    shape: "sequential",
    kind: "here",
    command: "resume RUN --from-step b --files restore",
    starts: true,
    effects: AGAIN_B,
    files: WHOLE,
  },
  {
    shape: "sequential",
    kind: "worktree",
    command: "retry RUN b",
    starts: true,
    effects: AGAIN_B,
    files: WHOLE,
  },
  {
    shape: "sequential",
    kind: "worktree",
    command: "rewind RUN b",
    starts: false,
    effects: AGAIN_B,
    between: AFTER_A,
    files: WHOLE,
  },
  {
    shape: "sequential",
    kind: "here",
    command: "rewind RUN b",
    starts: false,
    effects: AGAIN_B,
    between: WHOLE,
    files: TWICE,
  },
  {
    shape: "sequential",
    kind: "here",
    command: "rewind RUN a --files restore",
    starts: false,
    effects: { a: 2, b: 2, c: 2 },
    between: { "log.txt": "one\n" },
    files: WHOLE,
  },
  {
    shape: "sequential",
    kind: "worktree",
    command: "rewind RUN c --files keep",
    starts: false,
    effects: { a: 1, b: 1, c: 2 },
    between: WHOLE,
    files: { ...WHOLE, "log.txt": "one\na\nb\nc\nc\n" },
  },
  {
    shape: "independent",
    kind: "worktree",
    command: "rewind RUN b",
    starts: false,
    effects: { a: 1, b: 2, c: 1, d: 2 },
    // What c did stays, what b and d did is gone.
    between: { "log.txt": "one\na\n", "a.txt": "a\n", "c.txt": "c\n" },
    files: BRANCHES,
  },
  {
    shape: "independent",
    kind: "here",
    command: "retry RUN b --files restore",
    starts: true,
    effects: { a: 1, b: 2, c: 1, d: 2 },
    files: BRANCHES,
  },
  {
    shape: "parallel",
    kind: "worktree",
    command: "resume RUN --from-step d",
    starts: true,
    effects: { a: 1, b: 1, c: 1, d: 2 },
    files: BRANCHES,
  },
  {
    shape: "parallel",
    kind: "worktree",
    command: "rewind RUN b",
    starts: false,
    effects: { a: 1, b: 2, c: 1, d: 2 },
    // b and c worked at the same time: nobody can tell whose work is whose.
    between: BRANCHES,
    files: { ...BRANCHES, "log.txt": "one\na\nd\nd\n", "b.txt": "b\nb\n" },
  },
  {
    shape: "parallel",
    kind: "worktree",
    command: "rewind RUN a",
    starts: false,
    effects: { a: 2, b: 2, c: 2, d: 2 },
    between: { "log.txt": "one\n" },
    files: BRANCHES,
  },
  {
    shape: "failing",
    kind: "worktree",
    command: "retry RUN b",
    starts: true,
    effects: { a: 1, b: 2, c: 1 },
    files: { ...WHOLE, "b.txt": "b\n" },
  },
  {
    shape: "failing",
    kind: "worktree",
    command: "retry RUN b --files keep",
    starts: true,
    effects: { a: 1, b: 2, c: 1 },
    files: { ...WHOLE, "b.txt": "b\n", "log.txt": "one\na\nb\nb\nc\n" },
  },
  {
    shape: "failing",
    kind: "here",
    command: "retry RUN b --files restore",
    starts: true,
    effects: { a: 1, b: 2, c: 1 },
    files: { ...WHOLE, "b.txt": "b\n" },
  },
  {
    shape: "failing",
    kind: "worktree",
    command: "rewind RUN a",
    starts: false,
    effects: { a: 2, b: 2, c: 1 },
    between: { "log.txt": "one\n" },
    files: { ...WHOLE, "b.txt": "b\n" },
  },
];

const RUNS = new MadeRuns();

/** A run of a shape and a kind; a step that has failed would succeed now. */
function madeRun({ shape, kind }: Pick<Case, "shape" | "kind">): Promise<MadeRun> {
  return RUNS.again(`${shape} ${kind}`, async (repo) => {
    const id = await repo.made(shape, kind);
    writeFileSync(repo.project.path("go"), "");
    return id;
  });
}

describe("going back", () => {
  it.each(CASES)("$shape, $kind: $command", async (wanted) => {
    const { repo, id, own } = await madeRun(wanted);
    const before = repo.snapshots();
    await repo.must(...wanted.command.replace("RUN", id).split(" "));
    if (!wanted.starts) {
      expect(repo.files(wanted.kind, id)).toEqual(wanted.between);
      await repo.must("resume", id);
    }
    expect(repo.effects()).toEqual(wanted.effects);
    expect(repo.files(wanted.kind, id)).toEqual(wanted.files);
    for (const [ref, commit] of before) expect(repo.snapshots().get(ref), ref).toBe(commit);
    expect(repo.own()).toEqual(own);
    expect(repo.fsck()).toBe("");
    expect(await repo.stored(id)).toMatchObject({ status: "completed" });
  });
});

describe("steps that commit", () => {
  const commit = "git -c user.name=s -c user.email=s@localhost commit -q";
  const LOG = "by b\nby a\nfirst\n";

  async function committed(repo: Repo): Promise<string> {
    const file = repo.project.write(
      "p.yaml",
      `workspace: worktree
steps:
  - id: a
    run: echo a > a.txt && git add a.txt && ${commit} -m "by a"
  - id: b
    run: echo b > b.txt && git add b.txt && ${commit} -m "by b"
`,
    );
    await repo.must("run", repo.project.path(file), "--quiet");
    return repo.ids()[0] ?? "";
  }

  it("find their branch as it was when the run goes back", async () => {
    const { repo, id } = await RUNS.again("commits", committed);
    const place = repo.place("worktree", id);
    const [second, first] = userGit(place, "log", "--format=%H").split("\n");
    await repo.must("rewind", id, "b");
    expect(userGit(place, "rev-parse", "HEAD").trim()).toBe(first);
    expect(userGit(place, "status", "--porcelain")).toBe("");
    await repo.must("resume", id, "--quiet");
    expect(userGit(place, "log", "--format=%s")).toBe(LOG);
    expect(userGit(place, "status", "--porcelain")).toBe("");
    // What was left behind is not lost: the store has it, under a name of ours.
    const heads = [...snapshotNames(repo.dir)].filter(([ref]) => ref.includes("perdure-heads"));
    expect(heads.map(([, commit]) => commit)).toContain(second);
    expect(repo.fsck()).toBe("");
  });

  it("have their commits in a fork, which is shown with its origin", async () => {
    const { repo, id } = await RUNS.again("commits", committed);
    const first = userGit(repo.place("worktree", id), "rev-parse", "HEAD~1").trim();
    await repo.must("fork", id, "--at", "b", "--start", "--quiet");
    const [fork = ""] = repo.ids();
    const place = repo.place("worktree", fork);
    expect(userGit(place, "log", "--format=%s")).toBe(LOG);
    expect(userGit(place, "rev-parse", "HEAD~1").trim()).toBe(first);
    expect(userGit(place, "status", "--porcelain")).toBe("");
    expect(JSON.parse(await repo.must("show", fork, "--json"))).toMatchObject({
      forked_from: { run_id: id },
    });
    expect(await repo.must("doctor")).toContain("the journal is intact");
  });
});

describe("a fork", () => {
  const forks: readonly Case[] = [
    {
      shape: "sequential",
      kind: "worktree",
      command: "fork RUN --at b --start",
      starts: true,
      effects: AGAIN_B,
      files: WHOLE,
    },
    {
      shape: "sequential",
      kind: "copy",
      command: "fork RUN --at b@1",
      starts: false,
      effects: AGAIN_B,
      files: WHOLE,
    },
    {
      shape: "sequential",
      kind: "worktree",
      command: "fork RUN",
      starts: false,
      effects: { a: 1, b: 1, c: 1 },
      files: WHOLE,
    },
    {
      shape: "independent",
      kind: "worktree",
      command: "fork RUN --at d --start",
      starts: true,
      effects: { a: 1, b: 1, c: 1, d: 2 },
      files: BRANCHES,
    },
    {
      shape: "parallel",
      kind: "worktree",
      command: "fork RUN --at d --start",
      starts: true,
      effects: { a: 1, b: 1, c: 1, d: 2 },
      files: BRANCHES,
    },
    {
      shape: "failing",
      kind: "worktree",
      command: "fork RUN --start",
      starts: true,
      effects: { a: 1, b: 2, c: 1 },
      files: { ...WHOLE, "b.txt": "b\n" },
    },
    {
      shape: "sequential",
      kind: "here",
      command: "fork RUN --at b --start",
      starts: true,
      effects: AGAIN_B,
      files: TWICE,
    },
    {
      shape: "sequential",
      kind: "here",
      command: "fork RUN --at b --start --files restore",
      starts: true,
      effects: AGAIN_B,
      files: WHOLE,
    },
  ];

  it.each(forks)("$shape, $kind: $command", async (wanted) => {
    const { repo, id, own } = await madeRun(wanted);
    const before = repo.snapshots();
    const there = repo.files(wanted.kind, id);
    const stored = await repo.stored(id);
    await repo.must(...wanted.command.replace("RUN", id).split(" "));
    const [fork = ""] = repo.ids();
    expect(fork).not.toBe(id);
    if (!wanted.starts) await repo.must("resume", fork);
    expect(repo.effects()).toEqual(wanted.effects);
    expect(repo.files(wanted.kind, fork)).toEqual(wanted.files);
    if (wanted.kind !== "here") expect(repo.files(wanted.kind, id)).toEqual(there);
    expect(await repo.stored(fork)).toMatchObject({
      status: "completed",
      events: expect.arrayContaining([
        expect.objectContaining({
          event: expect.objectContaining({
            type: "run.forked",
            from: expect.objectContaining({ run: id }),
          }),
        }),
      ]),
    });
    // The run that it comes from knows nothing of it.
    expect(await repo.stored(id)).toEqual(stored);
    for (const [ref, commit] of before) expect(repo.snapshots().get(ref), ref).toBe(commit);
    expect(repo.own()).toEqual(own);
    expect(repo.fsck()).toBe("");
  });
});
