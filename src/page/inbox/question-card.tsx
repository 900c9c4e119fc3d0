/** A question with its material, its choices and a text. */
import { type ReactNode, useId, useRef, useState } from "react";
import { type Doc, post, runPath } from "../api.ts";
import { Button } from "../parts/basics.tsx";
import { durationText, fullTime, useNow } from "../parts/figures.tsx";
import { useMayAct } from "../server.ts";
import { attemptName, CardFrame, type OpenQuestion, useSending } from "./card-frame.tsx";
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
