/**
 * The card that the terminal prints at the end of a run: what happened, the end of the output of a
 * failed step, and what to do next. What the page can do itself is a button, too.
 */
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { type Next, type Overview, type StepRow, useMayAct } from "../api.ts";
import { stepHref } from "../links.ts";
import { CommandLine } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { tintOf } from "../parts/status.tsx";
import { ActionButton, actionFor, type RunAction, stepIn } from "./run-actions.tsx";

interface RunCardProps {
  readonly overview: Overview;
  readonly rows: readonly StepRow[];
  readonly onDone: () => void;
}

/** Commands that only repeat what this page shows, and what its head offers while a run runs. */
const SHOWN_HERE = /^perdure (show|why|attach|stop|ui)\b/;

export function RunCard({ overview, rows, onDone }: RunCardProps): ReactNode {
  const { status, happened, done, failed_output: output, warnings } = overview;
  // Here and not beside its button: the advice may change while the dialog is open.
  const [open, setOpen] = useState<RunAction>();
  const next = overview.next.filter(({ command }) => command === null || !SHOWN_HERE.test(command));
  return (
    <section className="run-card" data-tint={tintOf(status)} aria-label="What happened">
      <div className="run-card-words">
        <Sentence text={happened} isLive={status === "running"} className="run-card-happened" />
        <Sentence text={done} isLive={status === "running"} className="faint" />
        {warnings.map((warning) => (
          <p key={warning} className="run-card-warning">
            <Icon name="warning" size={14} /> {warning}
          </p>
        ))}
        {next.length === 0 ? null : (
          <ul className="run-card-next">
            {next.map((one, index) => (
              <li key={`${one.text} ${one.command}`}>
                <NextAction
                  next={one}
                  isAnswer={isAnswer(one) && !next.slice(0, index).some(isAnswer)}
                  overview={overview}
                  onOpen={setOpen}
                />
              </li>
            ))}
          </ul>
        )}
      </div>
      {output.length === 0 ? null : (
        <Tail text={output.join("\n")} label="The end of the failed output" />
      )}
      {open === undefined ? null : (
        <open.Dialog {...{ overview, rows, onDone }} onClose={() => setOpen(undefined)} />
      )}
    </section>
  );
}

interface SentenceProps {
  readonly text: string;
  /** It changes all the time: in one line, so that nothing below it moves. */
  readonly isLive: boolean;
  readonly className: string;
}

function Sentence({ text, isLive, className }: SentenceProps): ReactNode {
  if (text === "") return null;
  return (
    <p className={isLive ? `${className} cut` : className} title={isLive ? text : undefined}>
      {text}
    </p>
  );
}

function isAnswer({ command }: Next): boolean {
  return command?.startsWith("perdure answer") === true;
}

interface NextProps {
  readonly overview: Overview;
  readonly next: Next;
  /** The first of several answers leads to the inbox. */
  readonly isAnswer: boolean;
  readonly onOpen: (action: RunAction) => void;
}

function NextAction(props: NextProps): ReactNode {
  const { next, isAnswer: isFirstAnswer, overview, onOpen } = props;
  const mayAct = useMayAct();
  const action = next.command === null || !mayAct ? undefined : actionFor(next.command, overview);
  return (
    <>
      <span className="run-card-text">{capitalised(next.text)}</span>
      {next.command === null ? null : <CommandLine command={next.command} />}
      {action === undefined ? null : <ActionButton action={action} look="plain" onOpen={onOpen} />}
      {next.command?.startsWith("perdure logs ") === true ? (
        <StepLink run={overview.run_id} step={stepIn(next.command)} />
      ) : null}
      {mayAct && isFirstAnswer ? (
        <Link className="button" data-look="primary" href="/inbox">
          <Icon name="inbox" />
          Answer
        </Link>
      ) : null}
    </>
  );
}

function StepLink({ run, step }: { run: string; step: string | undefined }): ReactNode {
  if (step === undefined) return null;
  return (
    <Link className="button" href={stepHref(run, step)}>
      <Icon name="file" />
      Open the step
    </Link>
  );
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function Tail({ text, label }: { text: string; label: string }): ReactNode {
  const box = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls needs the keyboard
    <section className="tail" aria-label={label} tabIndex={0} ref={box}>
      <pre>{text}</pre>
    </section>
  );
}
