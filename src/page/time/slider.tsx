/** The slider over the journal: every event is a position; failures, answers and checkpoints stand out. */
import { type ReactNode, useMemo } from "react";
import { Button } from "../parts/basics.tsx";
import { ClockTime, fullTime } from "../parts/figures.tsx";
import type { Moment, TimePosition } from "./travel.ts";

/** So many places along the slider can have a mark of their own. */
const PLACES = 400;
const RANKS = { failure: 3, answer: 2, checkpoint: 1 } as const;

interface SliderProps {
  readonly travel: TimePosition;
  /** The moment that others are compared with. */
  readonly pinned: number | undefined;
  readonly children?: ReactNode;
}

export function Slider({ travel, pinned, children }: SliderProps): ReactNode {
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
