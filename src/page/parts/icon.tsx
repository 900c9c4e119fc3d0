/**
 * The icons, lines on a grid of 16 in the colour of the text around them; and the state of a run, a step
 * or an attempt: an icon and a word, in the colours of every other picture.
 */
import type { ReactNode } from "react";
import type { RunStatus, StepStatus } from "../api.ts";

export type AnyStatus = RunStatus | StepStatus;

type TintName = "pending" | "running" | "waiting" | "done" | "failed" | "skipped";

const LOOKS: Readonly<Record<AnyStatus, { readonly tint: TintName; readonly icon: IconName }>> = {
  queued: { tint: "pending", icon: "dot" },
  pending: { tint: "pending", icon: "dot" },
  running: { tint: "running", icon: "start" },
  waiting: { tint: "waiting", icon: "question" },
  retrying: { tint: "waiting", icon: "retry" },
  interrupted: { tint: "waiting", icon: "pause" },
  completed: { tint: "done", icon: "check" },
  failed: { tint: "failed", icon: "cross" },
  skipped: { tint: "skipped", icon: "skip" },
};

/** The tint of a state, as the CSS variables `--TINT-fill` and `--TINT-line` name it. */
export function tintOf(status: AnyStatus): TintName {
  return LOOKS[status].tint;
}

/** A chip with the word; `word` says it in finer words than the state itself. */
export function Status({ status, word }: { status: AnyStatus; word?: string }): ReactNode {
  return (
    <span className="status" data-tint={tintOf(status)} data-status={status}>
      <StatusMark status={status} />
      {word ?? status}
    </span>
  );
}

/** The mark alone, for dense rows; its name is there for readers of the screen. */
export function StatusMark({ status, label }: { status: AnyStatus; label?: string }): ReactNode {
  return (
    <span className="status-mark" data-tint={tintOf(status)} data-status={status}>
      <Icon name={LOOKS[status].icon} size={12} />
      {label === undefined ? null : <span className="hidden-text">{label}</span>}
    </span>
  );
}

const ATTEMPT_MARKS: Readonly<Record<string, AnyStatus>> = {
  running: "running",
  asked: "waiting",
  waiting: "waiting",
  uncertain: "waiting",
  paused: "waiting",
  interrupted: "interrupted",
  continued: "interrupted",
  lost: "failed",
  failed: "failed",
  conflicted: "failed",
  completed: "completed",
  relayed: "completed",
  submitted: "completed",
};

/** The state of a step that looks like the state of an attempt. */
export function markOf(status: string): AnyStatus {
  return ATTEMPT_MARKS[status] ?? "pending";
}

const PATHS = {
  runs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  inbox: "M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5l1 2h3l1-2H14",
  start: "M5 3.2v9.6L12.8 8z",
  cost: "M2.5 13V9M6.2 13V5.5M9.8 13V8M13.5 13V3",
  fleet: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5v.1M5 11v.1",
  check: "m3 8.5 3.2 3L13 4.5",
  cross: "m4 4 8 8M12 4l-8 8",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  skip: "M3.5 8h9",
  question: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M8 12v.1",
  clock: "M8 2.2a5.8 5.8 0 1 1 0 11.6A5.8 5.8 0 0 1 8 2.2zM8 5v3.2l2 1.3",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3 13.5 13.5",
  copy: "M5.5 5.5h7.5V13H5.5zM3 10.5V3h7.5",
  branch: "M4.5 5.5v5M3 3h3v2.5H3zM3 10.5h3V13H3zM10 3h3v2.5h-3zM11.5 5.5c0 3-7 2-7 5",
  down: "m4 6 4 4 4-4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  first: "M4 3.5v9M12 4 7.5 8l4.5 4",
  last: "M12 3.5v9M4 4l4.5 4L4 12",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  screen: "M2.5 3h11v8h-11zM6 13.5h4",
  stop: "M4.5 4.5h7v7h-7z",
  message: "M2.5 3.5h11v7.5H7.5L4.5 13.5V11h-2z",
  fork: "M4.5 2.5v2.5c0 2 7 1 7 3.5v5M4.5 5v8.5",
  rewind: "M8 4 3.5 8 8 12zM13 4 8.5 8l4.5 4z",
  file: "M4 2.5h5.5L12 5v8.5H4zM9.5 2.5V5H12",
  tool: "M9.8 3a3 3 0 0 1 3.7 3.9l-1.7-.4-.9-.9L10.5 4zM10 6.5 3.5 13",
  plus: "M8 3.5v9M3.5 8h9",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  dot: "M8 6.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3z",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  compare: "M5 3v10M11 3v10M2.5 5.5 5 3l2.5 2.5M8.5 10.5 11 13l2.5-2.5",
  print: "M4.5 6V2.5h7V6M4.5 11.5h-2V6h11v5.5h-2M4.5 9.5h7v4h-7z",
  warning: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
