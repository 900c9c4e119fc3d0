/** A run as it was: its graph, its steps and its context. */
import { type ReactNode, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { runPath } from "../api.ts";
import { useDocument } from "../data.ts";
import { stepHref } from "../links.ts";
import { Empty, Failure, Loading } from "../parts/basics.tsx";
import { Json } from "../parts/json.tsx";
import { RunGraph } from "../run/graph.tsx";
import { type GraphDoc, RowStore, RowsContext } from "../run/run-data.ts";
import { StepTable } from "../step/step-table.tsx";
import { type ContextChange, contextChanges } from "./context-changes.ts";
import { type MomentDoc, useKept, useMoment } from "./travel.ts";

interface MomentProps {
  readonly run: string;
  readonly moment: MomentDoc;
}

/** The graph with the states and edges of that moment. */
export function GraphThen({ run, moment }: MomentProps): ReactNode {
  const { data, error } = useKept(
    useDocument<GraphDoc>(runPath(run, "graph"), { at: moment.sequence }),
  );
  const [rows] = useState(() => new RowStore());
  const [chosen, setChosen] = useState<string>();
  const [, go] = useLocation();
  // A step that ran then does not run now: its time does not grow.
  useEffect(
    () => rows.replace(moment.steps.map((row) => ({ ...row, started_at: null }))),
    [rows, moment.steps],
  );
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={8} />;
  return (
    <RowsContext value={rows}>
      <div className="time-graph">
        <RunGraph
          graph={data}
          label="The graph at this moment"
          chosen={chosen}
          onChoose={setChosen}
          onOpen={(step) => go(stepHref(run, step))}
        />
      </div>
    </RowsContext>
  );
}

/** Every step with its state at that moment. */
export function StepsThen({ run, moment }: MomentProps): ReactNode {
  return <StepTable run={run} rows={moment.steps} label="Steps at this moment" />;
}

/** The context, and what the event of this moment changed in it. */
export function ContextThen({ run, moment }: MomentProps): ReactNode {
  const before = useMoment(run, moment.sequence > 1 ? moment.sequence - 1 : undefined).data;
  const isBefore = before?.sequence === moment.sequence - 1;
  const changes = isBefore ? contextChanges(before.context, moment.context) : [];
  return (
    <div className="evidence">
      {changes.length === 0 ? null : (
        <section className="evidence-part">
          <header>
            <h2>Changed by this event</h2>
          </header>
          <ContextChanges changes={changes} />
        </section>
      )}
      {Object.keys(moment.context).length === 0 ? (
        <Empty title="The context is empty at this moment" />
      ) : (
        <Json value={moment.context} label="the context" levels={2} />
      )}
    </div>
  );
}

/** Keys with their values before and after. */
export function ContextChanges({ changes }: { changes: readonly ContextChange[] }): ReactNode {
  return (
    <ul className="context-changes">
      {changes.map(({ key, kind, before, after }) => (
        <li key={key}>
          <span className="context-key">
            <code>{key}</code> <span className="faint small">{kind}</span>
          </span>
          {kind === "added" ? null : <pre data-side="before">{valueText(before)}</pre>}
          {kind === "removed" ? null : <pre data-side="after">{valueText(after)}</pre>}
        </li>
      ))}
    </ul>
  );
}

const VALUE_MAX = 4_000;

function valueText(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text;
}
