/** A step beside the graph: how it stands, why, and the end of what it printed. */
import { type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import { type Doc, runPath, type StepRow, useDocument } from "../api.ts";
import { stepHref } from "../links.ts";
import { useLive } from "../live.ts";
import { Button } from "../parts/basics.tsx";
import { Ago, countText, Duration, Money } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Status } from "../parts/status.tsx";
import { itemsText } from "./graph-node.tsx";
import { Tail } from "./run-card.tsx";

/** So much of the end of an output is read, and shown. */
const TAIL_BYTES = 6_000;
const TAIL_LINES = 40;

interface StepPanelProps {
  readonly run: string;
  readonly row: StepRow;
  readonly onClose: () => void;
}

export function StepPanel({ run, row, onClose }: StepPanelProps): ReactNode {
  return (
    <aside className="step-panel" aria-label={`Step ${row.label}`}>
      <header>
        <h2 className="cut" title={row.step}>
          {row.label}
        </h2>
        <Button look="quiet" icon="cross" aria-label="Close the step" onClick={onClose} />
      </header>
      <div className="step-panel-body">
        <Status status={row.status} word={row.detail} />
        {row.message === null ? null : <p className="step-panel-message">{row.message}</p>}
        <Facts row={row} />
        {row.attempt === 0 ? null : <LastOutput key={row.step} run={run} row={row} />}
      </div>
      <footer>
        <Link className="button" data-look="primary" href={stepHref(run, row.step)}>
          Open the step
          <Icon name="right" size={14} />
        </Link>
      </footer>
    </aside>
  );
}

function Facts({ row }: { row: StepRow }): ReactNode {
  const { started_at: start, items } = row;
  const isRunning = row.status === "running" && start !== null;
  const facts: readonly (readonly [string, ReactNode])[] = [
    ["Kind", row.kind],
    ...(start === null ? [] : ([["Started", <Ago key="start" time={start} />]] as const)),
    ["Worked", isRunning ? <Duration runningSince={start} /> : <Duration ms={row.worked_ms} />],
    ...(row.visit > 1 ? ([["Visit", row.visit]] as const) : []),
    ...(row.attempt > 1 ? ([["Attempt", row.attempt]] as const) : []),
    ...(items === null ? [] : ([["Items", itemsText(items)]] as const)),
    ...(row.turns === null ? [] : ([["Turns", row.turns]] as const)),
    ...(row.tokens === null ? [] : ([["Tokens", countText(row.tokens)]] as const)),
    ...(row.cost_usd === null ? [] : ([["Cost", <Money key="c" usd={row.cost_usd} />]] as const)),
    ...(row.tool === null ? [] : ([["Tool", row.tool]] as const)),
  ];
  return (
    <dl className="fact-list">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The last lines that the newest attempt printed; they grow while it runs. */
function LastOutput({ run, row }: { run: string; row: StepRow }): ReactNode {
  const attempt = `${row.step}@${row.visit}.${row.attempt}`;
  const query = { attempt, file: "output.log", from: -TAIL_BYTES };
  const hasOutput = row.kind === "shell" || row.kind === "agent";
  const output = useDocument<Doc<"output">>(hasOutput ? runPath(run, "output") : undefined, query);
  const [more, setMore] = useState("");
  const isLive = row.status === "running" && output.data !== undefined && !output.data.ended;
  useEffect(() => setMore(""), [attempt]);
  useLive<Doc<"output">>(
    isLive
      ? {
          path: runPath(run, "output/live"),
          query: { attempt, file: "output.log", from: output.data.to },
          event: "output",
        }
      : undefined,
    (news) => setMore((before) => (before + news.text).slice(-TAIL_BYTES)),
  );
  const text = lastLines((output.data?.text ?? "") + more);
  if (text === "") return null;
  return (
    <section>
      <h3>Last output</h3>
      <Tail text={text} label="Last output" />
    </section>
  );
}

function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}
