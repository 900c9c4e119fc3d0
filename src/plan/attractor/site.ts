/** What lowering one DOT file works with, in one value. */

import type { DotPipeline, DotSettings } from "../../pipeline/dot/model.ts";
import type { PipelineWork, PlanReading } from "../plan.ts";
import type { DotAgents } from "./agent.ts";
import type { EdgeIndex } from "./regions.ts";
import type { DotReport } from "./report.ts";

/** One file and all that is needed to lower it. */
export interface DotSite {
  readonly pipeline: DotPipeline;
  readonly settings: DotSettings;
  readonly edgeIndex: EdgeIndex;
  readonly reading: PlanReading;
  readonly agents: DotAgents;
  readonly report: DotReport;
  /** Where its steps work, relative to the workspace. */
  readonly cwd?: string;
  /** The text of a file that is named here, relative to this one. */
  readonly readText: (name: string) => string | undefined;
  /** Another DOT file as work; a text with the reason when it cannot run. */
  readonly child: (name: string, cwd: string | undefined) => PipelineWork | string;
  /** The name of a node's step: some nodes are called what no step can be. */
  readonly stepId: (node: string) => string;
  /** The name of the step that marks a branch's arrival at a node outside of it. */
  readonly endId: (node: string) => string;
}
