/** The inputs of lowering one DOT file, in one value. */

import type { DotPipeline, DotSettings } from "../../pipeline/dot/model.ts";
import type { PipelineWork, PlanReading } from "../plan.ts";
import type { DotAgents } from "./agent.ts";
import type { EdgeIndex } from "./regions.ts";
import type { DotReport } from "./report.ts";

/** A DOT file and everything that lowering it needs. */
export interface DotSite {
  readonly pipeline: DotPipeline;
  readonly settings: DotSettings;
  readonly edgeIndex: EdgeIndex;
  readonly reading: PlanReading;
  readonly agents: DotAgents;
  readonly report: DotReport;
  /** The directory of its steps, relative to the workspace. */
  readonly cwd?: string;
  /** The text of a file whose name is relative to this one. */
  readonly readText: (name: string) => string | undefined;
  /** Another DOT file as work, or a text with the reason why it cannot run. */
  readonly child: (name: string, cwd: string | undefined) => PipelineWork | string;
  /** The name of a node's step: not every name of a node is a valid name of a step. */
  readonly stepId: (node: string) => string;
  /** The name of the step that stands for a node outside of the branch. */
  readonly endId: (node: string) => string;
}
