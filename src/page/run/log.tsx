/** The events of a run as the terminal prints them: live, filtered, followed to the end. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { type Doc, runPath, useDocument } from "../api.ts";
import { timeHref } from "../links.ts";
import { Failure, Loading } from "../parts/basics.tsx";
import { ClockTime } from "../parts/figures.tsx";
import { linesWith, mergedLines, type RunLine } from "./step-rows.ts";

const LINE_HEIGHT = 24;
/** The distance from the end at which the log still follows. */
const END_PX = 40;

interface LogProps {
  readonly run: string;
  /** The lines that came since the page was opened. */
  readonly news: readonly RunLine[];
}

export function Log({ run, news }: LogProps): ReactNode {
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
