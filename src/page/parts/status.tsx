/** The state of a run or a step: a mark and a word, in the colours of every other picture. */
import type { ReactNode } from "react";
import type { RunStatus, StepStatus } from "../api.ts";
import { Icon, type IconName } from "./icon.tsx";

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
