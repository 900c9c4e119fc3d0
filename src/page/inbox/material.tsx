/** What a gate shows with its question: files, diffs, outputs. All of it is text. */
import type { ReactNode } from "react";
import { type CommandDoc, runPath, useDocument } from "../api.ts";
import { Failure } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { bytesText } from "../parts/figures.tsx";

/** Material with more lines starts folded. */
const LINES_OPEN_MAX = 60;

export function Material({ run, step }: { run: string; step: string }): ReactNode {
  const material = useDocument<CommandDoc<"material">>(runPath(run, "material"), { step });
  if (material.error !== undefined) return <Failure error={material.error} />;
  const shown = material.data?.material ?? [];
  return (
    <>
      {shown.map((one, index) => (
        <MaterialText key={one.name} {...one} isFirst={index === 0} />
      ))}
    </>
  );
}

interface MaterialTextProps {
  readonly name: string;
  readonly text: string;
  readonly left_out: number;
  readonly isFirst: boolean;
}

function MaterialText({ name, text, left_out: leftOut, isFirst }: MaterialTextProps): ReactNode {
  const lines = text.replace(/\n$/, "").split("\n");
  const isPatch = text.startsWith("diff --git ");
  return (
    <details className="material" open={isFirst || lines.length <= LINES_OPEN_MAX}>
      <summary>
        <span className="mono cut">{name}</span>
        <span className="faint small figure">
          {lines.length} {lines.length === 1 ? "line" : "lines"}
        </span>
      </summary>
      {isPatch ? (
        <Diff files={[]} patch={text} label={name} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls needs the keyboard
        <section className="material-text" tabIndex={0} aria-label={name}>
          <pre>{text}</pre>
        </section>
      )}
      {leftOut > 0 ? <p className="faint small">{bytesText(leftOut)} more are left out.</p> : null}
    </details>
  );
}
