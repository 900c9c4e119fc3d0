/**
 * What a person can do about a run, each in a dialog that says what will happen: resume, retry, stop,
 * add budget, fork. The same dialogs open from the commands of the card.
 */
import { type ReactNode, useId, useState } from "react";
import { Link, useLocation } from "wouter";
import { type Overview, post, runPath, type StepRow, useMayAct } from "../api.ts";
import { reportHref, runHref, timeHref } from "../links.ts";
import { Button } from "../parts/basics.tsx";
import { ActionDialog, Check, Choices, PreviewDialog } from "../parts/dialog.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { SkipDialog } from "../step/step-actions.tsx";

interface DialogProps {
  readonly overview: Overview;
  readonly rows: readonly StepRow[];
  readonly onDone: () => void;
  readonly onClose: () => void;
}

export interface RunAction {
  readonly verb: string;
  readonly icon: IconName;
  readonly look?: "primary" | "danger";
  readonly Dialog: (props: DialogProps) => ReactNode;
}

const RESUME: RunAction = { verb: "Resume", icon: "start", look: "primary", Dialog: ResumeDialog };
/** A run that waits for a person needs an answer first. */
const RESUME_LATER: RunAction = { verb: "Resume", icon: "start", Dialog: ResumeDialog };
const STOP: RunAction = { verb: "Stop", icon: "stop", Dialog: StopDialog };
const BUDGET: RunAction = { verb: "Add budget", icon: "cost", Dialog: BudgetDialog };
const FORK: RunAction = { verb: "Fork", icon: "fork", Dialog: ForkDialog };

/** Runs the failed items of a fan-out again, or a step. */
function retryOf(step: string, isItems: boolean): RunAction {
  return {
    verb: isItems ? "Retry failed items" : "Retry",
    icon: "retry",
    Dialog: (props) => <RetryDialog {...props} step={step} isItems={isItems} />,
  };
}

function skipOf(step: string): RunAction {
  return {
    verb: "Skip",
    icon: "skip",
    Dialog: ({ overview, ...props }) => <SkipDialog {...props} run={overview.run_id} step={step} />,
  };
}

/** The actions that fit the state of the run. */
function actionsFor(overview: Overview, rows: readonly StepRow[]): readonly RunAction[] {
  const { status, owner, budget, cleaned_at: cleaned } = overview;
  if (cleaned !== null) return [];
  const isDriven = owner?.alive === true;
  // A fan-out that failed as a whole runs its failed items again when the run is resumed.
  const fan = rows.find((row) => row.status === "completed" && (row.items?.failed ?? 0) > 0);
  const hasBudget = Object.values(budget).some((limit) => limit !== null);
  return [
    ...(isDriven || status === "completed" ? [] : [status === "waiting" ? RESUME_LATER : RESUME]),
    ...(fan === undefined ? [] : [retryOf(fan.step, true)]),
    ...(isDriven ? [STOP] : []),
    ...(hasBudget && status !== "completed" ? [BUDGET] : []),
    FORK,
  ];
}

/** The action behind a command that the card suggests; undefined when only a terminal can do it. */
export function actionFor(command: string, overview: Overview): RunAction | undefined {
  const [, verb = "", ...words] = command.split(" ");
  const isPlain = words.every((word) => !word.startsWith("-"));
  if (overview.cleaned_at !== null) return undefined;
  if (verb === "resume" && isPlain && words.length <= 1) return RESUME;
  if (verb === "resume" && words.some((word) => word.startsWith("--budget"))) return BUDGET;
  if (verb === "stop" && isPlain) return STOP;
  const step = stepIn(command);
  if (step === undefined || !isPlain) return undefined;
  if (verb === "retry") return retryOf(step, false);
  return verb === "skip" ? skipOf(step) : undefined;
}

/** The step that a command names after the run. */
export function stepIn(command: string): string | undefined {
  const [, , , step, ...more] = command.split(" ");
  return more.length > 0 ? undefined : step?.replace(/^'(.*)'$/, "$1");
}

interface RunActionsProps {
  readonly overview: Overview;
  readonly rows: readonly StepRow[];
  readonly onDone: () => void;
}

export function RunActions({ overview, rows, onDone }: RunActionsProps): ReactNode {
  const mayAct = useMayAct();
  const [open, setOpen] = useState<RunAction>();
  const run = overview.run_id;
  return (
    <div className="actions">
      {mayAct
        ? actionsFor(overview, rows).map((action) => (
            <ActionButton key={action.verb} action={action} onOpen={setOpen} />
          ))
        : null}
      <Link className="button" href={timeHref(run)}>
        <Icon name="clock" />
        Time travel
      </Link>
      <Link className="button" href={reportHref(run)}>
        <Icon name="file" />
        Report
      </Link>
      {open === undefined ? null : (
        <open.Dialog {...{ overview, rows, onDone }} onClose={() => setOpen(undefined)} />
      )}
    </div>
  );
}

interface ActionButtonProps {
  readonly action: RunAction;
  readonly look?: "plain";
  readonly onOpen: (action: RunAction) => void;
}

export function ActionButton({ action, look, onOpen }: ActionButtonProps): ReactNode {
  return (
    <Button icon={action.icon} look={look ?? action.look ?? "plain"} onClick={() => onOpen(action)}>
      {action.verb}
    </Button>
  );
}

function ResumeDialog({ overview, onDone, onClose }: DialogProps): ReactNode {
  return (
    <PreviewDialog
      title="Resume the run"
      verb="Resume"
      path={runPath(overview.run_id, "resume")}
      body={{}}
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        A runner in the background continues the run from where it stopped. Completed steps keep
        their results.
      </p>
    </PreviewDialog>
  );
}

interface RetryProps extends DialogProps {
  readonly step: string;
  readonly isItems: boolean;
}

function RetryDialog({ overview, step, isItems, onDone, onClose }: RetryProps): ReactNode {
  return (
    <PreviewDialog
      title={isItems ? `Retry the failed items of ${step}` : `Retry ${step}`}
      verb="Retry"
      path={runPath(overview.run_id, "retry")}
      body={isItems ? { step, failed: true } : { step }}
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        {isItems
          ? "The failed items run again, then every step after them."
          : "The step runs again, and every step after it."}
      </p>
    </PreviewDialog>
  );
}

const STOPS = [
  ["now", "Now", "Running steps are ended; agents can continue their conversations later."],
  ["after-turn", "After the turn", "Agents finish their current turn and its tools first."],
  ["after-step", "After the step", "Running steps finish first; nothing new starts."],
] as const;

const STOP_CHOICES = STOPS.map(
  ([mode, label, meaning]) =>
    [
      mode,
      <span key={mode}>
        {label}
        <span className="hint faint"> {meaning}</span>
      </span>,
    ] as const,
);

function StopDialog({ overview, onDone, onClose }: DialogProps): ReactNode {
  const [mode, setMode] = useState<(typeof STOPS)[number][0]>("after-step");
  return (
    <ActionDialog
      title="Stop the run"
      verb="Stop"
      look="danger"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(overview.run_id, "stop"), { mode })}
    >
      <Choices legend="When" choices={STOP_CHOICES} chosen={mode} onChoose={setMode} />
      <p className="faint">It can be resumed.</p>
    </ActionDialog>
  );
}

const AMOUNTS = [
  ["usd", "Dollars", "5"],
  ["tokens", "Tokens", "100000"],
  ["turns", "Turns", "20"],
  ["time", "Time", "30m"],
] as const;

function BudgetDialog({ overview, onDone, onClose }: DialogProps): ReactNode {
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  const id = useId();
  const { budget } = overview;
  const limits = {
    usd: budget.usd,
    tokens: budget.tokens,
    turns: budget.turns,
    time: budget.time_ms,
  };
  const offered = AMOUNTS.filter(([key]) => limits[key] !== null);
  const amounts = (): Record<string, string | number> =>
    Object.fromEntries(
      Object.entries(given)
        .filter(([, text]) => text.trim() !== "")
        .map(([key, text]) => [key, key === "time" ? text.trim() : Number(text)]),
    );
  return (
    <ActionDialog
      title="Add to the budget"
      verb="Add"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(overview.run_id, "budget"), amounts())}
    >
      <p>
        The amounts are added to what the run may use. A run that had used up its budget continues.
      </p>
      {(offered.length === 0 ? AMOUNTS : offered).map(([key, label, example]) => (
        <div className="field" key={key}>
          <label htmlFor={`${id}-${key}`}>{label}</label>
          <input
            id={`${id}-${key}`}
            inputMode={key === "time" ? "text" : "decimal"}
            placeholder={example}
            value={given[key] ?? ""}
            onChange={(event) => setGiven({ ...given, [key]: event.target.value })}
          />
        </div>
      ))}
    </ActionDialog>
  );
}

function ForkDialog({ overview, rows, onClose }: DialogProps): ReactNode {
  const [, go] = useLocation();
  const steps = rows.filter(({ parent, attempt }) => parent === null && attempt > 0);
  // A fork of a completed run from where it stands would have nothing to do.
  const last = overview.status === "completed" ? steps.at(-1)?.step : undefined;
  const [at, setAt] = useState(last ?? "");
  const [start, setStart] = useState(true);
  const id = useId();
  return (
    <PreviewDialog
      title="Fork the run"
      verb="Fork"
      path={runPath(overview.run_id, "fork")}
      body={at === "" ? { start } : { at, start }}
      onClose={onClose}
      onDone={({ run_id: fork }) => go(runHref(fork))}
    >
      <p>A new run takes over the results so far; this run stays as it is.</p>
      <div className="field">
        <label htmlFor={id}>From</label>
        <select id={id} value={at} onChange={(event) => setAt(event.target.value)}>
          <option value="">where the run is now</option>
          {steps.map(({ step }) => (
            <option key={step} value={step}>
              right before {step}
            </option>
          ))}
        </select>
      </div>
      <Check isOn={start} onChange={setStart}>
        Start it at once
      </Check>
    </PreviewDialog>
  );
}
