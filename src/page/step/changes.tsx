/** What an attempt changed in the files and the context. */
import type { ReactNode } from "react";
import { type CommandDoc, runPath } from "../api.ts";
import { useDocument } from "../data.ts";
import { Empty, Failure, Loading } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { Json } from "../parts/json.tsx";
import type { StepAttempt } from "./attempt-list.tsx";

export function Changes({ run, attempt }: { run: string; attempt: StepAttempt }): ReactNode {
  const { from, to } = attempt;
  const isKnown = from !== null && to !== null;
  if (!isKnown) {
    return (
      <Empty
        title={
          attempt.ended_at === null
            ? "The files are compared when the attempt has ended"
            : "There is no snapshot of the files of this attempt"
        }
      />
    );
  }
  return <DiffBetween run={run} from={from} to={to} />;
}

/** What changed between two checkpoints: names as `perdure diff` takes them. */
function DiffBetween(props: { run: string; from: string; to: string }): ReactNode {
  const { run, from, to } = props;
  const { data, error } = useDocument<CommandDoc<"diff">>(runPath(run, "diff"), {
    from,
    to,
    patch: 1,
  });
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={6} />;
  const { files, context, patch, patch_cut } = data;
  const hasContext =
    Object.keys(context.added).length +
      Object.keys(context.changed).length +
      context.removed.length >
    0;
  if (files.length === 0 && !hasContext) return <Empty title="Nothing changed" />;
  return (
    <div className="evidence">
      {files.length === 0 ? (
        <p className="faint">No file changed.</p>
      ) : (
        <Diff files={files} patch={patch} isCut={patch_cut} label="Changes" />
      )}
      {hasContext ? (
        <section className="evidence-part">
          <header>
            <h2>Context</h2>
          </header>
          <Json value={context} label="the changes of the context" levels={2} />
        </section>
      ) : null}
    </div>
  );
}
