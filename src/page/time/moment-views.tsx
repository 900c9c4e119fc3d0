/**
 * A run as it was: its graph, its steps, its context and its files, a tree of the snapshot whose folders
 * open and close; and two moments of a run side by side, with what changed in the context and in the
 * files.
 */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { type CommandDoc, type Doc, runPath, useDocument } from "../api.ts";
import { stepHref } from "../links.ts";
import { Button, Copy, Empty, Failure, Loading, Part } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { bytesText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Json } from "../parts/json.tsx";
import { RunGraph } from "../run/graph.tsx";
import { type GraphDoc, RowStore, RowsContext } from "../run/run-data.ts";
import { StepTable } from "../step/step-table.tsx";
import {
  type ContextChange,
  contextChanges,
  foundRows,
  type TreeRow,
  treeRows,
} from "./moment-model.ts";
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

const ROW_PX = 28;
/** A snapshot with few files shows them all at once. */
const OPEN_MAX = 60;

export function FilesThen(props: { run: string; snapshot: string | null }): ReactNode {
  const { run, snapshot } = props;
  const path = snapshot === null ? undefined : runPath(run, "files");
  const { data, error } = useKept(
    useDocument<Doc<"files">>(path, { snapshot: snapshot ?? undefined }),
  );
  const [chosen, setChosen] = useState<string>();
  if (snapshot === null) return <Empty title="There is no snapshot of the files at this moment" />;
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={8} />;
  const file = data.files.find((one) => one.path === chosen);
  return (
    <div className="files-then">
      <Tree files={data} chosen={chosen} onChoose={setChosen} />
      {file === undefined ? (
        <Empty title={chosen === undefined ? "Choose a file" : "This file is not there yet"} />
      ) : (
        <FileContent run={run} snapshot={snapshot} path={file.path} />
      )}
    </div>
  );
}

interface TreeProps {
  readonly files: Doc<"files">;
  readonly chosen: string | undefined;
  readonly onChoose: (path: string) => void;
}

function Tree({ files, chosen, onChoose }: TreeProps): ReactNode {
  const [words, setWords] = useState("");
  const [changed, setChanged] = useState<ReadonlySet<string>>(new Set());
  const isOpenAtFirst = files.files.length <= OPEN_MAX;
  const rows = useMemo(
    () =>
      words === ""
        ? treeRows(files.files, (folder) => changed.has(folder) !== isOpenAtFirst)
        : foundRows(files.files, words),
    [files, words, changed, isOpenAtFirst],
  );
  const open = ({ path, isFolder }: TreeRow): void => {
    if (!isFolder) {
      onChoose(path);
      return;
    }
    const next = new Set(changed);
    if (!next.delete(path)) next.add(path);
    setChanged(next);
  };
  const isOpen = (path: string): boolean => changed.has(path) !== isOpenAtFirst;
  return (
    <div className="tree">
      <input
        type="search"
        aria-label="Find a file"
        placeholder="Find a file"
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      <TreeRows rows={rows} chosen={chosen} isOpen={isOpen} onOpen={open} />
      {files.left_out === 0 ? null : (
        <p className="faint small">{files.left_out} more files are not listed.</p>
      )}
    </div>
  );
}

interface TreeRowsProps {
  readonly rows: readonly TreeRow[];
  readonly chosen: string | undefined;
  readonly isOpen: (path: string) => boolean;
  readonly onOpen: (row: TreeRow) => void;
}

function TreeRows({ rows, chosen, isOpen, onOpen }: TreeRowsProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const move = (event: KeyboardEvent, step: number): void => {
    event.preventDefault();
    const item = event.currentTarget.closest("li");
    const next = step > 0 ? item?.nextElementSibling : item?.previousElementSibling;
    next?.querySelector("button")?.focus();
  };
  return (
    <div className="tree-box" ref={box}>
      <ul style={{ height: virtual.getTotalSize() }} aria-label="Files at this moment">
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          return (
            <li key={row.path} style={{ transform: `translateY(${item.start}px)` }}>
              <button
                type="button"
                style={{ paddingLeft: 8 + row.depth * 14 }}
                aria-expanded={row.isFolder ? isOpen(row.path) : undefined}
                aria-current={row.path === chosen ? "true" : undefined}
                onClick={() => onOpen(row)}
                onKeyDown={(event) => {
                  if (event.key === "ArrowDown") move(event, 1);
                  if (event.key === "ArrowUp") move(event, -1);
                }}
              >
                <Icon
                  name={row.isFolder ? (isOpen(row.path) ? "down" : "right") : "file"}
                  size={13}
                />
                <span className="cut">{row.name}</span>
                {row.isFolder ? null : <span className="faint small">{bytesText(row.bytes)}</span>}
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function FileContent(props: { run: string; snapshot: string; path: string }): ReactNode {
  const { run, snapshot, path } = props;
  const { data, error } = useDocument<Doc<"fileText">>(runPath(run, "file"), { snapshot, path });
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={6} />;
  return (
    <section className="file-content" aria-label={path}>
      <header>
        <h2 className="cut mono">{path}</h2>
        <span className="faint small figure">{bytesText(data.bytes)}</span>
        {data.binary ? null : <Copy text={data.text} label="Copy the file" />}
      </header>
      {data.binary ? (
        <Empty title="This file is not text" />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        <pre tabIndex={0}>{data.text}</pre>
      )}
      {data.cut ? <p className="faint small">Only the beginning of the file is shown.</p> : null}
    </section>
  );
}
