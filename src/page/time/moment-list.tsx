/** Every moment as a line; only those in sight are in the document. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";
import { ClockTime } from "../parts/figures.tsx";
import type { TimePosition } from "./travel.ts";

const ROW_PX = 30;

export function MomentList({ travel }: { travel: TimePosition }): ReactNode {
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
