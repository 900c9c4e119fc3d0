/** `perdure stop RUN`: asks the owner of a run to stop it; the wish is recorded, then told. */
import { userInfo } from "node:os";
import type { StopMode } from "../../core/event.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import { perdure } from "../../view/command-text.ts";
import { gateName } from "../../view/question-text.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { openQuestions } from "../give-answer.ts";
import { loadRun } from "../known-run.ts";
import { ownerText, wake } from "../owner.ts";
import { print } from "../print.ts";
import {
  isElsewhere,
  livenessOf,
  openProject,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../project.ts";

export interface StopOptions {
  readonly afterStep?: boolean;
  readonly afterTurn?: boolean;
}

const WHEN: Readonly<Record<StopMode, string>> = {
  now: "now",
  "after-turn": "when its agents have finished their turns",
  "after-step": "after the steps that are running",
};

/** Stops a run that is owned by another process. */
export async function stopCommand(id: string | undefined, options: StopOptions): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = id === undefined ? onlyLiveRun(project) : resolveRunId(project.journal, id);
  const { journal } = project;
  const lease = journal.leaseOf(runId);
  const shortId = shortIdOf(journal, runId);
  if (lease?.owner === undefined || livenessOf(lease) !== "owned") {
    throw unownedError(project, runId);
  }
  if (isElsewhere(lease)) {
    // Its pid means another process here, or none.
    const message = `run ${shortId} is owned by ${ownerText(lease.owner)}: stop it there`;
    throw new CliError(EXIT.owned, message, `on ${lease.owner.host}: perdure stop ${shortId}`);
  }
  const mode: StopMode =
    options.afterTurn === true ? "after-turn" : options.afterStep === true ? "after-step" : "now";
  journal.request(runId, { type: "stop", mode, by: `perdure stop (${userInfo().username})` });
  wake(lease.owner);
  print(`Told ${ownerText(lease.owner)} to stop run ${shortId} ${WHEN[mode]}.`);
  print(`Go on with it later: perdure resume ${shortId}`);
  return EXIT.done;
}

/** Nobody drives it, so there is nothing to stop: says how it stands, and what to type. */
function unownedError(project: Project, runId: string): CliError {
  const known = loadRun(project, runId);
  const { run, shortId } = known;
  if (!waitsForPerson(run)) {
    const next = perdure("why", shortId);
    return new CliError(EXIT.error, `run ${shortId} has no owner to stop`, next);
  }
  const still = `nothing of run ${shortId} is running that could be stopped`;
  const open = openQuestions(known).find(({ answer }) => answer === undefined);
  if (open === undefined) {
    const message = `${still}: it has the answer that it waited for, and goes on when it is resumed`;
    return new CliError(EXIT.error, message, perdure("resume", shortId));
  }
  const name = gateName(open.visit);
  const message = `${still}: it waits for a person to answer ${name}, and stays so until then`;
  return new CliError(EXIT.error, message, perdure("answer", shortId, name));
}

function onlyLiveRun({ journal }: Project): string {
  const live = journal
    .list({ status: ["queued", "running", "waiting"], limit: 100 })
    .filter(({ lease }) => livenessOf(lease) === "owned");
  const [first, second] = live;
  if (first === undefined)
    throw new CliError(EXIT.error, "no run is going on here", "perdure list runs");
  if (second === undefined) return first.runId;
  throw new CliError(
    EXIT.usage,
    `${live.length} runs are going on: say which`,
    "perdure list runs",
  );
}
