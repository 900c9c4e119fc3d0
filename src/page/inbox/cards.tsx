/**
 * The cards of the inbox: a question of a gate or an agent, and an effect of which only a person can
 * say whether it happened.
 *
 * Owns: whose question it is, how it is answered, and how a refusal is shown.
 */
import { type ReactNode, useId, useRef, useState } from "react";
import { Link } from "wouter";
import {
  type ApiError,
  asApiError,
  type Doc,
  post,
  runPath,
  useMayAct,
  useServer,
} from "../api.ts";
import { Button, Failure } from "../parts/basics.tsx";
import { Ago, durationText, fullTime, useNow } from "../parts/figures.tsx";
import { StatusMark } from "../parts/icon.tsx";
import { Material } from "./material.tsx";

interface QuestionCardProps {
  readonly id: string;
  readonly asked: OpenQuestion;
  readonly onDone: (done: Doc<"done">) => void;
  readonly onRefused: () => void;
}

type Choice = OpenQuestion["choices"][number];

export function QuestionCard({ id, asked, onDone, onRefused }: QuestionCardProps): ReactNode {
  const [text, setText] = useState("");
  const [isMissing, setMissing] = useState(false);
  const { isBusy, error, send } = useSending({ onDone, onRefused });
  const field = useRef<HTMLTextAreaElement>(null);
  const mayAct = useMayAct() && !asked.answered;
  const answer = (choice?: Choice): void => {
    const isNeeded = asked.text === "required" || choice === undefined;
    if (isNeeded && text.trim() === "") {
      setMissing(true);
      field.current?.focus();
      return;
    }
    const body = {
      step: attemptName(asked),
      ...(choice === undefined ? {} : { choice: choice.key }),
      ...(text.trim() === "" ? {} : { text }),
    };
    void send(() => post(runPath(asked.run_id, "answer"), body));
  };
  const onKey = (key: string): void => {
    const choice = asked.choices.find((one) => one.key.toLowerCase() === key.toLowerCase());
    if (mayAct && !isBusy && choice !== undefined) answer(choice);
  };
  return (
    <CardFrame
      id={id}
      asked={asked}
      since={asked.asked_at}
      label={`${asked.pipeline} ${asked.short_id} asks: ${asked.question}`}
      error={error}
      onKey={onKey}
    >
      <h2 className="question">{asked.question}</h2>
      <Material run={asked.run_id} step={`${asked.step}@${asked.visit}`} />
      {mayAct && asked.text !== "none" ? (
        <AnswerText
          isRequired={asked.text === "required" || asked.choices.length === 0}
          isMissing={isMissing}
          text={text}
          field={field}
          onChange={setText}
        />
      ) : null}
      {asked.answered ? (
        <p className="faint">It has an answer, which the run has not read yet.</p>
      ) : (
        <Deadline asked={asked} />
      )}
      {mayAct ? <Choices choices={asked.choices} isBusy={isBusy} onAnswer={answer} /> : null}
    </CardFrame>
  );
}

interface TextProps {
  readonly isRequired: boolean;
  readonly isMissing: boolean;
  readonly text: string;
  readonly field: { current: HTMLTextAreaElement | null };
  readonly onChange: (text: string) => void;
}

function AnswerText({ isRequired, isMissing, text, field, onChange }: TextProps): ReactNode {
  const id = useId();
  const isBad = isMissing && text.trim() === "";
  return (
    <div className="field">
      <label htmlFor={id}>
        In your words{" "}
        <span className="faint small">{isRequired ? "(required)" : "(optional)"}</span>
      </label>
      <textarea
        id={id}
        ref={field}
        rows={2}
        value={text}
        required={isRequired}
        aria-invalid={isBad}
        aria-describedby={isBad ? `${id}-error` : undefined}
        onChange={(event) => onChange(event.target.value)}
      />
      {isBad ? (
        <p id={`${id}-error`} className="field-error" role="alert">
          This question needs a text.
        </p>
      ) : null}
    </div>
  );
}

interface ChoicesProps {
  readonly choices: readonly Choice[];
  readonly isBusy: boolean;
  readonly onAnswer: (choice?: Choice) => void;
}

function Choices({ choices, isBusy, onAnswer }: ChoicesProps): ReactNode {
  const first = choices.find(({ fails }) => !fails);
  return (
    <div className="actions choices">
      {choices.map((choice) => (
        <Button
          key={choice.key}
          look={choice === first ? "primary" : choice.fails ? "danger" : "plain"}
          disabled={isBusy}
          aria-keyshortcuts={choice.key}
          onClick={() => onAnswer(choice)}
        >
          {choice.label}
          <span className="choice-key" aria-hidden="true">
            {choice.key}
          </span>
        </Button>
      ))}
      {choices.length === 0 ? (
        <Button look="primary" disabled={isBusy} onClick={() => onAnswer()}>
          Send the answer
        </Button>
      ) : null}
    </div>
  );
}

function Deadline({ asked }: { asked: OpenQuestion }): ReactNode {
  const { deadline, choices, default: otherwise } = asked;
  const now = useNow(deadline !== null);
  if (deadline === null) return null;
  const counts = choices.find(({ key }) => key === otherwise);
  const left = Date.parse(deadline) - now;
  return (
    <p className="faint small deadline">
      {left > 0 ? `Open for ${durationText(left)}, until ` : "Its time was over at "}
      <time dateTime={deadline}>{fullTime(deadline)}</time>
      {counts === undefined ? "; then the gate fails." : `; then “${counts.label}” counts.`}
    </p>
  );
}

interface UncertainCardProps {
  readonly id: string;
  readonly effect: UncertainEffect;
  readonly onDone: (done: Doc<"done">) => void;
  readonly onRefused: () => void;
}

export function UncertainCard({ id, effect, onDone, onRefused }: UncertainCardProps): ReactNode {
  const [identity, setIdentity] = useState("");
  const { isBusy, error, send } = useSending({ onDone, onRefused });
  const field = useId();
  const mayAct = useMayAct();
  const settle = (as: "done" | "redo" | "abort"): void => {
    const named = as === "done" && identity.trim() !== "" ? { identity: identity.trim() } : {};
    void send(() => post(runPath(effect.run_id, "settle"), { step: effect.step, as, ...named }));
  };
  return (
    <CardFrame
      id={id}
      asked={effect}
      since={effect.since}
      label={`${effect.pipeline} ${effect.short_id}: did ${effect.step} happen?`}
      error={error}
    >
      <h2 className="question">Did {effect.step} happen?</h2>
      <p>
        Its effect must not happen twice, and {effect.message}. Look where the effect would be, then
        say what is true.
      </p>
      {mayAct ? (
        <>
          <div className="field">
            <label htmlFor={field}>
              What happened <span className="faint small">(optional)</span>
            </label>
            <input
              id={field}
              value={identity}
              placeholder="a release number, an address, a commit"
              onChange={(event) => setIdentity(event.target.value)}
            />
          </div>
          <div className="actions choices">
            <Button look="primary" disabled={isBusy} onClick={() => settle("done")}>
              It happened
            </Button>
            <Button disabled={isBusy} onClick={() => settle("redo")}>
              It did not: run it again
            </Button>
            <Button look="danger" disabled={isBusy} onClick={() => settle("abort")}>
              Give up
            </Button>
          </div>
        </>
      ) : null}
    </CardFrame>
  );
}

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

function CardFrame(props: FrameProps): ReactNode {
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
function useSending(props: {
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
