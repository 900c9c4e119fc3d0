/**
 * The files as they were: a tree of the snapshot whose folders open and close, and the content of the
 * chosen file.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useMemo, useRef, useState } from "react";
import { type Doc, runPath, useDocument } from "../api.ts";
import { Copy, Empty, Failure, Loading } from "../parts/basics.tsx";
import { bytesText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { foundRows, type TreeRow, treeRows } from "./moment-model.ts";
import { useKept } from "./travel.ts";

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
