/**
 * The simulated disk: workspaces as maps of files, and snapshots of them. Operations take time, and a
 * crash leaves them half done. What must never happen to files is checked here, where it would.
 */
import type { AttemptRef, EventOf } from "../../src/core/event.ts";
import type { Fact, MergeReport } from "../../src/core/fact.ts";
import { ownWorkspaces, type SavedFiles } from "../../src/core/move.ts";
import { attemptOf, findVisit, type Run, visitRef } from "../../src/core/run.ts";
import { attemptText, visitText } from "../../src/core/step-path.ts";
import {
  commitWith,
  hasOwnWorkspace,
  SHARED,
  workedAlone,
  workspaceOf,
} from "../../src/core/workspace-files.ts";
import type { FilesOperation } from "../../src/engine/executors/executor.ts";
import type { Random } from "../../src/util/random.ts";
import { Violation } from "./conversation-checkers.ts";
import type { World } from "./world.ts";

type Tree = ReadonlyMap<string, string>;

/** A snapshot: the files, and in the run's workspace the commit that was checked out with them. */
interface Snapshot {
  readonly tree: Tree;
  readonly head?: string;
}

/** A commit on the run's branch. */
interface BranchCommit {
  readonly steps: readonly string[];
  readonly tree: Tree;
  readonly parent: string;
}

/** The commit that the run's branch starts with. */
const BASE = "b0";

interface UnderWay {
  readonly operation: FilesOperation;
  readonly endsAt: number;
}

export class FakeFiles {
  readonly #world: World;
  readonly #random: Random;
  readonly #workspaces = new Map<string, Map<string, string>>();
  readonly #snapshots = new Map<string, Snapshot>();
  /** Snapshots by what is in them; a file's content is its name. */
  readonly #idOf = new Map<string, string>();
  /** Those of an earlier run. */
  readonly #earlier = new Set<string>();
  readonly #operations: UnderWay[] = [];
  readonly #workspaceOf = new Map<string, string>();
  /** Attempts that completed. */
  readonly #completed = new Set<string>();
  /** Those whose files a person took out of the run's files. */
  readonly #takenBack = new Set<string>();
  /** Files that somebody else wrote into the shared workspace. */
  readonly #bystanders = new Map<string, string>();
  /** Those of them that were lost with a machine. */
  readonly #lostBystanders = new Set<string>();
  /** Snapshots by the attempt that they were taken after, recorded or not. */
  readonly #after = new Map<string, string>();
  /** Every commit that was made on the run's branch, and the last one that the branch has now. */
  readonly #branch = new Map<string, BranchCommit>([
    [BASE, { steps: [], tree: new Map(), parent: "" }],
  ]);
  #head = BASE;
  /** Planted: a merge makes the whole workspace what it computed, whatever was written since. */
  wholeMerges = false;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** A process begins to work: it must find a workspace in which nothing else is done. */
  enter(at: AttemptRef, run: Run): void {
    const visit = findVisit(run, at);
    if (visit === undefined) return;
    const workspace = workspaceOf(visit);
    this.#workspaceOf.set(attemptText(at), workspace);
    const operation = this.#operationIn(workspace);
    if (operation !== undefined && operation.operation.type !== "snapshot") {
      fail(`${attemptText(at)} starts in "${workspace}" during ${operation.operation.type}`);
    }
    if (run.files.size > 0 && workspace !== SHARED && !this.#workspaces.has(workspace)) {
      fail(`${attemptText(at)} starts in "${workspace}", which was not made`);
    }
    const restores = visit.restore === true && workedAlone(run, visit);
    if (restores) this.#expectRestored(at, workspace, visit.base ?? "");
    if (at.attempt === 1 && workedAlone(run, visit)) this.#expectBase(at, workspace, visit.base);
    // A result that was taken whole stays when no edge can be followed after it.
    const kept = visit.base === undefined ? new Map() : this.#tree(visit.base);
    const half = [...this.#in(workspace).keys()].find(
      (path) => path.startsWith(`${visitText(at)}.reused`) && !kept.has(path),
    );
    if (visit.failures === 0 && half !== undefined)
      fail(`${attemptText(at)} starts with a part of a result: ${half}`);
    this.#write(workspace, `${attemptText(at)}.begin`);
  }

  /** A process has ended: what it wrote is still there. */
  leave(at: AttemptRef): void {
    const workspace = this.#workspaceOf.get(attemptText(at)) ?? SHARED;
    const files = this.#in(workspace);
    if (!files.has(`${attemptText(at)}.begin`)) {
      fail(`a file of ${attemptText(at)} was lost while it worked`);
    }
    this.#write(workspace, `${attemptText(at)}.end`);
  }

  /** Somebody who is no part of the run writes a file. */
  bystander(name: string): void {
    this.#bystanders.set(name, name);
    this.#write(SHARED, name);
  }

  begin(operation: FilesOperation, run: Run): void {
    if (operation.type === "merge") expectTurn(operation.at, run);
    for (const workspace of workspacesOf(operation)) {
      const other = this.#operationIn(workspace);
      if (other !== undefined) fail(`${operation.type} begins during ${other.operation.type}`);
      if (operation.needs !== "workspace-alone") continue;
      const worker = this.#world.alive().find(({ at }) => this.#worksIn(at) === workspace);
      if (worker) fail(`${operation.type} begins while ${attemptText(worker.at)} works there`);
    }
    this.#operations.push({ operation, endsAt: this.#world.now + this.#random.below(60) });
  }

  /** When the next operation will have ended. */
  nextEnd(): number | undefined {
    const times = this.#operations.map(({ endsAt }) => endsAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** The reports of operations that have ended by now. */
  ended(run: Run): readonly Fact[] {
    const over = this.#operations.filter(({ endsAt }) => endsAt <= this.#world.now);
    for (const one of over) this.#operations.splice(this.#operations.indexOf(one), 1);
    return over.map(({ operation }) => this.#finish(operation, run));
  }

  /** The owner died: each operation has done some of its work, or none. */
  crash(run: Run): void {
    for (const { operation } of this.#operations.splice(0)) {
      if (operation.type === "restore")
        this.#apply(operation.workspace, operation.from, operation.to, 0.5);
      else if (operation.type === "reuse")
        this.#apply(operation.workspace, operation.found.base, operation.found.after, 0.5);
      else if (this.#random.chance(0.3)) this.#finish(operation, run);
    }
  }

  /** What a completed attempt left is in the snapshot that its event names. */
  expectSaved(at: AttemptRef, commit: string | undefined): void {
    const workspace = this.#worksIn(at);
    if (workspace === undefined) return;
    if (commit === undefined) fail(`${attemptText(at)} is complete, and nothing holds its files`);
    this.#completed.add(attemptText(at));
    const tree = this.#tree(commit);
    if (!tree.has(`${attemptText(at)}.end`)) {
      fail(`the snapshot of ${attemptText(at)} was taken before it had ended`);
    }
  }

  /** The snapshots of an earlier run that did the work of a visit on the same files. */
  earlier(at: AttemptRef, base: string): { readonly base: string; readonly after: string } {
    const names = ["one", "two"].map((name) => `${visitText(at)}.reused-${name}`);
    const files = new Map([...this.#tree(base), ...names.map((name) => [name, name] as const)]);
    const after = this.#commit({ tree: files });
    this.#earlier.add(after);
    return { base, after };
  }

  /** A step that took an earlier result has all its files, and nothing of it ran. */
  expectReused(at: AttemptRef, commit: string | undefined): void {
    if (this.#workspaceOf.has(attemptText(at))) fail(`${attemptText(at)} ran and took a result`);
    const tree = this.#tree(commit ?? "");
    const isWhole = ["one", "two"].every((name) => tree.has(`${visitText(at)}.reused-${name}`));
    if (!isWhole) fail(`${attemptText(at)} lacks files of the result that it took`);
  }

  /** No file of a bystander is gone: it is there, or kept aside. */
  expectBystanders(): void {
    const shared = this.#in(SHARED);
    for (const [name, content] of this.#bystanders) {
      if (shared.get(name) === content) continue;
      const kept = [...this.#snapshots.values()].some(({ tree }) => tree.get(name) === content);
      if (!kept && !this.#lostBystanders.has(name)) fail(`the file ${name} of a bystander is lost`);
    }
  }

  /** The files as they are now, for a machine that may have to continue the run. */
  save(run: Run): SavedFiles {
    const own = [...ownWorkspaces(run).keys()].filter((one) => this.#workspaces.has(one));
    return {
      commit: this.#take(SHARED),
      own: Object.fromEntries(own.map((workspace) => [workspace, this.#take(workspace)])),
    };
  }

  /** The same files with a later commit of the branch checked out. */
  withCommit(snapshot: string, head: string): string {
    return this.#commit({ tree: this.#tree(snapshot), head });
  }

  /**
   * The machine is destroyed, and another one has only these files. The project of a person there has
   * other files until those of the run are restored.
   */
  moveTo(run: Run, { commit, own }: SavedFiles, isRestoredLater: boolean): void {
    for (const name of this.#bystanders.keys()) this.#lostBystanders.add(name);
    this.#workspaces.clear();
    this.#head = BASE;
    if (commit !== undefined) {
      if (!isRestoredLater) this.#workspaces.set(SHARED, new Map(this.#tree(commit)));
      this.#checkOut(commit, commitWith(run, commit));
    }
    for (const [workspace, saved] of Object.entries(own)) {
      this.#workspaces.set(workspace, new Map(this.#tree(saved)));
    }
    for (const visit of run.running) {
      const workspace = workspaceOf(visit);
      const saved = workspace === SHARED ? commit : own[workspace];
      const name = attemptText(attemptOf(visit));
      if (saved === undefined) this.#after.delete(name);
      else this.#after.set(name, saved);
    }
  }

  /** The files of the run keep what completed attempts left in them. */
  expectKept(before: string | undefined, after: string | undefined): void {
    if (before === undefined || after === undefined || before === after) return;
    const [then, now] = [this.#tree(before), this.#tree(after)];
    for (const attempt of this.#completed) {
      const path = `${attempt}.end`;
      if (then.has(path) && !now.has(path)) fail(`${path} is gone from the files of the run`);
    }
  }

  /** What an event says is committed is on the branch: the commit, and the files of the steps. */
  expectCommitted(committed: EventOf<"run.committed">): void {
    const branch = this.#onBranch();
    const { commit, steps } = committed;
    const attempts = [...this.#completed].filter((one) => steps.includes(visitOf(one)));
    if (attempts.some((attempt) => this.#takenBack.has(attempt))) return;
    if (commit !== undefined && !branch.includes(this.#branchCommit(commit))) {
      fail(`the commit of ${steps.join()} is not on the branch any more`);
    }
    for (const attempt of attempts) {
      if (branch.some(({ tree }) => tree.has(`${attempt}.end`))) continue;
      fail(`an event says that ${attempt} is committed, and no commit has its files`);
    }
  }

  #finish(operation: FilesOperation, run: Run): Fact {
    switch (operation.type) {
      case "snapshot": {
        const { workspace, serves } = operation;
        const [ended] = serves.after ?? [];
        const kept = operation.adopted && ended && this.#after.get(attemptText(ended));
        const commit = kept ?? this.#take(workspace);
        // An owner that dies now has stored it, and could not record it.
        if (ended !== undefined) this.#after.set(attemptText(ended), commit);
        const base = serves.aside && findVisit(run, serves.aside)?.base;
        const changed = base === undefined || !sameTree(this.#tree(base), this.#tree(commit));
        return { type: "snapshotted", workspace, serves, snapshot: { commit }, changed };
      }
      case "make-workspace": {
        const { at, workspace, base, afresh } = operation;
        if (afresh || !this.#workspaces.has(workspace)) {
          this.#workspaces.set(workspace, new Map(this.#tree(base)));
        }
        return { type: "files-ready", at, workspace, how: "made" };
      }
      case "restore": {
        const { at, workspace, from, to, head } = operation;
        const before = this.#completedIn(workspace);
        this.#apply(workspace, from, to, 1);
        if (workspace === SHARED) this.#checkOut(to, head);
        const lost = before.find((path) => !this.#in(workspace).has(path));
        if (lost !== undefined) fail(`${lost} is gone: its files were put back for another step`);
        return { type: "files-ready", at, workspace, how: "restored" };
      }
      case "reuse": {
        const { at, workspace, found } = operation;
        const { base, after } = found;
        this.#apply(workspace, base, after, 1);
        if (!this.#random.chance(0.15)) return { type: "reused", at, workspace };
        this.#apply(workspace, after, base, 1);
        const problem = { why: "changed", message: "somebody changed a file" } as const;
        return { type: "reused", at, workspace, problem };
      }
      case "rewind-files": {
        const aside = this.#take(SHARED);
        this.#apply(SHARED, aside, operation.commit, 1);
        this.#checkOut(operation.commit, operation.head);
        for (const attempt of this.#completed) {
          if (!this.#in(SHARED).has(`${attempt}.end`)) this.#takenBack.add(attempt);
        }
        return { type: "restored", commit: operation.commit, aside };
      }
      case "merge": {
        const { at, workspace } = operation;
        this.#after.set(attemptText(at), this.#take(visitText(at)));
        return { type: "merged", at, workspace, result: this.#merge(visitText(at), operation) };
      }
      case "merge-scope": {
        const { scope, workspace } = operation;
        return { type: "scope-merged", scope, workspace, result: this.#merge(scope, operation) };
      }
      case "commit":
        return this.#commitSteps(operation.steps);
    }
  }

  /** Commits what differs from the last commit, for the steps that it does not name. */
  #commitSteps(steps: readonly string[]): Fact {
    const last = this.#branchCommit(this.#head);
    const fresh = steps.filter((step) => !last.steps.includes(step));
    if (fresh.length === 0 || sameTree(last.tree, this.#in(SHARED))) {
      // An earlier owner may have made the commit, and could not report it.
      const known = fresh.length < steps.length ? { commit: this.#head } : {};
      return { type: "committed", steps, ...known };
    }
    const commit = `b${this.#branch.size}`;
    const tree = new Map(this.#in(SHARED));
    this.#branch.set(commit, { steps: fresh, tree, parent: this.#head });
    this.#head = commit;
    return { type: "committed", steps, commit };
  }

  /** Checks out the commit of a snapshot, or a later one that has the same work. */
  #checkOut(snapshot: string, later?: string): void {
    this.#head = later ?? this.#snapshot(snapshot).head ?? this.#head;
  }

  /** The commits that the run's branch has now, the last one first. */
  #onBranch(): readonly BranchCommit[] {
    const commits: BranchCommit[] = [];
    for (let at = this.#head; at !== ""; ) {
      const commit = this.#branchCommit(at);
      commits.push(commit);
      at = commit.parent;
    }
    return commits;
  }

  #branchCommit(commit: string): BranchCommit {
    const found = this.#branch.get(commit);
    if (found === undefined) fail(`there is no commit ${commit}`);
    return found;
  }

  /** Adds what was done apart; sometimes it does not fit, until somebody has seen to it. */
  #merge(
    own: string,
    operation: Extract<FilesOperation, { type: "merge" | "merge-scope" }>,
  ): MergeReport {
    const { workspace, base, conflicts } = operation;
    const theirs = this.#in(own);
    const ours = this.#take(workspace);
    const saved = { commit: this.#take(own) };
    if (conflicts.length === 0 && this.#random.chance(0.15)) {
      return { ok: false, paths: ["fought-over"], base: ours, theirs: saved };
    }
    // While the merge was computed, other steps kept writing.
    if (workspace === SHARED) this.bystander(`meanwhile-${this.#snapshots.size}`);
    const merged = new Map(this.#tree(ours));
    const before = this.#tree(base);
    for (const [path, content] of theirs) if (!before.has(path)) merged.set(path, content);
    if (this.wholeMerges) this.#workspaces.set(workspace, merged);
    else this.#apply(workspace, ours, this.#commit({ tree: merged }), 1);
    for (const path of theirs.keys()) {
      if (!before.has(path) && !this.#in(workspace).has(path)) fail(`${path} was not merged`);
    }
    const snapshot = { commit: this.#take(workspace) };
    return { ok: true, snapshot, theirs: saved.commit };
  }

  /** Applies a difference path by path; a path that is not as expected is left alone. */
  #apply(workspace: string, from: string, to: string, share: number): void {
    const files = this.#in(workspace);
    const [before, after] = [this.#tree(from), this.#tree(to)];
    for (const path of new Set([...before.keys(), ...after.keys()])) {
      if (before.get(path) === after.get(path) || files.get(path) !== before.get(path)) continue;
      if (share < 1 && !this.#random.chance(share)) continue;
      const content = after.get(path);
      if (content === undefined) files.delete(path);
      else files.set(path, content);
    }
  }

  /** An attempt that begins alone finds the files of its base; bystanders may have added some. */
  #expectBase(at: AttemptRef, workspace: string, base: string | undefined): void {
    if (base === undefined) return;
    const before = this.#tree(base);
    const strange = [...this.#in(workspace).keys()].find(
      (path) => !before.has(path) && !this.#bystanders.has(path),
    );
    if (strange !== undefined) fail(`${attemptText(at)} finds ${strange}, which its base has not`);
  }

  /**
   * What earlier attempts of the visit had written is not there, unless a person chose to keep it.
   */
  #expectRestored(at: AttemptRef, workspace: string, base: string): void {
    const kept = this.#tree(base);
    for (let attempt = 1; attempt < at.attempt; attempt++) {
      const path = `${attemptText({ ...at, attempt })}.begin`;
      if (kept.has(path) || !this.#in(workspace).has(path)) continue;
      fail(`${attemptText(at)} finds ${path} after a restore`);
    }
  }

  /** Files of completed attempts that are there, from work in it or merged into it. */
  #completedIn(workspace: string): readonly string[] {
    const files = this.#in(workspace);
    return [...this.#completed]
      .map((attempt) => `${attempt}.end`)
      .filter((path) => files.has(path));
  }

  #worksIn(at: AttemptRef): string | undefined {
    return this.#workspaceOf.get(attemptText(at));
  }

  #operationIn(workspace: string): UnderWay | undefined {
    return this.#operations.find(({ operation }) => workspacesOf(operation).includes(workspace));
  }

  #write(workspace: string, path: string): void {
    this.#in(workspace).set(path, path);
  }

  #in(workspace: string): Map<string, string> {
    const files = this.#workspaces.get(workspace) ?? new Map<string, string>();
    this.#workspaces.set(workspace, files);
    return files;
  }

  #tree(commit: string): Tree {
    return this.#snapshot(commit).tree;
  }

  #snapshot(commit: string): Snapshot {
    const snapshot = this.#snapshots.get(commit);
    if (snapshot === undefined) fail(`there is no snapshot ${commit}`);
    return snapshot;
  }

  /** Takes a snapshot of a workspace. */
  #take(workspace: string): string {
    const tree = this.#in(workspace);
    return this.#commit(workspace === SHARED ? { tree, head: this.#head } : { tree });
  }

  #commit({ tree, head }: Snapshot): string {
    const content = `${head ?? ""} ${[...tree.keys()].sort().join()}`;
    const known = this.#idOf.get(content);
    if (known !== undefined) return known;
    const id = `c${this.#snapshots.size + 1}`;
    this.#snapshots.set(id, { tree: new Map(tree), ...(head === undefined ? {} : { head }) });
    this.#idOf.set(content, id);
    return id;
  }

  /** A snapshot that a person may ask for. */
  anyCommit(): string {
    const taken = [...this.#snapshots.keys()].filter((one) => !this.#earlier.has(one));
    return taken.length === 0 ? this.#take(SHARED) : this.#random.pick(taken);
  }
}

/** The workspaces that an operation must have for itself among operations. */
function workspacesOf(operation: FilesOperation): readonly string[] {
  switch (operation.type) {
    case "rewind-files":
    case "commit":
      return [SHARED];
    case "merge":
      return [operation.workspace, visitText(operation.at)];
    case "merge-scope":
      return [operation.workspace, operation.scope];
    default:
      return [operation.workspace];
  }
}

/** Of steps that work apart at the same time, the first in the plan is merged first. */
function expectTurn(at: AttemptRef, run: Run): void {
  const visit = findVisit(run, at);
  const earlier = [...run.running].find(
    (other) =>
      hasOwnWorkspace(other) &&
      other.record.scope === visit?.record.scope &&
      other.record.position < visit.record.position,
  );
  if (earlier) fail(`${attemptText(at)} is merged before ${visitText(visitRef(earlier))}`);
}

/** The visit of an attempt, by their names. */
function visitOf(attempt: string): string {
  return attempt.slice(0, attempt.lastIndexOf("."));
}

function sameTree(one: Tree, other: Tree): boolean {
  return one.size === other.size && [...one].every(([path, text]) => other.get(path) === text);
}

function fail(message: string): never {
  throw new Violation(message);
}
