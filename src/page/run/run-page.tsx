/**
 * The page of a run: where it stands, what to do, and its parts in tabs. Two of the tabs are here: what
 * the run did to the files of its project, and its events as the terminal prints them.
 *
 * Owns: which tab and which step the address names.
 * Does not: show the steps; the list, the graph and the waterfall have files of their own.
 */
import "../styles/run.css";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { type CommandDoc, type Doc, type Overview, runPath, useDocument } from "../api.ts";
import { useTitle } from "../browser.ts";
import { stepHref, timeHref } from "../links.ts";
import { Card, CommandLine, Copy, Empty, Failure, Loading, Tabs } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { ClockTime } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Json } from "../parts/json.tsx";
import { RunGraph } from "./graph.tsx";
import { type GraphDoc, type LiveRun, RowsContext, useFreshDocument, useRun } from "./run-data.ts";
import { RunCard, RunHead } from "./run-head.tsx";
import { StepList, StepPanel } from "./step-list.tsx";
import { linesWith, mergedLines, type RunLine } from "./step-rows.ts";
import { Waterfall } from "./waterfall.tsx";

const TABS = [
  { id: "graph", label: "Graph" },
  { id: "waterfall", label: "Waterfall" },
  { id: "log", label: "Log" },
  { id: "files", label: "Files" },
  { id: "context", label: "Context" },
] as const;

type TabName = (typeof TABS)[number]["id"];

export function RunPage({ run }: { run: string }): ReactNode {
  const live = useRun(run);
  useTitle(live.page?.overview.pipeline);
  if (live.page === undefined) {
    return (
      <>
        <h1 className="hidden-text">Run {run}</h1>
        {live.error === undefined ? <Loading lines={10} /> : <Failure error={live.error} />}
      </>
    );
  }
  const { overview, steps } = live.page;
  return (
    <RowsContext value={live.rows}>
      <RunHead overview={overview} rows={steps} onDone={live.reload} />
      <RunCard overview={overview} rows={steps} onDone={live.reload} />
      <Parts run={run} page={live.page} live={live} />
    </RowsContext>
  );
}

interface PartProps {
  readonly run: string;
  readonly page: Doc<"runPage">;
}

function Parts({ run, page, live }: PartProps & { live: LiveRun }): ReactNode {
  const [query, setQuery] = useSearchParams();
  const { overview, steps } = page;
  const tab = TABS.find(({ id }) => id === query.get("tab"))?.id ?? "graph";
  const choose = (id: TabName): void => {
    setQuery(id === "graph" ? {} : { tab: id }, { replace: true });
  };
  const { sequence } = overview;
  return (
    <div className="run-parts">
      <Tabs tabs={TABS} chosen={tab} onChoose={choose} label="Parts of the run">
        {tab === "graph" ? <GraphPart run={run} page={page} /> : null}
        {tab === "waterfall" ? (
          <Waterfall
            run={run}
            rows={steps}
            sequence={sequence}
            isOpen={overview.status === "running" || overview.status === "waiting"}
          />
        ) : null}
        {tab === "log" ? <Log run={run} news={live.lines} /> : null}
        {tab === "files" ? <Files overview={overview} /> : null}
        {tab === "context" ? <Context run={run} sequence={sequence} /> : null}
      </Tabs>
    </div>
  );
}

function GraphPart({ run, page }: PartProps): ReactNode {
  const [query, setQuery] = useSearchParams();
  const [, go] = useLocation();
  const graph = useFreshDocument<GraphDoc>(runPath(run, "graph"), page.graph_version);
  const chosen = query.get("step") ?? undefined;
  const row = page.steps.find(({ step }) => step === chosen);
  const onChoose = useCallback((step: string) => setQuery({ step }, { replace: true }), [setQuery]);
  const onOpen = useCallback((step: string) => go(stepHref(run, step)), [go, run]);
  const onClose = (): void => setQuery({}, { replace: true });
  if (page.steps.length === 0) return <Empty title="This run has no steps yet" />;
  const choice = { chosen, onChoose, onOpen };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes the panel from anywhere in it
    <div
      className="graph-part"
      data-panel={row !== undefined}
      onKeyDown={(event) => (event.key === "Escape" ? onClose() : undefined)}
    >
      <StepList rows={page.steps} {...choice} />
      <div className="graph-frame">
        {graph.error === undefined ? null : <Failure error={graph.error} />}
        {graph.data === undefined ? null : (
          <RunGraph graph={graph.data} label={`Graph of ${page.overview.pipeline}`} {...choice} />
        )}
      </div>
      {row === undefined ? null : <StepPanel run={run} row={row} onClose={onClose} />}
    </div>
  );
}

/** What a run was given, and what its steps have put into its context. */
function Context({ run, sequence }: { run: string; sequence: number }): ReactNode {
  const show = useFreshDocument<CommandDoc<"show">>(runPath(run, "show"), sequence);
  if (show.error !== undefined) return <Failure error={show.error} />;
  if (show.data === undefined) return <Loading lines={6} />;
  const { context, input, file, cwd, args } = show.data;
  return (
    <div className="run-context">
      <ContextPart title="Context" value={context} none="No step has set a value yet." />
      <ContextPart title="Input" value={input} none="The run was started without input." />
      <ContextPart title="Start" value={{ file, directory: cwd, args }} none="" />
    </div>
  );
}

interface ContextPartProps {
  readonly title: string;
  readonly value: unknown;
  readonly none: string;
}

function ContextPart({ title, value, none }: ContextPartProps): ReactNode {
  const isNone = value === null || (typeof value === "object" && Object.keys(value).length === 0);
  return (
    <Card title={title}>
      <div className="card-body">
        {isNone ? (
          <p className="faint">{none}</p>
        ) : (
          <Json value={value} label={title.toLowerCase()} levels={2} />
        )}
      </div>
    </Card>
  );
}

interface FilesProps {
  readonly overview: Overview;
}

function Files({ overview }: FilesProps): ReactNode {
  const { run_id: run, result } = overview;
  const diff = useDocument<CommandDoc<"diff">>(runPath(run, "diff"), {
    ...{ from: "base", to: "now", patch: 1 },
  });
  return (
    <div className="run-files">
      {result === null ? null : <Result overview={overview} result={result} />}
      {diff.error === undefined ? null : <Failure error={diff.error} />}
      {diff.isLoading ? <Loading lines={8} /> : null}
      {diff.data === undefined ? null : <Changed diff={diff.data} />}
    </div>
  );
}

function Changed({ diff }: { diff: CommandDoc<"diff"> }): ReactNode {
  const { files, patch, patch_cut: isCut } = diff;
  if (files.length === 0) return <Empty title="The run has changed no files" />;
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <Card
      title={files.length === 1 ? "1 file changed" : `${files.length} files changed`}
      aside={
        <span className="file-counts figure small">
          <span className="added-count">+{added}</span>
          <span className="removed-count">−{removed}</span>
        </span>
      }
    >
      <div className="card-body">
        <Diff files={files} patch={patch} isCut={isCut} label="Changes of the run" />
      </div>
    </Card>
  );
}

interface ResultProps extends FilesProps {
  readonly result: NonNullable<Overview["result"]>;
}

function Result({ overview, result }: ResultProps): ReactNode {
  const { branch, directory, base, base_moved: moved } = result;
  const id = overview.short_id;
  return (
    <Card title="Result">
      <div className="card-body run-result">
        <dl className="fact-list">
          {branch === null ? null : (
            <Named name="Branch" text={branch} icon={<Icon name="branch" size={14} />} />
          )}
          {directory === null ? null : <Named name="Directory" text={directory} />}
          {base === null ? null : <Named name="Base" text={base.slice(0, 12)} />}
        </dl>
        {moved === null || moved === 0 ? null : (
          <p className="faint">
            The project has {moved} {moved === 1 ? "commit" : "commits"} since the run started.
          </p>
        )}
        <ul className="run-card-next">
          <Take text="Merge its branch" command={`perdure merge ${id}`} />
          <Take text="Copy its changes" command={`perdure apply ${id}`} />
          <Take text="Open a pull request" command={`perdure pr ${id}`} />
        </ul>
      </div>
    </Card>
  );
}

function Named({ name, text, icon }: { name: string; text: string; icon?: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="mono run-named">
        {icon}
        <span className="cut" title={text}>
          {text}
        </span>
        <Copy text={text} label={`Copy ${text}`} />
      </dd>
    </div>
  );
}

function Take({ text, command }: { text: string; command: string }): ReactNode {
  return (
    <li>
      <span className="run-card-text">{text}</span>
      <CommandLine command={command} />
    </li>
  );
}

const LINE_HEIGHT = 24;
/** The distance from the end at which the log still follows. */
const END_PX = 40;

interface LogProps {
  readonly run: string;
  /** The lines that came since the page was opened. */
  readonly news: readonly RunLine[];
}

function Log({ run, news }: LogProps): ReactNode {
  const moments = useDocument<Doc<"moments">>(runPath(run, "moments"));
  const [words, setWords] = useState("");
  const before = moments.data?.moments;
  const lines = useMemo(() => mergedLines(before ?? [], news), [before, news]);
  const shown = useMemo(() => linesWith(lines, words), [lines, words]);
  if (moments.error !== undefined) return <Failure error={moments.error} />;
  if (before === undefined) return <Loading lines={10} />;
  return (
    <section className="log" aria-label="Events">
      <div className="log-head">
        <input
          type="search"
          placeholder="Filter by step or word"
          aria-label="Filter by step or word"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        <span className="faint small figure">
          {shown.length.toLocaleString("en")} of {lines.length.toLocaleString("en")} events
        </span>
      </div>
      <Lines run={run} lines={shown} />
    </section>
  );
}

function Lines({ run, lines }: { run: string; lines: readonly RunLine[] }): ReactNode {
  const scroller = useRef<HTMLOListElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 30,
  });
  const count = lines.length;
  useEffect(() => {
    if (isFollowing && count > 0) virtual.scrollToIndex(count - 1, { align: "end" });
  }, [count, isFollowing, virtual]);
  const onScroll = (): void => {
    const { current } = scroller;
    if (current === null) return;
    const left = current.scrollHeight - current.scrollTop - current.clientHeight;
    setFollowing(left < END_PX);
  };
  return (
    <div className="log-frame">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls needs the keyboard */}
      <ol className="log-lines mono" ref={scroller} onScroll={onScroll} tabIndex={0}>
        <li aria-hidden="true" style={{ height: virtual.getTotalSize() }} />
        {virtual.getVirtualItems().map((item) => {
          const line = lines[item.index];
          if (line === undefined) return null;
          return (
            <li
              key={line.sequence}
              className="log-line"
              data-tone={line.tone ?? "plain"}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <Link href={timeHref(run, line.sequence)} title="The run as it was then">
                <ClockTime time={line.time} />
              </Link>
              <LineText text={line.text} />
            </li>
          );
        })}
      </ol>
      {isFollowing ? null : (
        <button type="button" className="button log-follow" onClick={() => setFollowing(true)}>
          Follow
        </button>
      )}
    </div>
  );
}

/** The mark at its start has the colour of what happened. */
function LineText({ text }: { text: string }): ReactNode {
  const [, mark = "", rest = text] = /^(\S) (.*)$/s.exec(text) ?? [];
  return (
    <span className="cut" title={text}>
      <span className="log-mark">{mark}</span> {rest}
    </span>
  );
}
