/**
 * A run as it was: its graph, its steps and its context; and two moments of a run side by side, with
 * what changed in the context and in the files.
 */
import { type ReactNode, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { type CommandDoc, runPath, useDocument } from "../api.ts";
import { stepHref } from "../links.ts";
import { Button, Empty, Failure, Loading, Part } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { Json } from "../parts/json.tsx";
import { RunGraph } from "../run/graph.tsx";
import { type GraphDoc, RowStore, RowsContext } from "../run/run-data.ts";
import { StepTable } from "../step/step-table.tsx";
import { type ContextChange, contextChanges } from "./moment-model.ts";
import { type Moment, type MomentDoc, useKept, useMoment } from "./travel.ts";

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
        <Part title="Changed by this event">
          <ContextChanges changes={changes} />
        </Part>
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
function ContextChanges({ changes }: { changes: readonly ContextChange[] }): ReactNode {
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

interface CompareProps {
  readonly run: string;
  readonly moments: readonly Moment[];
  /** The sequence number of the moment to compare with. */
  readonly pinned: number;
  readonly moment: MomentDoc;
  readonly onPin: (sequence: number) => void;
}

export function CompareMoments(props: CompareProps): ReactNode {
  const { run, moments, pinned, moment, onPin } = props;
  const before = useMoment(run, pinned);
  const marked = moments.filter(
    ({ mark, sequence }) => mark !== null || sequence === pinned || sequence === 1,
  );
  return (
    <div className="evidence">
      <div className="compare-choice">
        <label>
          <strong>A</strong>
          <select value={pinned} onChange={(event) => onPin(Number(event.target.value))}>
            {marked.map(({ sequence, text }) => (
              <option key={sequence} value={sequence}>
                {sequence}: {text}
              </option>
            ))}
          </select>
        </label>
        <p>
          <strong>B</strong> {moment.sequence}: {moment.line}
        </p>
        <Button onClick={() => onPin(moment.sequence)}>Use this moment as A</Button>
      </div>
      {before.error === undefined ? null : <Failure error={before.error} />}
      {before.data === undefined ? (
        <Loading lines={4} />
      ) : (
        <Comparison run={run} a={before.data} b={moment} />
      )}
    </div>
  );
}

function Comparison({ run, a, b }: { run: string; a: MomentDoc; b: MomentDoc }): ReactNode {
  if (a.sequence === b.sequence) {
    return <Empty title="A and B are the same moment: move the slider" />;
  }
  const changes = contextChanges(a.context, b.context);
  const isSame = a.snapshot === b.snapshot;
  return (
    <>
      <Part title="Context">
        {changes.length === 0 ? (
          <p className="faint">The context is the same.</p>
        ) : (
          <ContextChanges changes={changes} />
        )}
      </Part>
      <Part title="Files">
        {a.snapshot === null || b.snapshot === null ? (
          <p className="faint">There is no snapshot of the files at one of these moments.</p>
        ) : isSame ? (
          <p className="faint">The files are the same.</p>
        ) : (
          <FilesBetween run={run} from={a.snapshot} to={b.snapshot} />
        )}
      </Part>
    </>
  );
}

function FilesBetween(props: { run: string; from: string; to: string }): ReactNode {
  const { run, from, to } = props;
  const { data, error } = useDocument<CommandDoc<"diff">>(runPath(run, "diff"), {
    from,
    to,
    patch: 1,
  });
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={6} />;
  if (data.files.length === 0) return <p className="faint">The files are the same.</p>;
  return (
    <Diff
      files={data.files}
      patch={data.patch}
      isCut={data.patch_cut}
      label="Changes from A to B"
    />
  );
}
