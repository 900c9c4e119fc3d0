/** The attempts of a step, the newest first, with the visit that each belongs to. */
import type { ReactNode } from "react";
import type { Doc } from "../api.ts";
import { Ago, Duration, Money } from "../parts/figures.tsx";
import { type AnyStatus, StatusMark } from "../parts/status.tsx";

export type StepAttempt = Doc<"stepPage">["attempts"][number];

const MARKS: Readonly<Record<string, AnyStatus>> = {
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
  return MARKS[status] ?? "pending";
}

interface AttemptListProps {
  readonly attempts: readonly StepAttempt[];
  readonly chosen: string;
  readonly onChoose: (name: string) => void;
}

/** A list beside the details; on a phone, a field to choose from. */
export function AttemptList({ attempts, chosen, onChoose }: AttemptListProps): ReactNode {
  return (
    <nav className="attempts" aria-label="Attempts">
      <h2>{attempts.length === 1 ? "1 attempt" : `${attempts.length} attempts`}</h2>
      <select
        aria-label="Attempt"
        value={chosen}
        onChange={(event) => onChoose(event.target.value)}
      >
        {attempts.map(({ name, visit, attempt, status }) => (
          <option key={name} value={name}>
            Visit {visit}, attempt {attempt}: {status}
          </option>
        ))}
      </select>
      <ol>
        {attempts.map((attempt, index) => (
          <li key={attempt.name}>
            {attempt.visit === attempts[index - 1]?.visit ? null : <h3>Visit {attempt.visit}</h3>}
            <button
              type="button"
              aria-pressed={attempt.name === chosen}
              onClick={() => onChoose(attempt.name)}
            >
              <AttemptLines attempt={attempt} />
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function AttemptLines({ attempt }: { attempt: StepAttempt }): ReactNode {
  const { status, started_at, ended_at, worked_ms, spent } = attempt;
  return (
    <>
      <StatusMark status={markOf(status)} />
      <span className="attempt-name">
        Attempt {attempt.attempt} <span className="faint">{status}</span>
      </span>
      <span className="attempt-figures">
        {ended_at === null ? <Duration runningSince={started_at} /> : <Duration ms={worked_ms} />}
        {spent?.cost_usd === undefined ? null : <Money usd={spent.cost_usd} />}
        <Ago time={started_at} />
      </span>
    </>
  );
}
