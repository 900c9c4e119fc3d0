/**
 * Time travel: the run as it was after any of its events, what changed between two of them, and a
 * fork or a rewind from there.
 *
 * Owns: the parts of the page. The position is in travel.ts.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { type Doc, runPath, useDocument, useMayAct } from "../api.ts";
import { useAtMostEvery, useTitle } from "../browser.ts";
import { useAddressQuery } from "../links.ts";
import { useLive } from "../live.ts";
import { Breadcrumb, Button, Empty, Failure, Loading, Refused, Tabs } from "../parts/basics.tsx";
import { ClockTime, Money } from "../parts/figures.tsx";
import { Status } from "../parts/status.tsx";
import { ForkDialog, RewindDialog } from "../step/step-actions.tsx";
import { FilesThen } from "./files-then.tsx";
import { CompareMoments, ContextThen, GraphThen, StepsThen } from "./moment-views.tsx";
import { Slider } from "./slider.tsx";
import { type Moment, type MomentDoc, type TimePosition, useMoment, useTravel } from "./travel.ts";
import "../styles/step.css";
import "../styles/time.css";

/** How often the moments of a living run are read again at most. */
const RELOAD_MS = 2_000;

interface TimePageProps {
  readonly run: string;
  readonly sequence?: string | undefined;
}

export function TimePage({ run, sequence }: TimePageProps): ReactNode {
  const { data, error, reload } = useDocument<Doc<"moments">>(runPath(run, "moments"));
  useTitle("Time travel");
  const reloadSoon = useAtMostEvery(RELOAD_MS, reload);
  const last = data?.moments.at(-1)?.sequence;
  useLive<Doc<"runNews">>(
    last === undefined ? undefined : { path: runPath(run, "live"), event: "news", after: last },
    (news) => {
      if (news.lines.length > 0) reloadSoon();
    },
  );
  if (error !== undefined) return <Refused title="Time travel" error={error} />;
  if (data === undefined) return <Loading lines={10} />;
  if (data.moments.length === 0) return <Empty title="Nothing has happened in this run yet" />;
  return (
    <Journey
      run={run}
      runId={data.run_id}
      moments={data.moments}
      sequence={sequence}
      onDone={reload}
    />
  );
}

interface JourneyProps extends TimePageProps {
  readonly runId: string;
  readonly moments: readonly Moment[];
  readonly onDone: () => void;
}

function Journey({ run, runId, moments, sequence, onDone }: JourneyProps): ReactNode {
  const travel = useTravel(run, moments, sequence);
  const { data: moment, error } = useMoment(run, travel.sequence);
  const [search, change] = useAddressQuery();
  const pinned = Number(search.get("a") ?? 1);
  const tab = TABS.find(({ id }) => id === search.get("tab"))?.id ?? "graph";
  return (
    <>
      <Head run={run} runId={runId} moment={moment} onDone={onDone} />
      <Slider travel={travel} pinned={search.has("a") ? pinned : undefined}>
        <Button
          look="quiet"
          onClick={() => {
            change("a", String(moments[travel.index]?.sequence ?? 1));
            change("tab", "compare");
          }}
        >
          Compare from here
        </Button>
      </Slider>
      <div className="time-body">
        <MomentList travel={travel} />
        <div className="time-details">
          {error === undefined ? null : <Failure error={error} />}
          <Tabs
            label="The run at this moment"
            tabs={TABS}
            chosen={tab}
            onChoose={(id) => change("tab", id)}
          >
            {moment === undefined ? (
              <Loading lines={8} />
            ) : (
              <TabContent
                {...{ run, tab, moment, moments, pinned }}
                onPin={(next) => change("a", String(next))}
              />
            )}
          </Tabs>
        </div>
      </div>
    </>
  );
}

const TABS = [
  { id: "graph", label: "Graph" },
  { id: "steps", label: "Steps" },
  { id: "context", label: "Context" },
  { id: "files", label: "Files" },
  { id: "compare", label: "Compare" },
] as const;

interface TabContentProps {
  readonly run: string;
  readonly tab: (typeof TABS)[number]["id"];
  readonly moment: MomentDoc;
  readonly moments: readonly Moment[];
  readonly pinned: number;
  readonly onPin: (sequence: number) => void;
}

function TabContent({ tab, ...props }: TabContentProps): ReactNode {
  const { run, moment } = props;
  switch (tab) {
    case "graph":
      return <GraphThen run={run} moment={moment} />;
    case "steps":
      return <StepsThen run={run} moment={moment} />;
    case "context":
      return <ContextThen run={run} moment={moment} />;
    case "files":
      return <FilesThen run={run} snapshot={moment.snapshot} />;
    case "compare":
      return <CompareMoments {...props} />;
  }
}

interface HeadProps {
  readonly run: string;
  readonly runId: string;
  readonly moment: MomentDoc | undefined;
  readonly onDone: () => void;
}

function Head({ run, runId, moment, onDone }: HeadProps): ReactNode {
  const mayAct = useMayAct();
  const [open, setOpen] = useState<"rewind" | "fork">();
  const checkpoint = moment?.checkpoint ?? null;
  const close = (): void => setOpen(undefined);
  return (
    <header className="step-head">
      <Breadcrumb run={run} runId={runId} parts={[{ name: "Time travel" }]} />
      <div className="page-head">
        <h1>Time travel</h1>
        {moment === undefined ? null : <Status status={moment.status} />}
        {moment?.spent?.cost_usd === undefined ? null : <Money usd={moment.spent.cost_usd} />}
        {checkpoint === null || !mayAct ? null : (
          <div className="actions">
            <Button icon="rewind" onClick={() => setOpen("rewind")}>
              Rewind to before <code>{checkpoint}</code>
            </Button>
            <Button icon="fork" onClick={() => setOpen("fork")}>
              Fork from before <code>{checkpoint}</code>
            </Button>
          </div>
        )}
      </div>
      {open === "rewind" && checkpoint !== null ? (
        <RewindDialog run={run} to={checkpoint} onDone={onDone} onClose={close} />
      ) : null}
      {open === "fork" && checkpoint !== null ? (
        <ForkDialog run={run} at={checkpoint} onDone={onDone} onClose={close} />
      ) : null}
    </header>
  );
}

const ROW_PX = 30;

function MomentList({ travel }: { travel: TimePosition }): ReactNode {
  const { moments, index, go } = travel;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: moments.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  });
  useEffect(() => rows.scrollToIndex(index, { align: "auto" }), [rows, index]);
  return (
    <div className="moments" ref={box}>
      <ol style={{ height: rows.getTotalSize() }} aria-label="Events">
        {rows.getVirtualItems().map((item) => {
          const moment = moments[item.index];
          if (moment === undefined) return null;
          return (
            <li key={item.key} style={{ transform: `translateY(${item.start}px)` }}>
              <button
                type="button"
                // The keys move through all moments; tabbing through them would take for ever.
                tabIndex={item.index === index ? 0 : -1}
                aria-current={item.index === index ? "true" : undefined}
                data-tone={moment.tone ?? ""}
                onClick={() => go(item.index)}
              >
                <span className="moment-number figure">{moment.sequence}</span>
                <span className="cut">{moment.text}</span>
                <ClockTime time={moment.time} />
              </button>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
