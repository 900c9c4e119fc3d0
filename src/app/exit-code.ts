/** What the process's exit status says. */
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
