/**
 * Which run a person means: the one that they name, or the one that is meant when they name none.
 *
 * Owns: the rule for every command that takes `[run]` and other words after it.
 * Does not: choose a run to resume (resume.ts), or a run to stop (stop.ts): these ask or refuse
 * where a wrong guess would start or end something.
 */
import type { RunSummary } from "../../journal/run-log.ts";
import { command, Refusal } from "../refusal.ts";
import { livenessOf, type Project, resolveRunId, runsNamed, shortIdOf } from "./project.ts";

/** The words of a command after its name: `[run]`, and then others. */
export interface RunWords {
  /** How many words there must be besides the run. */
  readonly needs?: number;
  /** How many words there may be besides the run. */
  readonly takes?: number;
  /** What a missing word is called. */
  readonly what?: string;
  /** Which runs come first when no run is named; default: all. */
  readonly prefers?: "asking" | "driven";
}

/** The run that a person means. */
interface MeantRun {
  readonly runId: string;
  /** The words after the run. */
  readonly words: readonly string[];
  /** Says which run was taken, where others could have been meant. */
  readonly note?: string;
}

/** A run id as Perdure prints it: short, or whole. */
const PRINTED_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{4}(-[0-9a-f]{12})?)?)?)?$/i;

/** Finds the run that the words name, or the default run if they name none. */
export async function meantRun(
  project: Project,
  given: readonly (string | undefined)[],
  { needs = 0, takes = needs, what = "the step", prefers }: RunWords = {},
): Promise<MeantRun> {
  const words = given.filter((word) => word !== undefined);
  const [first = "", ...rest] = words;
  const isPrinted = PRINTED_ID.test(first) && words.length > needs;
  const isRun =
    words.length > takes || isPrinted || (await runsNamed(project.journal, first)).length > 0;
  if (!isRun && words.length < needs) {
    throw new Refusal("bad-option", `name ${what}`, command("show"));
  }
  if (!isRun) return { ...(await unnamedRun(project, prefers)), words };
  const runId = await resolveRunId(project.journal, first);
  if (rest.length >= needs) return { runId, words: rest };
  const shortId = await shortIdOf(project.journal, runId);
  throw new Refusal("bad-option", `${first} is a run; name ${what}, too`, command("show", shortId));
}

/** How many runs are looked at for one that is asking or driven. */
const LOOKED_AT_MAX = 100;

async function unnamedRun(
  { journal }: Project,
  prefers: RunWords["prefers"],
): Promise<Omit<MeantRun, "words">> {
  const open = { status: ["queued", "running", "waiting"], limit: LOOKED_AT_MAX } as const;
  const wanted = prefers === undefined ? [] : await journal.log.list(open);
  const preferred = wanted.filter((run) =>
    prefers === "asking" ? run.status === "waiting" : livenessOf(run.lease) === "owned",
  );
  const candidates = preferred.length > 0 ? preferred : await journal.log.list({ limit: 2 });
  const [newest, other] = candidates;
  if (newest === undefined) {
    throw new Refusal("no-runs", "there are no runs here", command("run", "FILE"));
  }
  const { runId } = newest;
  if (other === undefined) return { runId };
  return { runId, note: noteOn(await shortIdOf(journal, runId), newest) };
}

function noteOn(shortId: string, { pipeline }: RunSummary): string {
  return `run ${shortId} (${pipeline}), the newest`;
}
