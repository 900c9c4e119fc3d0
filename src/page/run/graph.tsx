/**
 * The graph of a run: boxes and edges where the server puts them, in the colours of `perdure graph`,
 * with the states of the rows around it (RowsContext). A box is a step with its live state, or an item
 * or a branch that holds steps.
 *
 * Owns: what can be done with the picture: pan, zoom, choose and open a step.
 * Does not: position anything, or read a document.
 */
import {
  type Edge,
  type EdgeProps,
  Handle,
  MiniMap,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react";
import {
  createContext,
  type KeyboardEvent,
  memo,
  type ReactNode,
  useContext,
  useMemo,
  useSyncExternalStore,
} from "react";
import { lineText, routePath } from "../../view/graph/geometry.ts";
import { Button } from "../parts/basics.tsx";
import { type GraphDoc, RowsContext, useRow } from "./run-data.ts";
import "@xyflow/react/dist/base.css";
import "../styles/graph.css";
import type { StepRow, StepStatus } from "../api.ts";
import { Duration, moneyText } from "../parts/figures.tsx";
import { StatusMark, tintOf } from "../parts/icon.tsx";

type GraphNode = GraphDoc["nodes"][number];

type StepNodeType = Node<
  {
    readonly node: GraphNode;
    readonly isGroup: boolean;
    /** The steps in it. */
    readonly steps: readonly string[];
  },
  "step"
>;

/** The step that a person looks at, and what they do with others. */
interface GraphChoice {
  readonly chosen: string | undefined;
  readonly onChoose: (step: string) => void;
  readonly onOpen: (step: string) => void;
}

const GraphContext = createContext<GraphChoice>({
  chosen: undefined,
  onChoose: () => undefined,
  onOpen: () => undefined,
});

const StepNode = memo(function StepNode({ data }: NodeProps<StepNodeType>): ReactNode {
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

type RouteEdgeType = Edge<{ readonly edge: GraphEdge }, "route">;

/** The head of an edge. */
const HEAD_WIDTH = 4;
const HEAD_LENGTH = 7;
const LABEL_GAP = 5;

/** An edge along the corners that the server found, with its head and its label. */
const RouteEdge = memo(function RouteEdge({ data }: EdgeProps<RouteEdgeType>): ReactNode {
  if (data === undefined) return null;
  const { points, square, label, label_at: at, taken, on_failure: isFailure } = data.edge;
  const end = points.at(-1) ?? { x: 0, y: 0 };
  // The line stops where the head begins.
  const line = [...points.slice(0, -1), { x: end.x, y: end.y - HEAD_LENGTH + 1 }];
  return (
    <g
      className="graph-edge"
      data-look={taken === null ? "plain" : taken ? "taken" : "untaken"}
      data-failure={isFailure}
    >
      <path className="graph-edge-line" d={routePath(line, square)} />
      <path
        className="graph-edge-head"
        d={`M${end.x - HEAD_WIDTH} ${end.y - HEAD_LENGTH}h${2 * HEAD_WIDTH}L${end.x} ${end.y}z`}
      />
      {label === "" ? null : (
        <text x={square ? at.x + LABEL_GAP : at.x} y={at.y + 4} data-square={square}>
          {label}
        </text>
      )}
    </g>
  );
});

const NODE_TYPES = { step: StepNode };
const EDGE_TYPES = { route: RouteEdge };
/** With more boxes a small map helps, unless the picture is a strip. */
const MAP_FROM = 60;
const MAP_STRIP = 6;
/** A picture that would be smaller than this starts at the step that matters instead. */
const ZOOM_READABLE = 0.55;
const ZOOM_MIN = 0.08;
const ZOOM_MAX = 1.6;
const FIT = { padding: 0.08, maxZoom: 1, minZoom: ZOOM_MIN };

interface GraphProps extends GraphChoice {
  readonly graph: GraphDoc;
  readonly label: string;
}

/** The picture; `onChoose` gets a step when somebody clicks it, `onOpen` when they press Enter. */
export function RunGraph({ graph, label, chosen, onChoose, onOpen }: GraphProps): ReactNode {
  const choice = useMemo(() => ({ chosen, onChoose, onOpen }), [chosen, onChoose, onOpen]);
  const nodes = useMemo(() => nodesOf(graph), [graph]);
  const edges = useMemo(() => edgesOf(graph), [graph]);
  return (
    <GraphContext value={choice}>
      <ReactFlowProvider>
        <section className="graph" aria-label={label}>
          <ReactFlow<StepNodeType, RouteEdgeType>
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            edgeTypes={EDGE_TYPES}
            onInit={(flow) => showStart(flow, graph)}
            minZoom={ZOOM_MIN}
            maxZoom={ZOOM_MAX}
            onlyRenderVisibleElements
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            zoomOnScroll={false}
            zoomOnDoubleClick={false}
            preventScrolling={false}
            disableKeyboardA11y
            deleteKeyCode={null}
            selectionKeyCode={null}
            multiSelectionKeyCode={null}
            proOptions={{ hideAttribution: true }}
          >
            <ZoomButtons />
            <LeftOut graph={graph} />
            {hasMap(graph) ? (
              <MiniMap<StepNodeType>
                pannable
                zoomable={false}
                ariaLabel="Map of the whole graph"
                nodeClassName={({ data }) => `map-${data.node.tint}`}
              />
            ) : null}
          </ReactFlow>
        </section>
      </ReactFlowProvider>
    </GraphContext>
  );
}

function hasMap({ nodes, width, height }: GraphDoc): boolean {
  const ratio = width / Math.max(1, height);
  return nodes.length >= MAP_FROM && ratio < MAP_STRIP && ratio > 1 / MAP_STRIP;
}

function ZoomButtons(): ReactNode {
  const { zoomIn, zoomOut, fitView } = useReactFlow();
  return (
    <Panel position="bottom-left" className="graph-zoom">
      <Button look="quiet" icon="plus" aria-label="Zoom in" onClick={() => void zoomIn()} />
      <Button look="quiet" icon="skip" aria-label="Zoom out" onClick={() => void zoomOut()} />
      <Button look="quiet" icon="fit" aria-label="Show all" onClick={() => void fitView(FIT)} />
    </Panel>
  );
}

function LeftOut({ graph }: { graph: GraphDoc }): ReactNode {
  const { nodes_left_out: steps, edges_left_out: edges } = graph;
  if (steps === 0 && edges === 0) return null;
  const parts = [
    ...(steps > 0 ? [`${steps.toLocaleString("en")} more steps`] : []),
    ...(edges > 0 ? [`${edges.toLocaleString("en")} more edges`] : []),
  ];
  return (
    <Panel position="top-left" className="graph-note">
      Not drawn: {parts.join(", ")}. The list shows every step.
    </Panel>
  );
}

/** All of it, if that is readable; otherwise the step that matters most. */
function showStart(flow: ReactFlowInstance<StepNodeType, RouteEdgeType>, graph: GraphDoc): void {
  void flow.fitView(FIT).then(() => {
    if (flow.getZoom() >= ZOOM_READABLE) return;
    const first =
      graph.nodes.find(({ status }) => status === "failed") ??
      graph.nodes.find(({ status }) => status === "running" || status === "waiting") ??
      graph.nodes[0];
    const box = first === undefined ? undefined : flow.getInternalNode(first.id);
    if (first === undefined || box === undefined) return;
    const { x, y } = box.internals.positionAbsolute;
    void flow.setCenter(x + first.width / 2, y + 140, { zoom: 0.8 });
  });
}

function nodesOf({ nodes }: GraphDoc): StepNodeType[] {
  const children = new Map<string, string[]>();
  for (const { parent, step } of nodes) {
    if (parent === null || step === null) continue;
    children.set(parent, [...(children.get(parent) ?? []), step]);
  }
  const parents = new Set(nodes.map(({ parent }) => parent));
  return nodes.map((node): StepNodeType => {
    const { id, parent, x, y, width, height } = node;
    const size = { width, height };
    const middle = { x: width / 2, width: 1, height: 1 };
    return {
      id,
      type: "step",
      position: { x, y },
      ...(parent === null ? {} : { parentId: parent }),
      ...size,
      // Known before it is drawn, so that boxes out of sight count for the view of the whole.
      measured: size,
      // Edges have routes of their own, but must know that both ends are there.
      handles: [
        { ...middle, type: "target", position: Position.Top, y: 0 },
        { ...middle, type: "source", position: Position.Bottom, y: height },
      ],
      data: { node, isGroup: parents.has(id), steps: children.get(id) ?? [] },
    };
  });
}

function edgesOf({ edges }: GraphDoc): RouteEdgeType[] {
  return edges.map((edge, index): RouteEdgeType => {
    const zIndex = edge.taken === true ? 2 : 1;
    return {
      ...{ id: `e${index}`, type: "route", data: { edge }, zIndex },
      ...{ source: edge.from, target: edge.to },
    };
  });
}

type GraphEdge = GraphDoc["edges"][number];
