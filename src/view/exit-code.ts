/** The exit status of `perdure`; the library returns the same numbers. */
import { waitsForPerson } from "../core/next-actions.ts";
import type { Run } from "../core/run.ts";

/** The exit statuses. */
export const EXIT = {
  done: 0,
  error: 1,
  usage: 2,
  failed: 3,
  invalid: 4,
  timedOut: 5,
  waiting: 6,
  owned: 7,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/**
 * The exit status after driving a run; `endedBy` is the signal or request that ended it, if any.
 */
export function exitCodeOf(run: Run, endedBy: string | undefined): ExitCode {
  switch (run.state.status) {
    case "completed":
      return EXIT.done;
    case "stopped": {
      const { code } = run.state.reason;
      if (code === "budget" || code === "conflict") return EXIT.failed;
      return endedBy === "SIGINT" ? EXIT.interrupted : EXIT.terminated;
    }
    case "failed": {
      const reasons = [...run.failed].map((visit) => "reason" in visit.state && visit.state.reason);
      const late = ["timeout", "idle", "unanswered"];
      const timedOut = reasons.some((reason) => late.includes(String(reason)));
      return timedOut ? EXIT.timedOut : EXIT.failed;
    }
    default:
      return waitsForPerson(run) ? EXIT.waiting : EXIT.error;
  }
}
