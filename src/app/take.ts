/**
 * Takes the result of a worktree run into the user's branch: merges its branch, applies its changes
 * without a commit, or opens a pull request.
 *
 * Owns: which run can be taken, the messages of commits, and the once-only pull request.
 * Does not: touch git itself (workspace/worktree/take.ts).
 * Invariants:
 * - take/K3 A pull request is looked for before one is opened, so a command that was killed and runs
 *   again opens no second one.
 */
import { spawn } from "node:child_process";
import { failpoint } from "../util/failpoint.ts";
import { countText } from "../view/text.ts";
import type { BranchWork, MergeKind, ResultLocation } from "../workspace/worktree/take.ts";
import { refuseMoved } from "./drive/ownership.ts";
import { keepsFiles, openRunWorkspace, relinkWorktrees } from "./drive/run-workspace.ts";
import type { LoadedRun } from "./loaded-run.ts";
import type { FleetWorkers, Project } from "./project/project.ts";
import { advice, after, asRefusal, command, type Next, Refusal, when } from "./refusal.ts";

/** The commits of a run on its branch, and where they are. */
export interface RunResult extends BranchWork {
  readonly place: ResultLocation;
  /** All its files as a tree, if they are in no directory of this machine. */
  readonly tree?: string;
}

/** The place of the uncommitted files of a fleet's run, for people. */
const IN_FLEET = "the fleet";

/** The result of a worktree run; undefined for other runs, and when its branch is gone. */
export async function resultOf(project: Project, known: LoadedRun): Promise<RunResult | undefined> {
  const { run, cleanedAt } = known;
  const { workspace, created } = run;
  if (workspace?.kind !== "worktree" || cleanedAt !== undefined) return undefined;
  // Showing a run must not write to a repository.
  if (project.workers !== undefined) return undefined;
  const { branch, base } = workspace;
  if (branch === undefined || base === undefined || created === undefined) return undefined;
  await relinkWorktrees(project, known);
  const { workOf } = await import("../workspace/worktree/take.ts");
  const place = { checkout: created.cwd, worktree: workspace.path, branch, base };
  const work = await workOf(place);
  return work && { ...work, place };
}

/** The result of a run that has ended; undefined when it has none, or none that can be read. */
export async function readableResult(
  project: Project,
  known: LoadedRun,
): Promise<RunResult | undefined> {
  const { status } = known.run.state;
  if (status !== "completed" && status !== "failed") return undefined;
  return resultOf(project, known).catch((error: unknown) => {
    if (asRefusal(error) === undefined) throw error;
    return undefined;
  });
}

/** The result of a worktree run of a fleet, brought into the repository of this directory. */
async function fleetResult(
  project: Project,
  workers: FleetWorkers,
  known: LoadedRun,
): Promise<RunResult | undefined> {
  const { workspace } = known.run;
  const { branch, base } = workspace ?? {};
  if (branch === undefined || base === undefined || known.cleanedAt !== undefined) return undefined;
  const { bringResult } = await import("./fleet/fleet-files.ts");
  const work = await bringResult(project, workers, known);
  if (work === undefined) return undefined;
  const { workAt } = await import("../workspace/worktree/take.ts");
  const place = { checkout: workers.near, worktree: IN_FLEET, branch, base };
  const { commit } = work.head;
  const left = await workAt(place, { commit, branch }, work.uncommitted);
  return { ...left, place, tree: work.tree };
}

/** The result of a worktree run; refuses a run without one. */
async function needResult(project: Project, known: LoadedRun, verb: string): Promise<RunResult> {
  const { run, plan, shortId, liveness } = known;
  const { workers } = project;
  refuseMoved(known);
  if (liveness === "owned") {
    const message = `run ${shortId} is still at work`;
    throw new Refusal("run-owned", message, after(`wait for its end, or stop it`, verb, shortId));
  }
  const result =
    workers === undefined
      ? await resultOf(project, known)
      : await fleetResult(project, workers, known);
  if (result !== undefined) return result;
  const kind = run.workspace?.kind ?? plan.workspace?.kind ?? "here";
  const gone =
    run.workspace === undefined
      ? "it has not made its worktree yet"
      : "its worktree and its branch are gone";
  const where =
    kind === "worktree"
      ? gone
      : `it worked in ${kind === "here" ? "the project itself" : `a ${kind} of its own`}`;
  const next = kind === "directory" || kind === "copy" ? command("show", shortId) : undefined;
  throw new Refusal("no-workspace", `run ${shortId} has no branch to take: ${where}`, next);
}

/** The result of a merge. */
interface Merged {
  readonly how: "merged" | "already";
  readonly result: RunResult;
  readonly commit?: string;
}

/** Merges the branch of a run into the branch that its project has checked out. */
export async function mergeRun(
  project: Project,
  known: LoadedRun,
  kind: MergeKind,
): Promise<Merged> {
  const result = await needResult(project, known, "merge");
  const { shortId } = known;
  const { tip, commits, place } = result;
  // A fleet's run has its commits in this repository, but no branch.
  const branch = result.tree === undefined ? (result.branch ?? tip) : tip;
  if (commits === 0) throw nothingCommitted(shortId, result);
  const { mergeInto } = await import("../workspace/worktree/take.ts");
  const merged = await mergeInto(place.checkout, tip, kind, messageOf(known, result, kind));
  const into = result.target ?? "the checkout";
  switch (merged.how) {
    case "already":
      return { how: "already", result };
    case "merged":
      return { how: "merged", result, commit: merged.commit };
    case "conflicts": {
      const message = `${branch} conflicts with ${into} in ${listText(merged.paths)}; nothing changed`;
      throw new Refusal("merge-conflict", message, advice(`resolve it: git merge ${branch}`));
    }
    case "not-forward": {
      const message = `${into} has ${countText(result.newOnTarget, "commit")} that ${branch} lacks`;
      throw new Refusal("merge-conflict", message, command("merge", shortId));
    }
    case "in-the-way":
      throw new Refusal(
        "files-in-the-way",
        merged.message,
        after("commit or stash your changes", "merge", shortId),
      );
    case "old-git":
      throw new Refusal(
        "merge-conflict",
        `${into} has new commits, and a merge from here needs git 2.38`,
        advice(`git merge ${branch}`),
      );
  }
}

function nothingCommitted(shortId: string, { uncommitted, place }: RunResult): Refusal {
  if (uncommitted.length === 0) {
    return new Refusal(
      "nothing-to-take",
      `run ${shortId} changed no file`,
      command("show", shortId),
    );
  }
  const message =
    `run ${shortId} has no commits; ${countText(uncommitted.length, "changed file")} in ` +
    `${place.worktree} ${uncommitted.length === 1 ? "is" : "are"} not committed`;
  return new Refusal("nothing-to-take", message, command("apply", shortId));
}

function messageOf({ id, run }: LoadedRun, { tip, branch }: RunResult, kind: MergeKind): string {
  const name = run.created?.pipeline ?? "run";
  const subject = kind === "squash" ? name : `Merge branch '${branch ?? tip}'`;
  return `${subject}\n\nPerdure-Run: ${id}\nPerdure-Tip: ${tip}\n`;
}

const PATHS_MAX = 5;
const LIST_SHOWN_MAX = 200;

function listText(paths: readonly string[]): string {
  const more = paths.length - PATHS_MAX;
  return `${paths.slice(0, PATHS_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The number of changed files: 0 when the project already had all changes. */
interface Applied {
  readonly files: number;
  readonly checkout: string;
}

/** Applies the changes of a run to the project's own files, without a commit. */
export async function applyRun(project: Project, known: LoadedRun): Promise<Applied> {
  const { tip, place, tree } = await needResult(project, known, "apply");
  const { applyTo, filesOfWork } = await import("../workspace/worktree/take.ts");
  const files = tree ?? (await filesOfWork(place, tip, await leftOutOf(project, known)));
  const applied = await applyTo(place, files);
  const { checkout } = place;
  if (applied.how === "already") return { files: 0, checkout };
  if (applied.how === "applied") return { files: applied.files, checkout };
  const message = `the changes do not fit the files in ${checkout}; nothing changed\n${applied.message}`;
  throw new Refusal("merge-conflict", message, [
    after("commit or stash your changes", "apply", known.shortId),
    when("or", "merge", known.shortId),
  ]);
}

/** The large untracked files that snapshots leave out: `apply` leaves them out, too. */
async function leftOutOf(project: Project, known: LoadedRun): Promise<readonly string[]> {
  const { snapshot } = known.run;
  if (snapshot === undefined || !keepsFiles(known)) return [];
  const { store } = await openRunWorkspace(project, known);
  const { readSnapshot, shownDetails } = await import("../workspace/snapshot/details.ts");
  const { details } = await readSnapshot(store, snapshot);
  return shownDetails(details).skipped.map(({ path }) => path);
}

/** The options of a new pull request. */
export interface PullRequestOptions {
  readonly base?: string | undefined;
  readonly title?: string | undefined;
  readonly body?: string | undefined;
  readonly draft?: boolean | undefined;
}

/** A pull request that this command opened, or that existed before. */
interface PullRequest {
  readonly url: string;
  readonly isNew: boolean;
}

/** The arguments of each service's own program. */
const TOOLS: Readonly<Record<"gh" | "glab", PullRequestTool>> = {
  gh: {
    find: (branch) => ["pr", "list", "--head", branch, "--state", "all", "--json", "url"],
    create: ({ branch, base, title, body, draft }) => [
      ...["pr", "create", "--head", branch, "--base", base, "--title", title, "--body", body],
      ...(draft ? ["--draft"] : []),
    ],
    urlKey: "url",
  },
  glab: {
    find: (branch) => ["mr", "list", "--source-branch", branch, "--all", "--output", "json"],
    create: ({ branch, base, title, body, draft }) => [
      ...["mr", "create", "--source-branch", branch, "--target-branch", base],
      ...["--title", title, "--description", body, "--yes"],
      ...(draft ? ["--draft"] : []),
    ],
    urlKey: "web_url",
  },
};

interface PullRequestTool {
  readonly find: (branch: string) => readonly string[];
  readonly create: (request: {
    readonly branch: string;
    readonly base: string;
    readonly title: string;
    readonly body: string;
    readonly draft: boolean;
  }) => readonly string[];
  /** The field with the address in the output of `find`. */
  readonly urlKey: string;
}

/** Pushes the branch of a run and opens a pull request for it, unless there is one (take/K3). */
export async function openPullRequest(
  project: Project,
  known: LoadedRun,
  options: PullRequestOptions,
): Promise<PullRequest> {
  const result = await needResult(project, known, "pr");
  const { branch, tip, commits, place, target } = result;
  const { shortId, run } = known;
  if (commits === 0) throw nothingCommitted(shortId, result);
  if (branch === undefined) {
    const message = `no branch is checked out in ${place.worktree}`;
    throw new Refusal(
      "no-workspace",
      message,
      after(`git -C '${place.worktree}' switch -c NAME`, "pr", shortId),
    );
  }
  const base = options.base ?? target;
  if (base === undefined) {
    throw new Refusal("bad-option", "no branch is checked out here: name the target with --base");
  }
  const name = await toolOnPath(shortId);
  const tool = TOOLS[name];
  const callTool = async (words: readonly string[]): Promise<string> =>
    call(name, words, place.checkout, command("pr", shortId));
  await push(place.checkout, `${tip}:refs/heads/${branch}`, shortId);
  failpoint("take.pushed");
  const address = addressIn(await callTool(tool.find(branch)), tool.urlKey);
  if (address !== undefined) return { url: address, isNew: false };
  const title = options.title ?? run.created?.pipeline ?? branch;
  const body = options.body ?? `${countText(commits, "commit")} of run ${shortId}.`;
  const output = await callTool(
    tool.create({ branch, base, title, body, draft: options.draft === true }),
  );
  failpoint("take.opened");
  const url =
    output
      .trim()
      .split("\n")
      .findLast((line) => line.includes("://")) ?? output.trim();
  return { url, isNew: true };
}

/** The address of the first pull request in a list as JSON; undefined when there is none. */
function addressIn(list: string, key: string): string | undefined {
  try {
    return (JSON.parse(list.trim() === "" ? "[]" : list) as Record<string, string>[])[0]?.[key];
  } catch {
    const message = `a list of pull requests as JSON was expected, not: ${list.slice(0, LIST_SHOWN_MAX)}`;
    throw new Refusal("tool-failed", message, advice("look whether gh or glab is up to date"));
  }
}

async function toolOnPath(shortId: string): Promise<"gh" | "glab"> {
  const { isOnPath } = await import("./preflight.ts");
  const found = (["gh", "glab"] as const).find((program) =>
    isOnPath(program, process.env.PATH ?? ""),
  );
  if (found !== undefined) return found;
  const message = "neither gh (GitHub) nor glab (GitLab) is on the PATH";
  throw new Refusal("no-program", message, after("install one of them", "pr", shortId));
}

async function push(checkout: string, refs: string, shortId: string): Promise<void> {
  const again = command("pr", shortId);
  const remotes = (await call("git", ["remote"], checkout, again)).split("\n").filter(Boolean);
  const remote = remotes.includes("origin") ? "origin" : remotes[0];
  if (remote === undefined) {
    const message = `the repository in ${checkout} has no remote to push to`;
    throw new Refusal("no-workspace", message, after("git remote add origin URL", "pr", shortId));
  }
  await call("git", ["push", "--quiet", remote, refs], checkout, again);
}

/** Runs a program of the user; returns its output. */
function call(
  program: string,
  words: readonly string[],
  cwd: string,
  again: Next,
): Promise<string> {
  const child = spawn(program, words, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let [output, problem] = ["", ""];
  child.stdout.on("data", (chunk) => {
    output += String(chunk);
  });
  child.stderr.on("data", (chunk) => {
    problem += String(chunk);
  });
  return new Promise((done, fail) => {
    const refuse = (why: string): void =>
      fail(new Refusal("tool-failed", `${program} ${words.slice(0, 2).join(" ")}: ${why}`, again));
    child.on("error", (error) => refuse(error.message));
    child.on("close", (exit) => {
      if (exit === 0) done(output);
      else refuse((problem || output).trim() || `exit status ${exit}`);
    });
  });
}
