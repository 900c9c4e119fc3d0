/** What a program gets from `import ... from "perdure"`. */
export {
  definePipeline,
  type PipelineDefinition,
  type StepDefinition,
} from "../pipeline/definition.ts";
