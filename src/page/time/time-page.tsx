/**
 * Time travel: the run as it was after any of its events, what changed between two of them, and a
 * fork or a rewind from there. Every event is a position of the slider; failures, answers and
 * checkpoints stand out.
 *
 * Owns: the parts of the page. The position is in travel.ts.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { type Doc, runPath, useDocument, useMayAct } from "../api.ts";
import { useAtMostEvery, useTitle } from "../browser.ts";
import { useAddressQuery } from "../links.ts";
import { useLive } from "../live.ts";
import { Breadcrumb, Button, Empty, Failure, Loading, Refused, Tabs } from "../parts/basics.tsx";
import { ClockTime, fullTime, Money } from "../parts/figures.tsx";
import { Status } from "../parts/icon.tsx";
import { ForkDialog, RewindDialog } from "../step/step-actions.tsx";
import { CompareMoments, ContextThen, FilesThen, GraphThen, StepsThen } from "./moment-views.tsx";
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

/** So many places along the slider can have a mark of their own. */
const PLACES = 400;
const RANKS = { failure: 3, answer: 2, checkpoint: 1 } as const;

interface SliderProps {
  readonly travel: TimePosition;
  /** The moment that others are compared with. */
  readonly pinned: number | undefined;
  readonly children?: ReactNode;
}

function Slider({ travel, pinned, children }: SliderProps): ReactNode {
  const { moments, index, go } = travel;
  const last = moments.length - 1;
  const moment = moments[index];
  const near = (direction: 1 | -1): number | undefined => nextMark(moments, index, direction);
  return (
    <section className="time-travel" aria-label="Moments">
      <div className="time-line" aria-live="polite">
        <span className="time-number figure">
          {moment?.sequence ?? 0} <span className="faint">of {moments[last]?.sequence ?? 0}</span>
        </span>
        {moment === undefined ? null : <ClockTime time={moment.time} />}
        <strong className="time-text" data-tone={moment?.tone ?? ""}>
          {moment?.text}
        </strong>
      </div>
      <div className="time-bar">
        <Marks moments={moments} pinned={pinned} />
        <input
          className="time-slider"
          type="range"
          min={0}
          max={last}
          value={index}
          aria-label="Moment"
          aria-valuetext={moment === undefined ? "" : `${moment.text}, ${fullTime(moment.time)}`}
          onChange={(event) => go(Number(event.target.value))}
        />
      </div>
      <div className="time-buttons">
        <Button look="quiet" icon="first" aria-label="First moment" onClick={() => go(0)} />
        <Button
          look="quiet"
          icon="left"
          aria-label="Previous moment"
          onClick={() => go(index - 1)}
        />
        <Button look="quiet" icon="right" aria-label="Next moment" onClick={() => go(index + 1)} />
        <Button look="quiet" icon="last" aria-label="Last moment" onClick={() => go(last)} />
        <Button
          look="quiet"
          disabled={near(-1) === undefined}
          onClick={() => go(near(-1) ?? index)}
        >
          Previous mark
        </Button>
        <Button look="quiet" disabled={near(1) === undefined} onClick={() => go(near(1) ?? index)}>
          Next mark
        </Button>
        <Legend />
        {children}
      </div>
    </section>
  );
}

/** The nearest marked moment in a direction. */
function nextMark(
  moments: readonly Moment[],
  index: number,
  direction: 1 | -1,
): number | undefined {
  for (let at = index + direction; at >= 0 && at < moments.length; at += direction) {
    if (moments[at]?.mark !== null) return at;
  }
  return undefined;
}

function Legend(): ReactNode {
  return (
    <span className="time-legend faint small">
      <i data-mark="failure" /> failure
      <i data-mark="answer" /> answer
      <i data-mark="checkpoint" /> checkpoint
    </span>
  );
}

interface Mark {
  readonly at: number;
  readonly kind: keyof typeof RANKS;
}

/** At most one mark for each place: the most important one. */
function marksOf(moments: readonly Moment[]): readonly Mark[] {
  const places = new Map<number, Mark>();
  const last = Math.max(1, moments.length - 1);
  for (const [index, { mark }] of moments.entries()) {
    if (mark === null) continue;
    const at = index / last;
    const place = Math.round(at * PLACES);
    const there = places.get(place);
    if (there === undefined || RANKS[there.kind] < RANKS[mark])
      places.set(place, { at, kind: mark });
  }
  return [...places.values()];
}

function Marks(props: { moments: readonly Moment[]; pinned: number | undefined }): ReactNode {
  const { moments, pinned } = props;
  const marks = useMemo(() => marksOf(moments), [moments]);
  const pin = moments.findIndex(({ sequence }) => sequence === pinned);
  return (
    <div className="time-marks" aria-hidden="true">
      {marks.map(({ at, kind }) => (
        <i key={at} data-mark={kind} style={{ left: `${100 * at}%` }} />
      ))}
      {pin < 0 ? null : (
        <b style={{ left: `${(100 * pin) / Math.max(1, moments.length - 1)}%` }}>A</b>
      )}
    </div>
  );
}
