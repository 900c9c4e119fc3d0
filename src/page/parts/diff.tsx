/**
 * A patch as git prints it, as coloured lines with the list of its files. However long it is, only the
 * lines in sight are in the document.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useMemo, useRef, useState } from "react";
import type { CommandDoc } from "../api.ts";
import { Icon } from "./icon.tsx";
import { type PatchFile, type PatchRow, patchFiles } from "./patch.ts";
import "../styles/diff.css";

type ChangedFile = CommandDoc<"diff">["files"][number];

const LINE_HEIGHT = 20;
const FILE_HEIGHT = 34;
/** Longer lines are there, but do not widen the box. */
const COLUMNS_MAX = 2_000;

const MARKS = { added: "+", changed: "~", removed: "−", renamed: "→", retyped: "~" } as const;

interface DiffProps {
  /** What changed; in their order, with the count of lines. */
  readonly files: readonly ChangedFile[];
  readonly patch: string | null;
  /** The patch is not complete. */
  readonly isCut?: boolean;
  readonly label: string;
}

/** The list of files, and below it their changes. */
export function Diff({ files, patch, isCut = false, label }: DiffProps): ReactNode {
  const parsed = useMemo(() => (patch === null ? [] : patchFiles(patch)), [patch]);
  const [asked, setAsked] = useState<{ path: string; round: number }>();
  return (
    <div className="diff">
      {files.length === 0 ? null : (
        <FileList
          files={files}
          onChoose={
            parsed.length === 0
              ? undefined
              : (path) => setAsked((before) => ({ path, round: (before?.round ?? 0) + 1 }))
          }
        />
      )}
      {parsed.length === 0 ? null : (
        <PatchView files={files} parsed={parsed} asked={asked} label={label} />
      )}
      {isCut ? (
        <p className="faint small">The patch is cut; the list of files is complete.</p>
      ) : null}
    </div>
  );
}

interface FileListProps {
  readonly files: readonly ChangedFile[];
  readonly onChoose?: ((path: string) => void) | undefined;
}

/** The changed files with their counts of lines. */
export function FileList({ files, onChoose }: FileListProps): ReactNode {
  return (
    <ul className="file-list" aria-label="Changed files">
      {files.map((file) => (
        <li key={file.path}>
          <FileMark status={file.status} />
          {onChoose === undefined ? (
            <span className="mono cut" title={file.path}>
              {file.path}
            </span>
          ) : (
            <button type="button" className="mono cut" onClick={() => onChoose(file.path)}>
              {file.path}
            </button>
          )}
          {file.from === null ? null : <span className="faint cut small">from {file.from}</span>}
          <Counts file={file} />
        </li>
      ))}
    </ul>
  );
}

function FileMark({ status }: { status: ChangedFile["status"] }): ReactNode {
  return (
    <span className="file-mark mono" data-status={status} title={status}>
      <span aria-hidden="true">{MARKS[status]}</span>
      <span className="hidden-text">{status}</span>
    </span>
  );
}

function Counts({ file }: { file: ChangedFile }): ReactNode {
  if (file.binary) return <span className="file-counts faint small">binary</span>;
  return (
    <span className="file-counts figure small">
      <span className="added-count">+{file.added}</span>
      <span className="removed-count">−{file.removed}</span>
    </span>
  );
}

interface PatchViewProps {
  readonly files: readonly ChangedFile[];
  readonly parsed: readonly PatchFile[];
  /** The file to show; a new round shows it again. */
  readonly asked: { readonly path: string; readonly round: number } | undefined;
  readonly label: string;
}

function PatchView({ files, parsed, asked, label }: PatchViewProps): ReactNode {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(
    () => parsed.flatMap((file) => (closed.has(file.path) ? file.rows.slice(0, 1) : file.rows)),
    [parsed, closed],
  );
  const columns = useMemo(() => longest(rows), [rows]);
  const scroller = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (rows[index]?.kind === "file" ? FILE_HEIGHT : LINE_HEIGHT),
    overscan: 30,
  });
  const shown = useRef(asked);
  if (asked !== undefined && asked !== shown.current) {
    shown.current = asked;
    const at = rows.findIndex((row) => row.kind === "file" && row.path === asked.path);
    if (at >= 0) queueMicrotask(() => virtual.scrollToIndex(at, { align: "start" }));
  }
  const toggle = (path: string): void => {
    const next = new Set(closed);
    if (!next.delete(path)) next.add(path);
    setClosed(next);
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls needs the keyboard
    <section className="patch mono" ref={scroller} aria-label={label} tabIndex={0}>
      <div style={{ height: virtual.getTotalSize(), minWidth: `calc(${columns}ch + 110px)` }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          return (
            <div
              key={item.key}
              className="patch-row"
              style={{ height: item.size, transform: `translateY(${item.start}px)` }}
            >
              {row.kind === "file" ? (
                <FileHead
                  path={row.path}
                  file={files.find(({ path }) => path === row.path)}
                  isOpen={!closed.has(row.path)}
                  onToggle={() => toggle(row.path)}
                />
              ) : (
                <PatchLine row={row} />
              )}
            </div>
          );
        })}
      </div>
    </section>
  );
}

interface FileHeadProps {
  readonly path: string;
  readonly file: ChangedFile | undefined;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function FileHead({ path, file, isOpen, onToggle }: FileHeadProps): ReactNode {
  return (
    <button type="button" className="patch-file" aria-expanded={isOpen} onClick={onToggle}>
      <Icon name={isOpen ? "down" : "right"} size={14} />
      <span>{path}</span>
      {file === undefined ? null : <Counts file={file} />}
    </button>
  );
}

function PatchLine({ row }: { row: Exclude<PatchRow, { kind: "file" }> }): ReactNode {
  if (row.kind === "hunk")
    return (
      <div className="patch-line" data-tone="hunk">
        {row.text}
      </div>
    );
  return (
    <div className="patch-line" data-tone={row.tone}>
      <span className="line-number" data-number={row.before ?? ""} />
      <span className="line-number" data-number={row.after ?? ""} />
      <span>{row.text === "" ? " " : row.text}</span>
    </div>
  );
}

function longest(rows: readonly PatchRow[]): number {
  let columns = 0;
  for (const row of rows) {
    if (row.kind === "line") columns = Math.max(columns, row.text.length);
  }
  return Math.min(COLUMNS_MAX, columns);
}
