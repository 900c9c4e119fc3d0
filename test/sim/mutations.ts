/**
 * Defects that are planted in a copy of the source, one at a time: the simulator must find each. They are
 * those that the loop had, or could have.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { FLEET_BUGS } from "./fleet/session.ts";

interface Change {
  /** The file, if it is not that of the defect. */
  readonly in?: string;
  readonly from: string;
  readonly to: string;
}

interface Mutation extends Change {
  readonly name: string;
  readonly file: string;
  /** Further guards against the same defect. */
  readonly also?: readonly Change[];
  /** The search starts here, for a defect that few seeds meet; 1 if absent. */
  readonly firstSeed?: number;
  /** Fleets must find it, not single runs. */
  readonly fleet?: true;
}

const OPERATIONS = "src/core/operations.ts";
const WORKSPACE_FILES = "src/core/workspace-files.ts";
const MOVED = "src/core/move.ts";
const LEASE_POLICY = "src/app/fleet/lease-policy.ts";
/** The journal, too, refuses the lease of another worker. */
const ALSO_IN_THE_JOURNAL: Change = {
  in: "src/journal/leases.ts",
  from: "holder.worker !== undefined && holder.worker !== owner.worker",
  to: "holder.worker === null",
};

const MUTATIONS: readonly Mutation[] = [
  {
    name: "a result that was taken in part is left so, and the step runs on top of it",
    firstSeed: 3000,
    file: OPERATIONS,
    from: 'return phase === "preparing" && !busy && foundBy(visit) === undefined;',
    to: 'return phase === "preparing" && !busy;',
    also: [
      {
        from: "return mayBegin(run) || (foundBy(visit) !== undefined && run.restoring === undefined);",
        to: "return mayBegin(run);",
      },
    ],
  },
  {
    name: "a process starts although the result of an earlier run was found",
    file: OPERATIONS,
    from: "if (foundBy(visit) !== undefined) return reuse(run, activity, visit, entry);",
    to: "",
  },
  {
    name: "a step completes with a result that could not be taken",
    file: "src/core/activity.ts",
    from: "if (fact.problem !== undefined) return [fact];",
    to: "",
  },
  {
    name: "files are put back over what was merged since",
    file: OPERATIONS,
    from: "!entry.restored && workedAlone(run, visit)",
    to: "!entry.restored",
    firstSeed: 5_000,
  },
  {
    name: "a new round of a loop keeps the edges of the last one",
    file: "src/core/graph/edge.ts",
    from: '    edges[index] = "open";\n',
    to: "",
  },
  {
    name: "a step inside an ended composite runs again, and the composite does not",
    file: "src/core/graph/scope.ts",
    from: 'if (closed) reopenScope(run, scope, "failed");',
    to: "void closed;",
  },
  {
    name: "visits that are reopened count on instead of being history",
    file: "src/core/graph/edge.ts",
    from: "if (past !== undefined) makePast(run, record, past);",
    to: "",
  },
  {
    name: "work is done again because its judge failed",
    file: "src/core/attempt/check.ts",
    from: "if (!kept) delete draft(visit).submitted;",
    to: "delete draft(visit).submitted;",
  },
  {
    name: "work is done before its judge has said so",
    file: "src/core/attempt/attempt-end.ts",
    from: "if (missingJudge(stepOf(visit), ending) === undefined) {",
    to: "if (visit.attempts > 0) {",
  },
  {
    name: "a message is sent twice in one conversation",
    file: "src/core/conversation/message.ts",
    from: 'if (message.delivered === true) return wasSent && kind === "start";',
    to: "",
  },
  {
    name: "files are put back while a neighbour works on them",
    file: OPERATIONS,
    from: "if (othersRestore(run, activity, visit, workspace)) return [];",
    to: "",
    also: [
      { from: "if (isWorkedIn(activity, workspace)) return [];", to: "" },
      { from: "!entry.restored && workedAlone(run, visit)", to: "!entry.restored" },
    ],
  },
  {
    name: "a step starts in the middle of a restore or a merge",
    file: OPERATIONS,
    from: 'if (operation !== undefined && operation !== "snapshot") return [];',
    to: "",
  },
  {
    name: "snapshots of one workspace pile up",
    file: OPERATIONS,
    from: 'if (activity.files.has(workspace)) return [];\n  activity.files.set(workspace, "snapshot");\n  for (const entry of entries)',
    to: "for (const entry of entries)",
  },
  {
    name: "an exit status proves that nothing happened",
    file: "src/core/attempt/uncertain.ts",
    from: "if (!once || notDone.includes(ending.exit)) return end;",
    to: "return end;",
  },
  {
    name: "two merges into one workspace at once",
    file: OPERATIONS,
    from: "if (activity.files.has(into) || activity.files.has(from)) return false;",
    to: "",
  },
  {
    name: "work is merged in the order in which it ends",
    file: OPERATIONS,
    from: "other.record.position < record.position",
    to: "false",
  },
  {
    name: "the workspace of an instance is not made",
    file: OPERATIONS,
    from: "if (around !== SHARED && !activity.made.has(around)) {",
    to: "if (around !== SHARED && false) {",
  },
  {
    name: "an attempt ends before its files are saved",
    file: "src/core/activity.ts",
    from: "if (!activity.keepsFiles || nothingRan) return",
    to: "if (!activity.keepsFiles || nothingRan || at.attempt > 0) return",
  },
  {
    name: "a snapshot that began before a step ended serves it",
    file: OPERATIONS,
    from: 'else note(into(workspaceOf(visit)), "after", entry);\n    }',
    to: 'else note(into(workspaceOf(visit)), "after", entry);\n    } else if (entry.phase === "working" && !hasOwnWorkspace(visit)) { note(into(workspaceOf(visit)), "after", entry); entry.ending = { how: "exited", exit: 0, outputs: {}, context: {} };\n    }',
  },
  {
    name: "who worked beside a step is forgotten",
    file: WORKSPACE_FILES,
    from: "draft(other).workedBesideOthers = true;\n    draft(visit).workedBesideOthers = true;",
    to: "",
  },
  {
    name: "files that others have changed count as unchanged",
    file: WORKSPACE_FILES,
    from: "return clean ? snapshot : undefined;",
    to: "return snapshot;",
  },
  {
    name: "what an earlier owner started is not adopted",
    file: OPERATIONS,
    from: 'operations.push({ type: "adopt", at, needs: "slot" });',
    to: "void at;",
  },
  {
    name: "a stopping run waits for what it never starts",
    file: "src/core/next-actions.ts",
    from: "=> canWithdraw(visit, entry));",
    to: "=> canWithdraw(visit, entry) && attempts.length < 0);",
  },
  {
    name: "a restore waits for what waits for the restore",
    file: OPERATIONS,
    from: "operations.push(...rewindFiles(run, activity));",
    to: "if (run.restoring !== undefined) return [...operations, ...rewindFiles(run, activity)];",
  },
  {
    name: "a run ends before its work is committed",
    file: "src/core/next-actions.ts",
    from: "isIdle(run) && !mustCommit(run, activity) ?",
    to: "isIdle(run) ?",
  },
  {
    name: "a step starts while the work of another is committed",
    file: OPERATIONS,
    from: 'if (operation !== undefined && operation !== "snapshot") return [];',
    to: 'if (operation === "restore" || operation === "merge") return [];',
  },
  {
    name: "the snapshot of a result that could not be taken is recorded for the work after it",
    file: OPERATIONS,
    from: "workedAlone(run, visit) && visit.recall === undefined",
    to: "workedAlone(run, visit)",
    firstSeed: 11_900,
  },
  {
    name: "a snapshot of an earlier owner is used although other work was merged since",
    file: OPERATIONS,
    from: "const isOurs = workedAlone(run, visit) &&",
    to: "const isOurs =",
  },
  {
    name: "files that are not restored yet are recorded as those of an attempt",
    file: OPERATIONS,
    from: "isOurs || run.restoring?.moved === true ?",
    to: "isOurs ?",
  },
  {
    name: "a restore takes the commit of an earlier step off the branch",
    file: WORKSPACE_FILES,
    from: "  commits.set(snapshot, commit);\n",
    to: "",
  },
  {
    name: "a retry after the end of a run takes its commit off the branch",
    file: WORKSPACE_FILES,
    from: "if (isOpen && latest.base !== undefined) commits.set(latest.base, commit);",
    to: "void isOpen;",
  },
  {
    name: "a moved run gets files that are older than its last event",
    file: MOVED,
    from: "then.snapshot === now.snapshot ?",
    to: "then.id === now.id ?",
  },
  {
    name: "work that is not merged yet is left behind by a move",
    file: MOVED,
    from: "(isNewest(workspace) ? own[workspace] : undefined) ?? known",
    to: "isNewest(workspace) ? known : undefined",
  },
  {
    name: "what takes the result of an earlier run counts as started elsewhere",
    file: MOVED,
    from: "foundBy(visit) === undefined && ",
    to: "",
    firstSeed: 4_400,
  },
  {
    name: "an owner that was replaced writes",
    file: "src/journal/memory.ts",
    from: "refuseStale(run, write.epoch);",
    to: "if (events.length > write.afterSeq) events.length = write.afterSeq;",
  },
  {
    name: "effects begin before their events are durable",
    file: "src/engine/loop.ts",
    from: "await log.append(runId, { epoch, ...write, summary });",
    to: "if (afterSeq > 8) await log.append(runId, { epoch, ...write, summary });",
  },
  {
    name: "the next owner applies a request again",
    file: "src/core/evolve.ts",
    from: "draft(run).handled.add(event.request);",
    to: "",
  },
  {
    name: "a request is lost with its owner",
    file: "src/journal/inbox.ts",
    from: "return key !== undefined && !handled.has(key);",
    to: 'return key !== undefined && !handled.has(key) && request.type === "message";',
  },
  {
    name: "a request takes a running step away",
    file: "src/core/request.ts",
    from: "for (const event of events) refuseUnderWork(run, event);",
    to: "",
  },
  {
    name: "a verdict settles a later attempt than the one that its asker saw",
    file: "src/core/request.ts",
    from: "refuseLate(run, fact, attempt);",
    to: "",
  },
  {
    name: "finally steps run although a person stopped the run",
    file: "src/core/run-end.ts",
    from: 'stopped !== undefined && stopped.code !== "budget"',
    to: "stopped === null",
  },
  {
    name: "steps of the pipeline start while the run finishes",
    file: "src/core/next-actions.ts",
    from: "    return found;\n  }\n  for (const visit of run.waiting.retry)",
    to: "  }\n  for (const visit of run.waiting.retry)",
  },
  {
    name: "the failure of a finally step is forgotten",
    file: "src/core/run-end.ts",
    from: 'return failed === undefined ? { type: "run.completed" } : failedAt(failed);',
    to: 'return failed === null ? failedAt(failed) : { type: "run.completed" };',
  },
  {
    name: "a retry of one item starts the others again",
    file: "src/core/graph/rewind.ts",
    from: "    reopen(run, scope, [start]);\n",
    to: "    reopen(run, scope, [start], { past: time });\n",
  },
  {
    name: "the loop leaves its executors open",
    file: "src/engine/loop.ts",
    from: "await this.#close();\n    return state;",
    to: "return state;",
  },
  {
    name: "steps end no earlier than the lease in the store",
    file: LEASE_POLICY,
    from: "LEASE_MARGIN_SHARE = 1 / 3",
    to: "LEASE_MARGIN_SHARE = 0",
    fleet: true,
  },
  {
    name: "a worker relies on its own clock alone",
    file: LEASE_POLICY,
    from: "CLOCK_SLOW_MAX = 0.1",
    to: "CLOCK_SLOW_MAX = 9",
    fleet: true,
  },
  {
    name: "a worker takes over before the lease has run out",
    file: LEASE_POLICY,
    from: "if (owner === undefined || lease?.hasExpired === true) return",
    to: "if (owner === undefined || owner.worker !== worker) return",
    also: [ALSO_IN_THE_JOURNAL],
    fleet: true,
  },
  {
    name: "a dead process proves that the steps of another worker's directory are dead",
    file: LEASE_POLICY,
    from: "owner.worker === worker && owner.boot === boot",
    to: "owner.boot === boot",
    also: [ALSO_IN_THE_JOURNAL],
    fleet: true,
  },
  {
    name: "an old directory is used again although another worker wrote since",
    file: LEASE_POLICY,
    from: "return usedUnder === epoch - 1;",
    to: "return usedUnder !== undefined && epoch > 0;",
    fleet: true,
  },
  {
    name: "a doubled job resumes a run that has ended",
    file: LEASE_POLICY,
    from: "!hasEnded || pendingRequests > 0",
    to: "!hasEnded || pendingRequests >= 0",
    fleet: true,
  },
  {
    name: "a worker that was replaced stores files",
    file: "src/journal/memory-files.ts",
    from: "(lease?.epoch ?? 0) !== epoch",
    to: "lease === null",
    fleet: true,
  },
];

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** Within so many seeds a planted defect must be found; a fleet takes longer than a run. */
const SEEDS = 3_000;
const FLEET_SEEDS = 400;

/** A defect as it is planted: changes of files, and the seeds that must find it. */
interface Planted {
  readonly name: string;
  readonly changes: readonly (Change & { readonly in: string })[];
  readonly args: readonly string[];
}

/** All defects: changes of the source, and those that the simulated fleet has in itself. */
function allPlanted(): readonly Planted[] {
  const mutations = MUTATIONS.map((mutation): Planted => {
    const { name, file, also = [], firstSeed = 1, fleet } = mutation;
    const first = [fleet ? "--first-fleet" : "--from", String(firstSeed)];
    const [runs, fleets] = fleet ? [0, FLEET_SEEDS] : [SEEDS, 0];
    const args = [...first, "--runs", String(runs), "--fleets", String(fleets)];
    return { name, changes: [mutation, ...also].map((one) => ({ in: file, ...one })), args };
  });
  const bugs = FLEET_BUGS.map((bug): Planted => {
    const args = ["--runs", "0", "--fleets", `${FLEET_SEEDS}`, "--bug", bug];
    return { name: bug.replaceAll("-", " "), changes: [], args };
  });
  return [...mutations, ...bugs];
}

/**
 * Plants each defect in a copy and runs the simulator on it, in as many copies as there are cores;
 * gives how many there are whose name has this text, and the names of those it missed.
 */
export async function plantAll(
  say: (line: string) => void,
  only: string,
): Promise<{ readonly count: number; readonly missed: readonly string[] }> {
  const all = allPlanted().filter(({ name }) => name.includes(only));
  const waiting = [...all];
  const missed: string[] = [];
  const work = async (): Promise<void> => {
    const copy = copyOfTheCode();
    try {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        if (!(await isCaught(copy, next, say))) missed.push(next.name);
      }
    } finally {
      fs.rmSync(copy, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return { count: all.length, missed };
}

function copyOfTheCode(): string {
  const copy = fs.mkdtempSync(join(tmpdir(), "perdure-mutations-"));
  for (const part of ["src", "test/sim", "test/core"]) {
    fs.cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  }
  fs.copyFileSync(join(ROOT, "package.json"), join(copy, "package.json"));
  fs.symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

async function isCaught(
  copy: string,
  { name, changes, args }: Planted,
  say: (line: string) => void,
): Promise<boolean> {
  for (const { in: file, from, to } of changes) {
    const path = join(copy, file);
    const whole = fs.readFileSync(path, "utf8");
    if (whole.split(from).length !== 2) throw new Error(`"${name}": its text is not there`);
    fs.writeFileSync(
      path,
      whole.replace(from, () => to),
    );
  }
  // All but the changed files are the same as for the last mutation.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(copy, "compiled") };
  const command = ["test/sim/main.ts", ...args, "--one-process"];
  const child = spawn(process.execPath, command, {
    cwd: copy,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "close") as Promise<[number | null]>;
  const [stderr, [status]] = await Promise.all([text(child.stderr), ended]);
  for (const { in: file } of changes) fs.copyFileSync(join(ROOT, file), join(copy, file));
  const seed = /seed (\d+) failed/.exec(stderr)?.[1];
  const found = /^(?:Violation|AssertionError|JournalError|Error): .*$/m.exec(stderr)?.[0];
  const caught = status !== 0 && seed !== undefined;
  say(caught ? `caught: ${name}\n        seed ${seed}: ${found}` : `NOT CAUGHT: ${name}`);
  return caught;
}
