/** What the cards of the inbox share: whose question it is, and how an answer is sent. */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import type { ApiError, Doc } from "../api.ts";
import { asApiError } from "../data.ts";
import { Failure } from "../parts/basics.tsx";
import { Ago } from "../parts/figures.tsx";
import { StatusMark } from "../parts/status.tsx";
import { useServer } from "../server.ts";

export type OpenQuestion = Doc<"inbox">["questions"][number];
export type UncertainEffect = Doc<"inbox">["uncertain"][number];

/** `fix@2.1`. */
export function attemptName(asked: { step: string; visit: number; attempt: number }): string {
  return `${asked.step}@${asked.visit}.${asked.attempt}`;
}

interface Asked {
  readonly short_id: string;
  readonly project: string;
  readonly pipeline: string;
  readonly step: string;
  readonly visit: number;
}

interface FrameProps {
  readonly id: string;
  readonly asked: Asked;
  readonly since: string;
  readonly label: string;
  readonly error: ApiError | undefined;
  readonly onKey?: (key: string) => void;
  readonly children: ReactNode;
}

export function CardFrame(props: FrameProps): ReactNode {
  const { id, asked, since, label, error, onKey, children } = props;
  const projects = useServer()?.projects ?? [];
  const project = projects.find((one) => one.project === asked.project);
  return (
    <article
      id={id}
      className="card inbox-card"
      tabIndex={-1}
      aria-label={label}
      onKeyDown={(event) => {
        const isCard = event.target === event.currentTarget;
        if (isCard && !(event.ctrlKey || event.metaKey || event.altKey)) onKey?.(event.key);
      }}
    >
      <header className="inbox-from">
        <StatusMark status="waiting" />
        <Link href={`/runs/${asked.short_id}`}>{asked.pipeline}</Link>
        <span className="mono faint">{asked.short_id}</span>
        {projects.length > 1 && project !== undefined ? (
          <span className="faint cut">{project.name}</span>
        ) : null}
        <span className="mono cut inbox-step">
          {asked.step}
          {asked.visit > 1 ? `@${asked.visit}` : ""}
        </span>
        <span className="faint small inbox-since">
          <Ago time={since} />
        </span>
      </header>
      <div className="inbox-body">
        {error === undefined ? null : <Failure error={error} />}
        {children}
      </div>
    </article>
  );
}

interface Sending {
  readonly isBusy: boolean;
  readonly error: ApiError | undefined;
  readonly send: (request: () => Promise<Doc<"done">>) => Promise<void>;
}

/** Sends an answer; a refusal stays on the card. */
export function useSending(props: {
  onDone: (done: Doc<"done">) => void;
  onRefused: () => void;
}): Sending {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const send = async (request: () => Promise<Doc<"done">>): Promise<void> => {
    setBusy(true);
    try {
      props.onDone(await request());
    } catch (failure) {
      setError(asApiError(failure));
      setBusy(false);
      // Somebody else may have answered.
      props.onRefused();
    }
  };
  return { isBusy, error, send };
}
