/**
 * The page of a step: where it stands, every attempt, and what is known about each of them.
 *
 * Owns: which attempt and which tab the address names.
 * Does not: show an attempt's details; each tab has a file of its own.
 */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { type Doc, type Loaded, runPath, useDocument } from "../api.ts";
import { useAtMostEvery, useTitle } from "../browser.ts";
import { pathInAddress, stepHref, timeHref, useAddressQuery } from "../links.ts";
import { useLive } from "../live.ts";
import { Breadcrumb, Empty, Loading, Refused, Tabs } from "../parts/basics.tsx";
import { countText, Duration, Money } from "../parts/figures.tsx";
import { markOf, Status } from "../parts/icon.tsx";
import { Conversation } from "./conversation.tsx";
import {
  Artifacts,
  AttemptList,
  Changes,
  Checks,
  Question,
  Receipt,
  type StepAttempt,
  Task,
  Why,
} from "./evidence.tsx";
import { OutputView } from "./output-view.tsx";
import { StepActions } from "./step-actions.tsx";
import { StepsInside } from "./step-table.tsx";
import "../styles/step.css";

type StepDoc = Doc<"stepPage">;

/** How often a living step is read again at most. */
const RELOAD_MS = 1_000;

export function StepPage({ run, step }: { run: string; step: string }): ReactNode {
  const path = pathInAddress(step);
  const { page, version } = useStep(run, path);
  useTitle(path);
  if (page.error !== undefined) return <Refused title={path} error={page.error} />;
  if (page.data === undefined) return <Loading lines={10} />;
  return (
    <>
      <Head page={page.data} run={run} onDone={page.reload} />
      <Attempts page={page.data} run={run} version={version} />
    </>
  );
}

/** The step, read again when it has changed; the version counts how often. */
function useStep(run: string, step: string): { page: Loaded<StepDoc>; version: number } {
  const page = useDocument<StepDoc>(runPath(run, "step"), { step });
  const [version, setVersion] = useState(0);
  const reload = useAtMostEvery(RELOAD_MS, () => {
    page.reload();
    setVersion((before) => before + 1);
  });
  useLive<Doc<"runNews">>(
    page.data === undefined ? undefined : { path: runPath(run, "live"), event: "news" },
    (news) => {
      const isAbout = (path: string): boolean => path === step || path.startsWith(`${step}[`);
      if (news.steps.some((row) => isAbout(row.step))) reload();
    },
  );
  return { page, version };
}

interface HeadProps {
  readonly page: StepDoc;
  readonly run: string;
  readonly onDone: () => void;
}

function Head({ page, run, onDone }: HeadProps): ReactNode {
  const { row } = page;
  return (
    <header className="step-head">
      <StepBreadcrumb run={run} runId={page.run_id} step={row.step} />
      <div className="page-head">
        <h1>{row.label === "" ? row.step : row.label}</h1>
        <Status status={row.status} word={row.detail} />
        <StepActions page={page} onDone={onDone} />
      </div>
      <Figures page={page} />
      {row.message === null || isSaid(page, row.message) ? null : (
        <p className="step-message" data-tint={row.status === "failed" ? "failed" : "waiting"}>
          {row.message}
        </p>
      )}
    </header>
  );
}

/** True when the line of the newest attempt, or the question, says the same. */
function isSaid({ attempts, question }: StepDoc, message: string): boolean {
  return question !== null || attempts[0]?.message === message;
}

function StepBreadcrumb(props: { run: string; runId: string; step: string }): ReactNode {
  const { run, runId, step } = props;
  const names = step.split("/");
  const parts = names.map((name, index) => {
    if (index === names.length - 1) return { name };
    const path = names.slice(0, index + 1).join("/");
    return { name, href: stepHref(run, path.replace(/\[\d+\]$/, "")) };
  });
  return (
    <Breadcrumb run={run} runId={runId} parts={parts}>
      <Link className="breadcrumb-end" href={timeHref(run)}>
        Time travel
      </Link>
    </Breadcrumb>
  );
}

/** The words of the documents, where the plan has others. */
const KINDS: Readonly<Record<string, string>> = {
  shell: "command",
  each: "fan-out",
  pipeline: "sub-pipeline",
  pick: "choice of a branch",
};

function Figures({ page }: { page: StepDoc }): ReactNode {
  const { row, attempts } = page;
  const [newest] = attempts;
  const isRunning = row.status === "running" && newest !== undefined;
  const tokens = row.tokens;
  return (
    <dl className="figures">
      <Figure name="Kind">{KINDS[row.kind] ?? row.kind}</Figure>
      {newest?.agent == null ? null : (
        <Figure name="Agent">
          {newest.agent}
          {newest.model === null ? null : <span className="faint"> {newest.model}</span>}
        </Figure>
      )}
      <Figure name="Worked">
        {isRunning ? (
          <Duration ms={row.worked_ms} runningSince={newest.started_at} />
        ) : (
          <Duration ms={row.worked_ms} />
        )}
      </Figure>
      {row.cost_usd === null ? null : (
        <Figure name="Cost">
          <Money usd={row.cost_usd} />
        </Figure>
      )}
      {tokens === null ? null : <Figure name="Tokens">{countText(tokens)}</Figure>}
      {row.turns === null ? null : <Figure name="Turns">{row.turns}</Figure>}
      {row.tool === null ? null : <Figure name="Tool">{row.tool}</Figure>}
      {row.items === null ? null : (
        <Figure name="Items">
          {row.items.completed} of {row.items.total} completed
          {row.items.failed === 0 ? "" : `, ${row.items.failed} failed`}
        </Figure>
      )}
    </dl>
  );
}

function Figure({ name, children }: { name: string; children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="figure">{children}</dd>
    </div>
  );
}

interface AttemptsProps {
  readonly page: StepDoc;
  readonly run: string;
  readonly version: number;
}

function Attempts({ page, run, version }: AttemptsProps): ReactNode {
  const [search, change] = useAddressQuery();
  const named = search.get("attempt");
  const attempt = page.attempts.find(({ name }) => name === named) ?? page.attempts[0];
  const tabs = tabsOf(page, attempt);
  const tab = tabs.find(({ id }) => id === search.get("tab"))?.id ?? tabs[0]?.id ?? "why";
  if (attempt === undefined) {
    return (
      <Empty title="This step has not started yet">
        <p>{page.explained.at(-1)}</p>
      </Empty>
    );
  }
  return (
    <div className="step-body">
      <AttemptList
        attempts={page.attempts}
        chosen={attempt.name}
        onChoose={(name) => change("attempt", name)}
      />
      <div className="step-details">
        <AttemptLine attempt={attempt} />
        <Tabs
          label="About the attempt"
          tabs={tabs}
          chosen={tab}
          onChoose={(id) => change("tab", id)}
        >
          <TabContent tab={tab} page={page} run={run} attempt={attempt} version={version} />
        </Tabs>
      </div>
    </div>
  );
}

/** The attempt in one line: its name, its state, how it ended, and why it was started. */
function AttemptLine({ attempt }: { attempt: StepAttempt }): ReactNode {
  const { name, status, exit, message, cause } = attempt;
  return (
    <div className="attempt-line">
      <Status status={markOf(status)} word={status} />
      <code>{name}</code>
      {exit === null ? null : <span className="faint">exit {exit}</span>}
      {message === null ? null : <span className="attempt-message">{message}</span>}
      {cause === null ? null : <span className="faint attempt-cause">{cause}</span>}
    </div>
  );
}

type TabId =
  | "question"
  | "inside"
  | "conversation"
  | "output"
  | "task"
  | "checks"
  | "changes"
  | "artifacts"
  | "receipt"
  | "why";

interface TabName {
  readonly id: TabId;
  readonly label: ReactNode;
}

/** Kinds of steps that print something. */
const PRINTING = ["shell", "agent"];
const COMPOSITE = ["pipeline", "branches", "loop", "each"];

function tabsOf(page: StepDoc, attempt: StepAttempt | undefined): readonly TabName[] {
  const counted = (word: string, count: number): ReactNode => (
    <>
      {word} <span className="tab-count">{count}</span>
    </>
  );
  const checks = attempt?.checks.length ?? 0;
  const mayPrint = attempt?.ended_at === null && PRINTING.includes(page.row.kind);
  const hasOutput = (attempt?.output.length ?? 0) > 0 || mayPrint;
  const isComposite = COMPOSITE.includes(page.row.kind);
  const task = attempt?.prompt == null ? "Settings" : attempt.agent === null ? "Command" : "Prompt";
  const all: readonly (TabName | false)[] = [
    page.question !== null && { id: "question", label: "Question" },
    isComposite && { id: "inside", label: "Steps inside" },
    attempt?.conversation === true && { id: "conversation", label: "Conversation" },
    hasOutput && { id: "output", label: "Output" },
    { id: "task", label: task },
    checks > 0 && { id: "checks", label: counted("Checks", checks) },
    { id: "changes", label: "Changes" },
    page.artifacts.length > 0 && {
      id: "artifacts",
      label: counted("Artifacts", page.artifacts.length),
    },
    { id: "receipt", label: "Receipt" },
    { id: "why", label: "Why" },
  ];
  return all.filter((tab) => tab !== false);
}

interface TabContentProps extends AttemptsProps {
  readonly tab: TabId;
  readonly attempt: StepAttempt;
}

function TabContent({ tab, page, run, attempt, version }: TabContentProps): ReactNode {
  switch (tab) {
    case "question":
      return <Question page={page} />;
    case "inside":
      return <StepsInside run={run} step={page.row.step} version={version} />;
    case "conversation":
      return <Conversation key={attempt.name} run={run} attempt={attempt.name} version={version} />;
    case "output":
      return <Outputs key={attempt.name} run={run} attempt={attempt} />;
    case "task":
      return <Task attempt={attempt} settings={page.settings} />;
    case "checks":
      return <Checks checks={attempt.checks} />;
    case "changes":
      return <Changes run={run} attempt={attempt} />;
    case "artifacts":
      return <Artifacts run={run} artifacts={page.artifacts} />;
    case "receipt":
      return <Receipt receipt={attempt.receipt} />;
    case "why":
      return <Why page={page} />;
  }
}

const OUTPUT_FILE = "output.log";

/** The files that an attempt printed: its work, its checks, a judge. */
function Outputs({ run, attempt }: { run: string; attempt: StepAttempt }): ReactNode {
  const [chosen, setChosen] = useState<string>();
  const file = chosen ?? attempt.output[0]?.file ?? OUTPUT_FILE;
  return (
    <>
      {attempt.output.length < 2 ? null : (
        <label className="output-choice">
          <span>File</span>
          <select value={file} onChange={(event) => setChosen(event.target.value)}>
            {attempt.output.map((one) => (
              <option key={one.file} value={one.file}>
                {one.label}
              </option>
            ))}
          </select>
        </label>
      )}
      <OutputView
        key={file}
        source={{ run, attempt: attempt.name, file }}
        isOver={attempt.ended_at !== null}
      />
    </>
  );
}
