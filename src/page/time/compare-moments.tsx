/** Two moments of one run side by side: what changed in the context and in the files. */
import type { ReactNode } from "react";
import { type CommandDoc, runPath } from "../api.ts";
import { useDocument } from "../data.ts";
import { Button, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { contextChanges } from "./context-changes.ts";
import { ContextChanges } from "./moment-views.tsx";
import { type Moment, type MomentDoc, useMoment } from "./travel.ts";

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
      <section className="evidence-part">
        <header>
          <h2>Context</h2>
        </header>
        {changes.length === 0 ? (
          <p className="faint">The context is the same.</p>
        ) : (
          <ContextChanges changes={changes} />
        )}
      </section>
      <section className="evidence-part">
        <header>
          <h2>Files</h2>
        </header>
        {a.snapshot === null || b.snapshot === null ? (
          <p className="faint">There is no snapshot of the files at one of these moments.</p>
        ) : isSame ? (
          <p className="faint">The files are the same.</p>
        ) : (
          <FilesBetween run={run} from={a.snapshot} to={b.snapshot} />
        )}
      </section>
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
