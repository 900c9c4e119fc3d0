/**
 * Shows an output of any size: the lines around the place where the person reads, more of them as
 * they scroll, and the end as it grows.
 *
 * Owns: scrolling, searching and wrapping.
 * Does not: load (output.ts).
 */
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import {
  type ReactNode,
  type RefObject,
  useDeferredValue,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { address, runPath } from "../api.ts";
import { Button, Empty, Failure, Loading } from "../parts/basics.tsx";
import { bytesText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { type Output, type OutputSource, outputQuery, useOutput } from "./output.ts";
import {
  CHUNK_BYTES,
  type HeldOutput,
  heldFrom,
  heldTo,
  holdsEnd,
  linesOf,
  type OutputLine,
} from "./output-window.ts";

const LINE_PX = 19;
/** How near the edge of what is held more is loaded. */
const EDGE_PX = 2_000;
/** So near the end counts as being there. */
const END_PX = 24;

type Scroller = Virtualizer<HTMLDivElement, HTMLDivElement>;

interface OutputViewProps {
  readonly source: OutputSource;
  /** Nothing more will be printed. */
  readonly isOver: boolean;
}

export function OutputView({ source, isOver }: OutputViewProps): ReactNode {
  const output = useOutput(source);
  const { window: held, error } = output;
  if (error !== undefined) return <Failure error={error} />;
  if (held === undefined) return <Loading lines={8} />;
  if (held.bytes === 0 && isOver) {
    return <Empty title="Nothing was printed" />;
  }
  return <Lines source={source} output={output} held={held} isOver={isOver} />;
}

interface LinesProps extends OutputViewProps {
  readonly output: Output;
  readonly held: HeldOutput;
}

function Lines({ source, output, held, isOver }: LinesProps): ReactNode {
  const [isWrapped, setWrapped] = useState(true);
  const [words, setWords] = useState("");
  const lines = useMemo(() => linesOf(held), [held]);
  const box = useRef<HTMLDivElement>(null);
  const scroll = useScroll({ lines, box, isWrapped, held, output });
  const search = useSearch(lines, words, (index) => scroll.show(index));
  return (
    <div className="output">
      <div className="output-bar">
        <Search words={words} setWords={setWords} search={search} />
        <Position held={held} at={scroll.byteAt} onJump={scroll.jump} />
        <span className="output-buttons">
          <Button look="quiet" onClick={() => scroll.jump(0)}>
            Start
          </Button>
          <Button look="quiet" aria-pressed={scroll.isAtEnd} onClick={() => scroll.toEnd()}>
            {isOver ? "End" : "Follow"}
          </Button>
          <Button look="quiet" aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
            Wrap
          </Button>
          <a
            className="button"
            data-look="quiet"
            href={address(runPath(source.run, "output/download"), outputQuery(source))}
            download
          >
            Download
          </a>
        </span>
      </div>
      <section
        className="output-box"
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        tabIndex={0}
        onScroll={scroll.onScroll}
        onKeyDown={scroll.onKey}
        aria-label={`Output of ${source.attempt}`}
        data-wrap={isWrapped}
      >
        <LineList
          lines={lines}
          scroller={scroll.scroller}
          words={search.words}
          chosen={search.at}
        />
      </section>
    </div>
  );
}

interface LineListProps {
  readonly lines: readonly OutputLine[];
  readonly scroller: Scroller;
  readonly words: string;
  readonly chosen: number | undefined;
}

function LineList({ lines, scroller, words, chosen }: LineListProps): ReactNode {
  return (
    <div className="output-lines" style={{ height: scroller.getTotalSize() }}>
      {scroller.getVirtualItems().map((item) => (
        <div
          key={item.key}
          className="output-line"
          data-index={item.index}
          data-chosen={item.index === chosen}
          ref={scroller.measureElement}
          style={{ transform: `translateY(${item.start}px)` }}
        >
          <Marked text={lines[item.index]?.text ?? ""} words={words} />
        </div>
      ))}
    </div>
  );
}

/** A text in which the searched words stand out. */
function Marked({ text, words }: { text: string; words: string }): ReactNode {
  if (words === "") return text === "" ? "\u00a0" : text;
  const parts: ReactNode[] = [];
  const lower = text.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(words); at >= 0; at = lower.indexOf(words, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + words.length)}</mark>);
    from = at + words.length;
  }
  return [...parts, text.slice(from) || "\u00a0"];
}

interface ScrollInput {
  readonly lines: readonly OutputLine[];
  readonly box: RefObject<HTMLDivElement | null>;
  readonly isWrapped: boolean;
  readonly held: HeldOutput;
  readonly output: Output;
}

interface Scroll {
  readonly scroller: Scroller;
  readonly isAtEnd: boolean;
  /** The byte of the first line in sight. */
  readonly byteAt: number;
  readonly onScroll: () => void;
  readonly onKey: (event: React.KeyboardEvent) => void;
  readonly show: (index: number) => void;
  readonly toEnd: () => void;
  /** Shows the part at a byte. */
  readonly jump: (byte: number) => void;
}

function useScroll({ lines, box, isWrapped, held, output }: ScrollInput): Scroll {
  const [isAtEnd, setAtEnd] = useState(true);
  const anchor = useRef<{ key: number; offset: number }>(undefined);
  const scroller = useVirtualizer<HTMLDivElement, HTMLDivElement>({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    getItemKey: (index) => lines[index]?.key ?? index,
    overscan: 12,
  });
  const loadAround = (): void => {
    const element = box.current;
    if (element === null) return;
    if (element.scrollTop < EDGE_PX) output.more("previous");
    if (below(element) < EDGE_PX) output.more("next");
  };
  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    setAtEnd(below(element) < END_PX && holdsEnd(held));
    anchor.current = anchorOf(scroller, lines);
    loadAround();
  };
  useLayoutEffect(() => scroller.measure(), [scroller, isWrapped]);
  useLayoutEffect(() => {
    if (isAtEnd && holdsEnd(held)) {
      scroller.scrollToIndex(lines.length - 1, { align: "end" });
    } else {
      keepPlace(scroller, lines, anchor.current);
    }
    loadAround();
  }, [lines]);
  const jump = (byte: number): void => {
    setAtEnd(false);
    anchor.current = undefined;
    if (byte === 0 && heldFrom(held) === 0) scroller.scrollToOffset(0);
    else output.jump(byte);
  };
  const toEnd = (): void => {
    setAtEnd(true);
    if (holdsEnd(held)) scroller.scrollToIndex(lines.length - 1, { align: "end" });
    else output.jump(-CHUNK_BYTES);
  };
  return {
    scroller,
    isAtEnd,
    byteAt: lines[firstInSight(scroller)]?.key ?? heldFrom(held),
    onScroll,
    onKey: (event) => {
      if (event.key === "Home") jump(0);
      else if (event.key === "End") toEnd();
      else return;
      event.preventDefault();
    },
    show: (index) => scroller.scrollToIndex(index, { align: "center" }),
    toEnd,
    jump,
  };
}

/** How much of the lines is below what is in sight. */
function below({ scrollHeight, scrollTop, clientHeight }: HTMLElement): number {
  return scrollHeight - scrollTop - clientHeight;
}

function firstInSight(scroller: Scroller): number {
  const top = scroller.scrollOffset ?? 0;
  return scroller.getVirtualItems().find(({ end }) => end > top)?.index ?? 0;
}

/** The line that must stay where it is when lines are added or dropped before it. */
function anchorOf(
  scroller: Scroller,
  lines: readonly OutputLine[],
): { key: number; offset: number } | undefined {
  // The very first line may become the end of a longer one.
  const index = Math.max(1, firstInSight(scroller));
  const [line, place] = [lines[index], scroller.measurementsCache[index]];
  if (line === undefined || place === undefined) return undefined;
  return { key: line.key, offset: place.start - (scroller.scrollOffset ?? 0) };
}

function keepPlace(
  scroller: Scroller,
  lines: readonly OutputLine[],
  anchor: { key: number; offset: number } | undefined,
): void {
  if (anchor === undefined) {
    scroller.scrollToOffset(0);
    return;
  }
  const index = lines.findIndex(({ key }) => key === anchor.key);
  const place = scroller.measurementsCache[index];
  if (place !== undefined) scroller.scrollToOffset(place.start - anchor.offset);
}

interface Found {
  readonly words: string;
  readonly count: number;
  /** The number of the chosen match, from 1. */
  readonly number: number;
  /** Its line. */
  readonly at: number | undefined;
  readonly move: (step: number) => void;
}

function useSearch(
  lines: readonly OutputLine[],
  typed: string,
  show: (index: number) => void,
): Found {
  const words = useDeferredValue(typed.toLowerCase());
  const [chosen, setChosen] = useState<number>();
  const matches = useMemo(() => {
    if (words === "") return [];
    return lines.flatMap(({ key, text }, index) =>
      text.toLowerCase().includes(words) ? [{ key, index }] : [],
    );
  }, [lines, words]);
  const current = matches.findIndex(({ key }) => key === chosen);
  const move = (step: number): void => {
    const from = current < 0 ? (step > 0 ? -1 : 0) : current;
    const next = matches[(from + step + matches.length) % matches.length];
    if (next === undefined) return;
    setChosen(next.key);
    show(next.index);
  };
  const at = matches[current]?.index;
  return { words, count: matches.length, number: current + 1, at, move };
}

interface SearchProps {
  readonly words: string;
  readonly setWords: (words: string) => void;
  readonly search: Found;
}

function Search({ words, setWords, search }: SearchProps): ReactNode {
  const { count, number, move } = search;
  return (
    <span className="output-search">
      <Icon name="search" size={14} />
      <input
        type="search"
        aria-label="Search in what is loaded"
        placeholder="Search in what is loaded"
        value={words}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          move(event.shiftKey ? -1 : 1);
        }}
      />
      <span className="output-count figure" role="status">
        {words === "" ? "" : count === 0 ? "none" : `${number || "–"} of ${count}`}
      </span>
    </span>
  );
}

interface PositionProps {
  readonly held: HeldOutput;
  readonly at: number;
  readonly onJump: (byte: number) => void;
}

/** Where in the whole output the person reads, and a slider to anywhere else. */
function Position({ held, at, onJump }: PositionProps): ReactNode {
  const [wanted, setWanted] = useState<number>();
  const isWhole = heldFrom(held) === 0 && heldTo(held) >= held.bytes;
  const total = bytesText(held.bytes);
  if (isWhole) return <span className="output-position figure">{total}</span>;
  const choose = (): void => {
    if (wanted !== undefined) onJump(wanted);
    setWanted(undefined);
  };
  return (
    <span className="output-position figure">
      <input
        type="range"
        min={0}
        max={held.bytes}
        step={Math.max(1, Math.round(held.bytes / 1_000))}
        value={wanted ?? at}
        aria-label="Position in the output"
        aria-valuetext={`${bytesText(wanted ?? at)} of ${total}`}
        onChange={(event) => setWanted(Number(event.target.value))}
        onPointerUp={choose}
        onKeyUp={choose}
        onBlur={choose}
      />
      <span className="output-bytes">
        {bytesText(wanted ?? at)} of {total}
      </span>
    </span>
  );
}
