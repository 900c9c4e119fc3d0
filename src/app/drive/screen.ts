/**
 * The display that a face gives to the owner of a run, so that a person sees the run and can answer its
 * questions. Every screen is a fold over the events: the owner and an attached process show the same.
 */
import type { Answer, AttemptRef, Recorded } from "../../core/event.ts";
import type { Run } from "../../core/run.ts";
import type { RunDir } from "../../engine/state-dir.ts";
import type { Answered } from "../../journal/inbox.ts";
import type { Estimate } from "../../view/preview/estimate.ts";
import type { OutputReaders } from "../output/output.ts";

export interface Screen {
  /** Says something about the run as a whole. */
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
  /** Something cannot be shown; called once. Without it, `close` rejects. */
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
  /** Whether somebody could still answer here. */
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
  /** An answer could not be recorded. */
  readonly onError: (error: unknown) => void;
  /** Nobody is at the terminal any more. */
  readonly onGone: () => void;
}

/** How a face shows a run, and asks its questions. */
export interface Display {
  openScreen(options: ScreenOptions): Promise<Screen>;
  /** A line beside the screen, after it was closed. */
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

/** Asks a person to agree; `offer` names what happens then ("start it all the same"). */
export type Confirm = (message: string, offer?: string) => Promise<boolean>;
