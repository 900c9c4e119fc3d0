/**
 * The head of a run's page: what the run is, how far it is, what it costs. Below that, the
 * card that the terminal prints at the end of a run: what happened, the end of the output of a failed
 * step, and what to do next. What the page can do itself is a button, too.
 */
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { inputText } from "../../view/text.ts";
import { type Next, type Overview, type StepRow, useMayAct } from "../api.ts";
import { runHref, stepHref } from "../links.ts";
import { CommandLine, Copy } from "../parts/basics.tsx";
import { Ago, countText, Duration, durationText, moneyText, Progress } from "../parts/figures.tsx";
import { Icon, Status, tintOf } from "../parts/icon.tsx";
import { ActionButton, actionFor, type RunAction, RunActions, stepIn } from "./run-actions.tsx";

interface RunHeadProps {
  readonly overview: Overview;
  readonly rows: readonly StepRow[];
  readonly onDone: () => void;
}

export function RunHead({ overview, rows, onDone }: RunHeadProps): ReactNode {
  const { pipeline, status, short_id: id, run_id: run } = overview;
  const about = inputText(overview.input);
  return (
    <header className="run-head">
      <nav className="breadcrumb" aria-label="Where this run is">
        <Link href="/">Runs</Link>
        <span aria-hidden="true">/</span>
        <span className="mono">{id}</span>
        <Copy text={run} label="Copy the id of the run" />
        {overview.forked_from === null ? null : (
          <Link className="run-origin" href={runHref(overview.forked_from.run_id)}>
            <Icon name="fork" size={13} /> fork of {overview.forked_from.run_id.slice(0, 8)}
          </Link>
        )}
      </nav>
      <div className="page-head">
        <h1 className="cut" title={pipeline}>
          {pipeline}
        </h1>
        <Status status={status} />
        {about === undefined ? null : (
          <span className="run-about cut faint" title={about}>
            {about}
          </span>
        )}
        <RunActions overview={overview} rows={rows} onDone={onDone} />
      </div>
      <dl className="run-facts">
        <StepsFact overview={overview} />
        <TimeFact overview={overview} />
        <CostFact overview={overview} />
        <OwnerFact overview={overview} />
        <FilesFact overview={overview} />
      </dl>
    </header>
  );
}

interface FactProps {
  readonly name: string;
  readonly children: ReactNode;
  /** The line below the figure. */
  readonly below?: ReactNode;
}

function Fact({ name, children, below }: FactProps): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span className="fact-figure">{children}</span>
        <span className="fact-below">{below}</span>
      </dd>
    </div>
  );
}

function StepsFact({ overview: { steps, status } }: { overview: Overview }): ReactNode {
  const { completed, failed, running, waiting, total } = steps;
  const isCut = status === "interrupted";
  const words = [
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(running > 0 ? [`${running} ${isCut ? "interrupted" : "running"}`] : []),
    ...(waiting > 0 ? [`${waiting} waiting`] : []),
  ].join(", ");
  return (
    <Fact
      name="Steps"
      below={
        <Progress
          label={`${completed} of ${total} steps${words === "" ? "" : `, ${words}`}`}
          total={total}
          parts={[
            { tint: "done", count: completed },
            { tint: "failed", count: failed },
            { tint: "running", count: isCut ? 0 : running },
            { tint: "waiting", count: isCut ? running + waiting : waiting },
          ]}
        />
      }
    >
      {completed} of {total}
      {words === "" ? null : <span className="fact-aside cut">{words}</span>}
    </Fact>
  );
}

function TimeFact({ overview }: { overview: Overview }): ReactNode {
  const { status, elapsed_ms: elapsed, estimate_ms: left, created_at: start } = overview;
  const isRunning = status === "running";
  const estimate = left === null ? "" : `, about ${durationText(left)} left`;
  return (
    <Fact
      name="Time"
      below={
        <>
          started <Ago time={start} />
          {isRunning ? estimate : null}
        </>
      }
    >
      {isRunning ? <Duration runningSince={start} /> : <Duration ms={elapsed} />}
    </Fact>
  );
}

function CostFact({ overview }: { overview: Overview }): ReactNode {
  const { spent, budget, running_usd: running } = overview;
  const usd = running === 0 ? spent?.cost_usd : (spent?.cost_usd ?? 0) + running;
  const used = (spent?.input_tokens ?? 0) + (spent?.output_tokens ?? 0);
  const tokens = used === 0 ? "" : `${countText(used)} tokens`;
  if (budget.usd !== null) {
    const share = Math.min(1, (usd ?? 0) / Math.max(budget.usd, 1e-9));
    const label = `${moneyText(usd ?? 0)} of ${moneyText(budget.usd)}`;
    const tint = share >= 1 ? "failed" : share > 0.8 ? "waiting" : "running";
    return (
      <Fact
        name="Cost"
        below={<Progress label={label} total={1} parts={[{ tint, count: share }]} />}
      >
        {moneyText(usd ?? 0)}
        <span className="fact-aside">of {moneyText(budget.usd)}</span>
      </Fact>
    );
  }
  return (
    <Fact name="Cost" below={tokens === "" ? "no budget" : tokens}>
      {usd === undefined || usd === null ? "–" : moneyText(usd)}
    </Fact>
  );
}

function OwnerFact({ overview: { owner, status } }: { overview: Overview }): ReactNode {
  if (owner === null) {
    const isOver = status === "completed" || status === "failed";
    return (
      <Fact name="Owner" below={isOver ? "it has ended" : "nobody drives it"}>
        –
      </Fact>
    );
  }
  return (
    <Fact name="Owner" below={`${owner.alive ? "process" : "lost process"} ${owner.pid}`}>
      <span className="cut">
        {owner.user} on {owner.host}
      </span>
    </Fact>
  );
}

function FilesFact({ overview: { result, directory } }: { overview: Overview }): ReactNode {
  const count = result?.files.length ?? 0;
  const files = count === 1 ? "1 file changed" : `${count} files changed`;
  if (result === null || result.branch === null) {
    return (
      <Fact name="Directory" below={result === null ? "works in the project" : files}>
        <span className="cut" title={directory ?? ""}>
          {directory?.split("/").at(-1) ?? "–"}
        </span>
      </Fact>
    );
  }
  const { branch, commits } = result;
  return (
    <Fact name="Branch" below={`${files}, ${commits} ${commits === 1 ? "commit" : "commits"}`}>
      <span className="mono cut" title={branch}>
        {branch}
      </span>
      <Copy text={branch} label="Copy the name of the branch" />
    </Fact>
  );
}

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
