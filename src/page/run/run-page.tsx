/**
 * The page of a run: where it stands, what to do, and its parts in tabs.
 *
 * Owns: which tab and which step the address names.
 * Does not: show a part; each has a file of its own.
 */

import "../styles/run.css";
import { type ReactNode, useCallback } from "react";
import { useLocation, useSearchParams } from "wouter";
import { type CommandDoc, type Doc, runPath } from "../api.ts";
import { useTitle } from "../browser.ts";
import { stepHref } from "../links.ts";
import { Card, Empty, Failure, Loading, Tabs } from "../parts/basics.tsx";
import { Json } from "../parts/json.tsx";
import { Files } from "./files.tsx";
import { RunGraph } from "./graph.tsx";
import { Log } from "./log.tsx";
import { RunCard } from "./run-card.tsx";
import { type GraphDoc, type LiveRun, RowsContext, useFreshDocument, useRun } from "./run-data.ts";
import { RunHead } from "./run-head.tsx";
import { StepList } from "./step-list.tsx";
import { StepPanel } from "./step-panel.tsx";
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
