/** A box of the graph: a step with its live state, or an item or a branch that holds steps. */
import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import {
  createContext,
  type KeyboardEvent,
  memo,
  type ReactNode,
  useContext,
  useSyncExternalStore,
} from "react";
import { lineText } from "../../view/graph/geometry.ts";
import type { StepRow, StepStatus } from "../api.ts";
import { Duration, moneyText } from "../parts/figures.tsx";
import { StatusMark, tintOf } from "../parts/status.tsx";
import { type GraphDoc, RowsContext, useRow } from "./run-data.ts";

type GraphNode = GraphDoc["nodes"][number];

export type StepNodeType = Node<
  {
    readonly node: GraphNode;
    readonly isGroup: boolean;
    /** The steps in it. */
    readonly steps: readonly string[];
  },
  "step"
>;

/** The step that a person looks at, and what they do with others. */
export interface GraphChoice {
  readonly chosen: string | undefined;
  readonly onChoose: (step: string) => void;
  readonly onOpen: (step: string) => void;
}

export const GraphContext = createContext<GraphChoice>({
  chosen: undefined,
  onChoose: () => undefined,
  onOpen: () => undefined,
});

export const StepNode = memo(function StepNode({ data }: NodeProps<StepNodeType>): ReactNode {
  const { node, isGroup, steps } = data;
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      {node.step === null ? (
        <Item node={node} steps={steps} />
      ) : (
        <Step node={node} step={node.step} isGroup={isGroup} />
      )}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
});

function Item({ node, steps }: { node: GraphNode; steps: readonly string[] }): ReactNode {
  const rows = useContext(RowsContext);
  const live = useSyncExternalStore(rows.subscribe, () =>
    tintOfAll(steps.map((step) => rows.get(step)?.status)),
  );
  // The picture knows which failures are handled.
  const isHandled = live === "failed" && node.tint === "handled";
  return (
    <div
      className="graph-node"
      data-tint={isHandled ? node.tint : (live ?? node.tint)}
      data-group="true"
    >
      <span className="graph-item cut" title={node.label}>
        {node.label}
      </span>
    </div>
  );
}

/** The tint of a box with these steps; undefined when nothing is known about them. */
function tintOfAll(states: readonly (StepStatus | undefined)[]): string | undefined {
  if (states.length === 0 || states.includes(undefined)) return undefined;
  for (const status of ["failed", "running", "waiting", "retrying", "interrupted"] as const) {
    if (states.includes(status)) return tintOf(status);
  }
  const isPending = states.includes("pending");
  if (!isPending) return tintOf("completed");
  return tintOf(states.includes("completed") ? "running" : "pending");
}

interface StepProps {
  readonly node: GraphNode;
  readonly step: string;
  readonly isGroup: boolean;
}

function Step({ node, step, isGroup }: StepProps): ReactNode {
  const row = useRow(step);
  const { chosen, onChoose, onOpen } = useContext(GraphContext);
  const status = row?.status ?? node.status ?? "pending";
  // The picture knows more than the row: a failure that another step handles has a colour of its own.
  const tint = node.status === status ? node.tint : tintOf(status);
  const label = nodeLabel(node);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    onOpen(step);
  };
  return (
    <div
      className="graph-node"
      data-tint={tint}
      data-status={status}
      data-group={isGroup}
      data-chosen={chosen === step}
    >
      <button
        type="button"
        className="graph-step"
        aria-pressed={chosen === step}
        title={row?.message ?? label}
        onClick={() => onChoose(step)}
        onKeyDown={onKeyDown}
      >
        <span className="graph-step-name">
          <StatusMark status={status} label={row?.detail ?? status} />
          <span className="cut">{label}</span>
        </span>
        {node.about.length === 0 ? null : (
          <span className="graph-step-about cut">{lineText(node.about)}</span>
        )}
        <span className="graph-step-figures cut">
          {row === undefined ? (
            node.notes.slice(node.about.length).join(" · ")
          ) : (
            <Figures row={row} />
          )}
        </span>
      </button>
    </div>
  );
}

/** The name of a step without the mark that the terminal puts before it. */
function nodeLabel({ label, status }: GraphNode): string {
  return status === null ? label : label.replace(/^\S+ /, "");
}

/** What is worth knowing about a step in one line, the most important first. */
function Figures({ row }: { row: StepRow }): ReactNode {
  const { status, items, visit, attempt, started_at: start, worked_ms: worked } = row;
  if (status === "pending") return null;
  const isRunning = status === "running" && start !== null;
  const counts = [
    ...(visit > 1 ? [`visit ${visit}`] : []),
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
  ];
  const fan = items === null ? [] : [itemsText(items)];
  if (status !== "completed" && !isRunning) {
    return [row.message ?? row.detail, ...fan, ...counts].join(" · ");
  }
  const words = [
    ...fan,
    ...(row.cost_usd === null ? [] : [moneyText(row.cost_usd)]),
    ...(row.tool === null ? [] : [row.tool]),
    ...counts,
  ];
  // Steps that only lead elsewhere take no time.
  if (!isRunning && worked === 0) return words.join(" · ");
  return (
    <>
      {isRunning ? <Duration runningSince={start} /> : <Duration ms={worked} />}
      {words.map((word) => ` · ${word}`).join("")}
    </>
  );
}

/** `7 of 10, 1 failed`. */
export function itemsText(items: NonNullable<StepRow["items"]>): string {
  const { completed, failed, total } = items;
  const failures = failed === 0 ? "" : `, ${failed} failed`;
  return `${completed + failed} of ${total}${failures}`;
}
