/** The contract between the engine and the process of a step. */
import type { Sandbox } from "./sandbox.ts";
import type { Leftover } from "./sweep.ts";

/**
 * What a process is started with. Templates are already rendered; the journal stores none of it.
 */
export interface Launch {
  /** The attempt's own folder (absolute, exists, mode 0700). */
  readonly dir: string;
  readonly cwd: string;
  /** The whole environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** POSIX shell text of the work. */
  readonly script: string;
  /** Commands that check the work; they run only after exit 0, in this order. */
  readonly checks?: readonly CheckScript[];
  /** A file for stdin; /dev/null otherwise. */
  readonly stdin?: string;
  /** In a PID namespace of its own. */
  readonly isolate?: true;
  /** Where the work and its checks run; absent: on this machine like the wrapper. */
  readonly sandbox?: Sandbox;
  /**
   * The file with the deadline that ends the process (leash.ts); only steps of a fleet have one.
   */
  readonly leash?: string;
  /** Agents: stderr goes to a file of its own instead of into the output. */
  readonly separateStderr: boolean;
}

export interface CheckScript {
  /** POSIX shell text. */
  readonly script: string;
  /** Its exit status is recorded, but does not fail the work. */
  readonly onlyWarns?: true;
}

export interface Limits {
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  readonly outputBytesMax: number;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  /** Its background processes keep running after it has succeeded. */
  readonly leavesRunning?: true;
}

/** How a process ended. */
export type ProcessEnding =
  | {
      readonly how: "exited";
      readonly exit: number;
      /** Of its checks: 0 when none of them failed the work. */
      readonly checkExit?: number;
      /** The processes that it left running and that were ended; absent when there were none. */
      readonly left?: readonly Leftover[];
    }
  | {
      readonly how: "timed-out";
      readonly limit: "timeout" | "idle" | "output-limit";
      readonly message: string;
    }
  | { readonly how: "stopped"; readonly message: string }
  /** `started` is false only when it is proven that nothing ran. */
  | { readonly how: "lost"; readonly started: boolean; readonly message: string }
  | { readonly how: "not-started"; readonly message: string };

/** The process of a step, whether this runner started it or adopted it. */
export interface StepProcess {
  /** Resolves once, when the process and its whole tree are dead or accounted for. */
  readonly ended: Promise<ProcessEnding>;
  /** Ends it: SIGTERM to the group, SIGKILL after the grace period (or at once), then the sweep. */
  stop(how: "gently" | "at-once"): void;
  /** Stops supervising it; it keeps running, and `ended` may never resolve. */
  release(): void;
}
