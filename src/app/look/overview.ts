/**
 * What many runs have in common, for the command line: their cost over time, and everything that waits
 * for a person.
 *
 * Owns: which projects are read, and reading all of them.
 * Does not: keep anything loaded between two calls; a server does (web/dashboard.ts).
 */
import { parseAge } from "../../util/duration.ts";
import { COST_COLUMNS, costsJson } from "../../view/json/cost-json.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { inboxJson } from "../../view/json/run-row-json.ts";
import { OpenProjects } from "../project/open-projects.ts";
import { command, Refusal } from "../refusal.ts";
import { FollowedRuns } from "./followed-runs.ts";
import { MachineQuestions } from "./machine-questions.ts";
import { Spendings } from "./spending.ts";

interface CostWanted {
  /** `30d` */
  readonly since: string;
  /** `pipeline,model` */
  readonly by: string;
  readonly allProjects?: boolean;
}

/** What the runs of a period used, of this project or of all. */
export async function costOfRuns(from: string, wanted: CostWanted): Promise<DocumentJson<"costs">> {
  const by = columnsIn(wanted.by);
  const now = Date.now();
  const since = now - periodOf(wanted.since);
  const projects = new OpenProjects(from);
  try {
    const readable = await projects.readable();
    const meant = readable.filter(({ isCurrent }) => isCurrent || wanted.allProjects === true);
    const directories = new Map(meant.map(({ project, directory }) => [project, directory]));
    const { runs } = await new Spendings().since([...directories.keys()], since, { all: true });
    const found = runs.map(({ project, summary, attempts }) => ({
      ...{ runId: summary.runId, pipeline: summary.pipeline, attempts },
      project: directories.get(project) ?? "",
    }));
    return costsJson(found, { since, by });
  } finally {
    await projects.close();
  }
}

function periodOf(text: string): number {
  const period = parseAge(text);
  if (period !== undefined && period > 0) return period;
  const message = `--since takes a period such as 12h or 30d, not "${text}"`;
  throw new Refusal("bad-option", message, command("cost", "--since", "30d"));
}

function columnsIn(text: string): readonly (typeof COST_COLUMNS)[number][] {
  const words = text.split(",").map((word) => word.trim());
  const known = words.flatMap((word) => COST_COLUMNS.find((name) => name === word) ?? []);
  if (known.length === words.length) return [...new Set(known)];
  const message = `--by takes some of ${COST_COLUMNS.join(", ")}, not "${text}"`;
  throw new Refusal("bad-option", message, command("cost", "--by", "pipeline,model"));
}

/** Everything that waits for a person, in all projects of this machine. */
export async function inboxOfMachine(from: string): Promise<DocumentJson<"inbox">> {
  const projects = new OpenProjects(from);
  const followed = new FollowedRuns();
  try {
    const readable = await projects.readable();
    const directories = new Map(readable.map(({ key, directory }) => [key, directory]));
    const asking = await new MachineQuestions(projects, followed).all();
    const found = inboxJson(
      asking.map(({ known, project, questions, uncertain }) => ({
        ...{ runId: known.id, shortId: known.shortId, run: known.run, liveness: known.liveness },
        ...{ project: directories.get(project) ?? "", pipeline: known.plan.name },
        ...{ questions, uncertain },
      })),
    );
    return {
      questions: found.questions.map(({ project: directory, ...one }) => ({ ...one, directory })),
      uncertain: found.uncertain.map(({ project: directory, ...one }) => ({ ...one, directory })),
    };
  } finally {
    await followed.close();
    await projects.close();
  }
}
