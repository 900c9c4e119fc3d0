/**
 * What a person or a program sees while a run goes on. Every screen is a fold over the events, so
 * the owner of a run and somebody who attaches to it see the same.
 */
import type { Recorded } from "../core/event.ts";
import type { Run } from "../core/run.ts";
import type { RunDir } from "../engine/state-dir.ts";
import type { LineReaders } from "./agent-lines.ts";

export interface Screen {
  /** Says something about the run as a whole. */
  say(line: string): void;
  /** A batch of events; `run` is the run after it. */
  update(events: readonly Recorded[], run: Run): void;
  /** Shows at once what a person types. */
  refresh(): void;
  /** Shows what is left to show and lets go. */
  close(): Promise<void>;
}

export type ScreenKind = "live" | "plain" | "json" | "quiet";

export interface ScreenOptions {
  readonly runId: string;
  readonly shortId: string;
  readonly dir: RunDir;
  /** What happened before this screen was opened. */
  readonly past: readonly Recorded[];
  /** How the output of a step is read. */
  readonly readers: LineReaders;
  readonly now: () => number;
  /** Something cannot be shown; called once. Without it, `close` rejects. */
  readonly onError?: (error: unknown) => void;
  /** What stands below the steps of the live view. */
  readonly footer?: ((width: number) => readonly string[]) | undefined;
}
