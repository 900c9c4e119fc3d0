/**
 * Every step of a run as a list beside the graph, and in its place on a phone: a tree with filters.
 * Only the rows in sight are in the document. The chosen step has a panel: its state, why, and the
 * end of what it printed.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { Link } from "wouter";
import { type Doc, runPath, type StepRow, useDocument } from "../api.ts";
import { stepHref } from "../links.ts";
import { useLive } from "../live.ts";
import { Button } from "../parts/basics.tsx";
import { Ago, countText, Duration, Money } from "../parts/figures.tsx";
import { Icon, Status, StatusMark } from "../parts/icon.tsx";
import { itemsText } from "./graph.tsx";
import { Tail } from "./run-head.tsx";
import {
  failedFirst,
  isActive,
  type ListRow,
  type RowFilter,
  rowCounts,
  shownRows,
} from "./step-rows.ts";

const ROW_HEIGHT = 30;
/** So many rows are in sight without scrolling, at least. */
const ROWS_IN_SIGHT = 10;
/** Fewer steps need no search. */
const SEARCH_FROM = 12;

interface StepListProps {
  readonly rows: readonly StepRow[];
  readonly chosen: string | undefined;
  readonly onChoose: (step: string) => void;
  readonly onOpen: (step: string) => void;
}

export function StepList({ rows: unordered, chosen, onChoose, onOpen }: StepListProps): ReactNode {
  const rows = useMemo(() => failedFirst(unordered), [unordered]);
  const [filter, setFilter] = useState<RowFilter>("all");
  const [words, setWords] = useState("");
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const shown = useMemo(
    () => shownRows(rows, { filter, words, toggled }),
    [rows, filter, words, toggled],
  );
  const onToggle = useCallback(
    (step: string, isOpen: boolean) => setToggled((all) => new Map(all).set(step, isOpen)),
    [],
  );
  const counts = useMemo(() => rowCounts(rows), [rows]);
  const scroller = useRef<HTMLUListElement>(null);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => shown[index]?.row.step ?? index,
    overscan: 12,
  });
  useShowFirst(shown, (index) => virtual.scrollToIndex(index, { align: "center" }));
  const move = (by: number): void => {
    const at = shown.findIndex(({ row }) => row.step === chosen);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
    if (next === undefined) return;
    onChoose(next.row.step);
    const index = shown.indexOf(next);
    virtual.scrollToIndex(index);
    const selector = `[data-step="${CSS.escape(next.row.step)}"]`;
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(selector)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  };
  return (
    <section className="step-list" aria-label="Steps">
      <Filters {...{ filter, counts, words }} onFilter={setFilter} onWords={setWords} />
      <ul ref={scroller} onKeyDown={onKeyDown}>
        <li
          className="step-list-size"
          aria-hidden="true"
          style={{ height: virtual.getTotalSize() }}
        />
        {virtual.getVirtualItems().map((item) => {
          const one = shown[item.index];
          if (one === undefined) return null;
          return (
            <li key={item.key} style={{ transform: `translateY(${item.start}px)` }}>
              <StepLine
                {...one}
                isChosen={one.row.step === chosen}
                onChoose={onChoose}
                onOpen={onOpen}
                onToggle={onToggle}
              />
            </li>
          );
        })}
      </ul>
      {shown.length === 0 ? <p className="step-list-none faint">No such steps.</p> : null}
    </section>
  );
}

/** A long list starts at the first step that failed, or else at one that is active. */
function useShowFirst(shown: readonly ListRow[], show: (index: number) => void): void {
  const isDone = useRef(false);
  useEffect(() => {
    if (isDone.current || shown.length === 0) return;
    isDone.current = true;
    const failed = shown.findIndex(({ row }) => row.status === "failed");
    const first = failed === -1 ? shown.findIndex(({ row }) => isActive(row)) : failed;
    if (first >= ROWS_IN_SIGHT) show(first);
  }, [shown, show]);
}

const MOVES: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

const FILTERS: readonly { readonly id: RowFilter; readonly label: string }[] = [
  { id: "all", label: "All" },
  { id: "failed", label: "Failed" },
  { id: "active", label: "Active" },
];

interface FiltersProps {
  readonly filter: RowFilter;
  readonly counts: Readonly<Record<RowFilter, number>>;
  readonly words: string;
  readonly onFilter: (filter: RowFilter) => void;
  readonly onWords: (words: string) => void;
}

function Filters({ filter, counts, words, onFilter, onWords }: FiltersProps): ReactNode {
  return (
    <div className="step-filters">
      <fieldset className="segments">
        <legend className="hidden-text">Which steps</legend>
        {FILTERS.map(({ id, label }) => (
          <button key={id} type="button" aria-pressed={filter === id} onClick={() => onFilter(id)}>
            {label} <span className="figure">{counts[id].toLocaleString("en")}</span>
          </button>
        ))}
      </fieldset>
      {counts.all < SEARCH_FROM ? null : (
        <input
          type="search"
          placeholder="Find a step"
          aria-label="Find a step"
          value={words}
          onChange={(event) => onWords(event.target.value)}
        />
      )}
    </div>
  );
}

interface StepLineProps extends ListRow {
  readonly isChosen: boolean;
  readonly onChoose: (step: string) => void;
  readonly onOpen: (step: string) => void;
  readonly onToggle: (step: string, isOpen: boolean) => void;
}

const StepLine = memo(function StepLine(props: StepLineProps): ReactNode {
  const { row, depth, inside, isOpen, isChosen, onChoose, onOpen, onToggle } = props;
  return (
    <div
      className="step-line"
      data-chosen={isChosen}
      data-status={row.status}
      style={{ paddingLeft: 4 + depth * 16 }}
    >
      {inside === 0 ? (
        <span className="step-toggle" />
      ) : (
        <button
          type="button"
          className="step-toggle"
          aria-expanded={isOpen}
          aria-label={`Steps in ${row.label}`}
          onClick={() => onToggle(row.step, !isOpen)}
        >
          <Icon name={isOpen ? "down" : "right"} size={12} />
        </button>
      )}
      <button
        type="button"
        className="step-choice"
        data-step={row.step}
        aria-pressed={isChosen}
        onClick={() => onChoose(row.step)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          onOpen(row.step);
        }}
      >
        <StatusMark status={row.status} label={row.detail} />
        <span className="cut" title={row.step}>
          {row.label}
        </span>
        <StepFigures row={row} />
      </button>
    </div>
  );
});

function StepFigures({ row }: { row: StepRow }): ReactNode {
  const { status, items, started_at: start, worked_ms: worked } = row;
  return (
    <span className="step-figures">
      {items === null ? null : <span className="figure">{itemsText(items)}</span>}
      {row.visit > 1 ? <span className="figure">×{row.visit}</span> : null}
      {status === "running" && start !== null ? <Duration runningSince={start} /> : null}
      {status !== "running" && worked > 0 ? <Duration ms={worked} /> : null}
    </span>
  );
}

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
