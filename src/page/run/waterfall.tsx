/** The attempts of a run on a time axis, coloured by how they ended. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { type CommandDoc, runPath, type StepRow } from "../api.ts";
import { stepHref } from "../links.ts";
import { Button, Empty, Failure, Loading } from "../parts/basics.tsx";
import { durationText, fullTime, moneyText, useNow } from "../parts/figures.tsx";
import { useFreshDocument } from "./run-data.ts";
import {
  type Attempt,
  type Axis,
  axisOf,
  type Bar,
  type WaterfallRow,
  waterfallRows,
} from "./waterfall-model.ts";
import "../styles/waterfall.css";

const ROW_HEIGHT = 28;
const ZOOM_STEP = 4;
const ZOOM_MAX = 256;

const TINTS: Readonly<Record<Attempt["status"], string>> = {
  running: "running",
  asked: "waiting",
  waiting: "waiting",
  uncertain: "waiting",
  completed: "done",
  failed: "failed",
  lost: "handled",
  paused: "waiting",
  interrupted: "waiting",
  continued: "done",
  relayed: "done",
  submitted: "done",
  conflicted: "failed",
};

interface WaterfallProps {
  readonly run: string;
  readonly rows: readonly StepRow[];
  readonly sequence: number;
  /** It runs or waits, so that time passes in it. */
  readonly isOpen: boolean;
}

export function Waterfall({ run, rows, sequence, isOpen }: WaterfallProps): ReactNode {
  const report = useFreshDocument<CommandDoc<"report">>(runPath(run, "report"), sequence);
  const now = useNow(isOpen);
  const attempts = report.data?.attempts;
  const ended = report.data?.ended_at;
  const until = isOpen || ended === undefined ? now : Date.parse(ended);
  const [zoom, setZoom] = useState(1);
  const axis = useMemo(() => axisOf(attempts ?? [], until, zoom), [attempts, until, zoom]);
  const shown = useMemo(
    () => waterfallRows(attempts ?? [], rows, axis, until),
    [attempts, rows, axis, until],
  );
  if (report.error !== undefined) return <Failure error={report.error} />;
  if (attempts === undefined) return <Loading lines={8} />;
  if (shown.length === 0) return <Empty title="No step has started yet" />;
  return <Chart run={run} axis={axis} rows={shown} zoom={zoom} onZoom={setZoom} />;
}

interface ChartProps {
  readonly run: string;
  readonly axis: Axis;
  readonly rows: readonly WaterfallRow[];
  readonly zoom: number;
  readonly onZoom: (zoom: number) => void;
}

function Chart({ run, axis, rows, zoom, onZoom }: ChartProps): ReactNode {
  const [chosen, setChosen] = useState<Attempt>();
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    paddingStart: ROW_HEIGHT,
    overscan: 10,
  });
  const width = `calc(var(--names) + (100% - var(--names)) * ${zoom})`;
  return (
    <section className="waterfall" aria-label="Attempts over time">
      <div className="waterfall-rows" ref={scroller}>
        <div style={{ height: virtual.getTotalSize(), width }}>
          <Ruler axis={axis} />
          <Grid axis={axis} />
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            return (
              <Row
                key={row.step}
                run={run}
                row={row}
                top={item.start}
                chosen={chosen?.step === row.step ? chosen : undefined}
                onChoose={setChosen}
              />
            );
          })}
        </div>
      </div>
      <footer className="waterfall-foot">
        <Details attempt={chosen} />
        <Zoom zoom={zoom} onZoom={onZoom} />
      </footer>
    </section>
  );
}

function Zoom({ zoom, onZoom }: { zoom: number; onZoom: (zoom: number) => void }): ReactNode {
  return (
    <span className="waterfall-zoom">
      <Button
        look="quiet"
        icon="skip"
        aria-label="Show more time"
        disabled={zoom === 1}
        onClick={() => onZoom(zoom / ZOOM_STEP)}
      />
      <span className="figure small">×{zoom}</span>
      <Button
        look="quiet"
        icon="plus"
        aria-label="Show less time"
        disabled={zoom >= ZOOM_MAX}
        onClick={() => onZoom(zoom * ZOOM_STEP)}
      />
    </span>
  );
}

function Ruler({ axis }: { axis: Axis }): ReactNode {
  return (
    <div className="waterfall-ruler" aria-hidden="true">
      <span className="waterfall-name faint">Step</span>
      <div className="waterfall-lane">
        {axis.ticks.map(({ at, ms }) => (
          <span key={ms} className="tick figure" style={{ left: percent(at) }}>
            {ms === 0 ? "0" : durationText(ms)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** Lines behind all rows, and the times in which nothing ran. */
function Grid({ axis }: { axis: Axis }): ReactNode {
  return (
    <div className="waterfall-grid" aria-hidden="true">
      <div className="waterfall-lane">
        {axis.ticks.map(({ at, ms }) => (
          <span key={ms} className="grid-line" style={{ left: percent(at) }} />
        ))}
        {axis.pauses.map(({ from, to, start, end }) => (
          <span
            key={start}
            className="waterfall-pause"
            style={{ left: percent(from), width: percent(to - from) }}
          >
            {durationText(end - start)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** A thin line from the first attempt of a step to the last: between them it waited. */
function Span({ bars }: { bars: readonly Bar[] }): ReactNode {
  const from = Math.min(...bars.map((bar) => bar.from));
  const to = Math.max(...bars.map((bar) => bar.to));
  return <span className="bar-span" style={{ left: percent(from), width: percent(to - from) }} />;
}

interface RowProps extends LaneProps {
  readonly run: string;
  readonly top: number;
}

const Row = memo(function Row({ run, top, ...lane }: RowProps): ReactNode {
  const { step, label, depth } = lane.row;
  return (
    <div className="waterfall-row" style={{ transform: `translateY(${top}px)` }}>
      <Link
        className="waterfall-name cut"
        href={stepHref(run, step)}
        title={step}
        style={{ paddingLeft: 12 + depth * 14 }}
      >
        {label}
      </Link>
      <Lane {...lane} />
    </div>
  );
});

interface LaneProps {
  readonly row: WaterfallRow;
  readonly chosen: Attempt | undefined;
  readonly onChoose: (attempt: Attempt) => void;
}

function Lane({ row, chosen, onChoose }: LaneProps): ReactNode {
  const lane = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const bars = [...(lane.current?.querySelectorAll("button") ?? [])];
    bars[bars.indexOf(document.activeElement as HTMLButtonElement) + by]?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys move between the bars in it
    <div className="waterfall-lane" ref={lane} onKeyDown={onKeyDown}>
      {row.bars.length < 2 || row.isComposite ? null : <Span bars={row.bars} />}
      {row.bars.map((bar, index) => (
        <BarButton
          key={`${bar.attempt.visit}.${bar.attempt.attempt}`}
          bar={bar}
          isComposite={row.isComposite}
          isIdle={row.isIdle}
          isFirst={index === 0}
          isChosen={chosen !== undefined && nameOf(chosen) === nameOf(bar.attempt)}
          onChoose={onChoose}
        />
      ))}
    </div>
  );
}

interface BarProps {
  readonly bar: Bar;
  readonly isComposite: boolean;
  readonly isIdle: boolean;
  /** Tab stops at the first bar of a row; arrows reach the others. */
  readonly isFirst: boolean;
  readonly isChosen: boolean;
  readonly onChoose: (attempt: Attempt) => void;
}

function BarButton(props: BarProps): ReactNode {
  const { bar, isComposite, isIdle, isFirst, isChosen, onChoose } = props;
  const { attempt, from, to, ms } = bar;
  return (
    <button
      type="button"
      className="bar"
      data-tint={TINTS[attempt.status]}
      data-status={attempt.status}
      data-composite={isComposite}
      data-idle={isIdle}
      data-chosen={isChosen}
      tabIndex={isFirst ? 0 : -1}
      aria-label={`${nameOf(attempt)}: ${attempt.status}, ${durationText(ms)}`}
      style={{ left: percent(from), width: `max(4px, ${percent(to - from)})` }}
      onMouseEnter={() => onChoose(attempt)}
      onFocus={() => onChoose(attempt)}
      onClick={() => onChoose(attempt)}
    >
      <span className="bar-label figure">{durationText(ms)}</span>
    </button>
  );
}

/** What is known about the bar under the pointer or the focus. */
function Details({ attempt }: { attempt: Attempt | undefined }): ReactNode {
  if (attempt === undefined) {
    return <p className="waterfall-details faint">Point at a bar, or move to one with Tab.</p>;
  }
  const { status, started_at: start, worked_ms: worked, spent } = attempt;
  const parts = [
    status,
    `started ${fullTime(start)}`,
    `worked ${durationText(worked)}`,
    ...(spent?.cost_usd === undefined || spent.cost_usd === null
      ? []
      : [moneyText(spent.cost_usd)]),
    ...(spent === null ? [] : [`${spent.turns} turns`]),
  ];
  return (
    <p className="waterfall-details" role="status">
      <strong className="mono">{nameOf(attempt)}</strong> {parts.join(" · ")}
    </p>
  );
}

function nameOf({ step, visit, attempt }: Attempt): string {
  return `${step}@${visit}.${attempt}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(3)}%`;
}
