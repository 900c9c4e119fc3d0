/** The exit status of `perdure`; the library returns the same numbers. */
import { MERGE_STOP } from "../core/activity.ts";
import { BUDGET_STOP } from "../core/advance.ts";
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

/** The exit status after driving a run; `endedBy` is the signal or request that ended it, if any. */
export function exitCodeOf(run: Run, endedBy: string | undefined): ExitCode {
  switch (run.state.status) {
    case "completed":
      return EXIT.done;
    case "stopped": {
      const { by } = run.state;
      if ([BUDGET_STOP, MERGE_STOP].some((why) => by.startsWith(why))) return EXIT.failed;
      return endedBy === "SIGINT" ? EXIT.interrupted : EXIT.terminated;
    }
    case "failed": {
      const reasons = [...run.failed].map((visit) => "reason" in visit.state && visit.state.reason);
      const timedOut = reasons.some((reason) => reason === "timeout" || reason === "idle");
      return timedOut ? EXIT.timedOut : EXIT.failed;
    }
    default:
      return waitsForPerson(run) ? EXIT.waiting : EXIT.error;
  }
}

/** True when only a person's answer can move the run. */
export function waitsForAnswer(run: Run): boolean {
  return waitsForPerson(run);
}
