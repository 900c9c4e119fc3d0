/** What lowering one DOT file works with, in one value. */
import type { DotPipeline, DotSettings } from "../pipeline/dot/model.ts";
import type { DotAgents } from "./dot-agent.ts";
import type { DotNotes } from "./dot-notes.ts";
import type { DotWays } from "./dot-regions.ts";
import type { PipelineWork, PlanReading } from "./plan.ts";

/** One file and all that is needed to lower it. */
export interface DotSite {
  readonly pipeline: DotPipeline;
  readonly settings: DotSettings;
  readonly ways: DotWays;
  readonly reading: PlanReading;
  readonly agents: DotAgents;
  readonly notes: DotNotes;
  /** Where its steps work, relative to the workspace. */
  readonly cwd?: string;
  /** The text of a file that is named here, relative to this one. */
  readonly readText: (name: string) => string | undefined;
  /** Another DOT file as a work; a text when it cannot be run, which says why. */
  readonly child: (name: string, cwd: string | undefined) => PipelineWork | string;
  /** The name of a node's step: some nodes are called what no step can be. */
  readonly stepId: (node: string) => string;
  /** The name of the step that marks a branch's arrival at a node outside of it. */
  readonly endId: (node: string) => string;
}
