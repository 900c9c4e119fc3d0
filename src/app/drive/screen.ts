/**
 * The display that a face gives to the owner of a run, so that a person sees the run and can answer its
 * questions. Every screen is a fold over the events: the owner and an attached process show the same.
 */
import type { Answer, AttemptRef, Recorded } from "../../core/event.ts";
import type { Run } from "../../core/run.ts";
import type { RunDir } from "../../engine/state-dir.ts";
import type { Answered } from "../../journal/inbox.ts";
import type { Estimate } from "../../view/preview/estimate.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { type OutputReaders, pricedReaders } from "../output/output.ts";
import type { Project } from "../project/project.ts";

export interface Screen {
  /** Prints a line about the run as a whole. */
  say(line: string): void;
  /** A batch of events; `run` is the run after it. */
  update(events: readonly Recorded[], run: Run): void;
  /** Shows at once what a person types. */
  refresh(): void;
  /** Shows the rest and gives up the terminal. */
  close(): Promise<void>;
}

export interface ScreenOptions {
  readonly runId: string;
  readonly shortId: string;
  readonly dir: RunDir;
  /** What happened before this screen was opened. */
  readonly past: readonly Recorded[];
  /** How the output of a step is read. */
  readonly readers: OutputReaders;
  readonly now: () => number;
  /** Called once, when something cannot be shown. Without it, `close` rejects. */
  readonly onError?: (error: unknown) => void;
  /** The lines below the steps of the live view. */
  readonly footer?: ((width: number) => readonly string[]) | undefined;
  /** What the person who watches can do. */
  readonly controls?: ScreenControls;
  /** The time that each step took in earlier runs of the pipeline; read when it is asked for. */
  readonly estimates?: () => Promise<ReadonlyMap<string, Estimate>>;
}

/** What the person who watches a run can do with a key. */
export interface ScreenControls {
  /** The one who drives the run, or one who only watches it. */
  readonly role: "owner" | "watcher";
  /** Asks the run to stop after the steps that are running. */
  stopAfterStep(): void;
  /** The owner leaves the run to a process in the background; a watcher just leaves. */
  detach(): void;
}

/** Asks the questions of a run's gates, one at a time. */
export interface QuestionPrompt {
  /** True while somebody can answer here. */
  readonly isOpen: boolean;
  /** Where a plain line about a question is printed. */
  show(screen: Pick<Screen, "say" | "refresh">): void;
  /** Asks the first open question of the run, if there is one. */
  update(run: Run): void;
  /** The question as the last lines of the live view. */
  footer(width: number): readonly string[];
  close(): void;
}

export interface PromptOptions {
  /** Records an answer; says whether it was the first. */
  readonly answer: (
    at: AttemptRef,
    reply: Pick<Answer, "choice" | "text">,
    from: "terminal" | "program",
  ) => Promise<Answered>;
  /** Called when an answer cannot be recorded. */
  readonly onError: (error: unknown) => void;
  /** Called when nobody is at the terminal any more. */
  readonly onGone: () => void;
}

/** How a face shows a run, and asks its questions. */
export interface Display {
  openScreen(options: ScreenOptions): Promise<Screen>;
  /** Prints a line after the screen was closed. */
  warn?(line: string): void;
  /** A prompt, when there is somebody who could answer. */
  openPrompt?(options: PromptOptions): QuestionPrompt | undefined;
}

/** Shows nothing and asks nothing. */
export const NO_DISPLAY: Display = {
  openScreen: async () => ({
    say: () => undefined,
    update: () => undefined,
    refresh: () => undefined,
    close: async () => undefined,
  }),
};

/** Asks a person to agree; `offer` names what happens then ("start it anyway"). */
export type Confirm = (message: string, offer?: string) => Promise<boolean>;

/** What every screen of a run needs, whoever drives the run. */
export async function screenOf(
  project: Project,
  known: LoadedRun,
): Promise<Pick<ScreenOptions, "runId" | "shortId" | "dir" | "readers" | "estimates">> {
  const { id: runId, shortId, dir, plan } = known;
  const estimates = (): Promise<ReadonlyMap<string, Estimate>> => earlierEstimates(project, known);
  return { runId, shortId, dir, readers: await pricedReaders(plan), estimates };
}

/** How many completed runs give estimates; more would make a screen wait. */
const RUNS_MAX = 3;
/** Larger runs give no estimates, for the same reason. */
const STEPS_MAX = 1_000;

/** The median time of each step in the newest completed runs of the same pipeline file. */
export async function earlierEstimates(
  { journal: { log } }: Project,
  { id, run }: LoadedRun,
): Promise<ReadonlyMap<string, Estimate>> {
  const { estimatesOf } = await import("../../view/preview/estimate.ts");
  const { file } = run.created ?? {};
  if (file === undefined || file === "") return new Map();
  // One more than wanted: the run itself may be among them.
  const runs = await log.list({ file, status: ["completed"], limit: RUNS_MAX + 1 });
  const earlier = runs
    .filter(({ runId, stepsTotal }) => runId !== id && stepsTotal <= STEPS_MAX)
    .slice(0, RUNS_MAX);
  const events = [];
  for (const { runId } of earlier) events.push(...(await log.eventsAfter(runId, 0)));
  return estimatesOf(events);
}
