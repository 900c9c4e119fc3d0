/** An edge along the corners that the server found, with its head and its label. */
import type { Edge, EdgeProps } from "@xyflow/react";
import { memo, type ReactNode } from "react";
import { routePath } from "../../view/graph/geometry.ts";
import type { GraphDoc } from "./run-data.ts";

type GraphEdge = GraphDoc["edges"][number];
export type RouteEdgeType = Edge<{ readonly edge: GraphEdge }, "route">;

const HEAD_WIDTH = 4;
const HEAD_LENGTH = 7;
const LABEL_GAP = 5;

export const RouteEdge = memo(function RouteEdge({ data }: EdgeProps<RouteEdgeType>): ReactNode {
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
