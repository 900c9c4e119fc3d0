/** What an author's editor tells about a pipeline in TypeScript; `npm run types` holds it. */
import { expect, it } from "vitest";
import {
  definePipeline,
  type PipelineDefinition,
  type StepDefinition,
} from "../../src/pipeline/definition.ts";

it("is what was written", () => {
  const pipeline = { steps: [{ id: "a", run: "ls" }] } as const;
  expect(definePipeline(pipeline)).toBe(pipeline);
});

/** Never called: the compiler is the test. */
export function typed(): readonly PipelineDefinition[] {
  const made: StepDefinition[] = ["a", "b"].map((id) => ({ id, run: `make ${id}`, needs: [] }));
  return [
    definePipeline({
      name: "all kinds",
      max_parallel: 2,
      input: { type: "object", properties: { who: { type: "string" } } },
      env: { LEVEL: 3, DEEP: true },
      agents: { reviewer: { adapter: "claude", model: "big" }, cat: "cat" },
      budget: { usd: 5, time: "1h" },
      workspace: { kind: "worktree", snapshot_every: "1m" },
      defaults: { agent: "reviewer", retry: { attempts: 2, backoff: "1s" } },
      steps: [
        { id: "build", run: "make", outputs: { app: "dist/app" }, once: { probe: "test -e x" } },
        { id: "ask", prompt: "Look.", agent: "reviewer", needs: "build", session: "s" },
        { id: "file", prompt_file: "p.md", needs: ["build", "ask"], when: "true" },
        { id: "each", for_each: ["a", "b"], as: "it", run: "echo ${{ it }}" },
        {
          id: "group",
          steps: [{ id: "inner", run: "ls" }],
          loop: { until: true, max_iterations: 3 },
        },
        { id: "sub", pipeline: "other.yaml", input: { a: [1] } },
        { id: "fan", for_each: { in: { glob: "*.ts" }, steps: [{ id: "x", run: "ls" }] } },
        { id: "choose", run: "ls", edges: [{ to: "build", when: "false" }, { to: "end" }] },
        { id: "end", run: "ls", on_failure: "continue", goal: true, retry_target: "build" },
      ],
    }),
    definePipeline({ steps: made }),
    definePipeline({ steps: [{ id: "c", run: "ls", needs: "a" }, ...made] }),
  ];
}

/** Never called: the compiler must find a mistake in every one of them. */
export function mistyped(): void {
  // @ts-expect-error a misspelt key
  definePipeline({ steps: [{ id: "a", run: "ls", nedes: [] }] });
  // @ts-expect-error a misspelt key of the pipeline
  definePipeline({ step: [], steps: [{ id: "a", run: "ls" }] });
  // @ts-expect-error a command and an agent
  definePipeline({ steps: [{ id: "a", run: "ls", agent: "claude" }] });
  // @ts-expect-error a command and a prompt
  definePipeline({ steps: [{ id: "a", run: "ls", prompt: "Do it." }] });
  // @ts-expect-error a setting of agents on a command
  definePipeline({ steps: [{ id: "a", run: "ls", model: "big" }] });
  // @ts-expect-error nothing to do
  definePipeline({ steps: [{ id: "a" }] });
  // @ts-expect-error a process key on a step that contains steps
  definePipeline({ steps: [{ id: "a", steps: [{ id: "b", run: "ls" }], timeout: "1m" }] });
  // @ts-expect-error a number in place of a duration
  definePipeline({ steps: [{ id: "a", run: "ls", timeout: 10 }] });
  // @ts-expect-error an unknown kind of workspace
  definePipeline({ workspace: "elsewhere", steps: [{ id: "a", run: "ls" }] });
  // @ts-expect-error an unknown need
  definePipeline({ steps: [{ id: "a", run: "ls", needs: ["c"] }] });
  // @ts-expect-error an unknown target
  definePipeline({ steps: [{ id: "a", run: "ls", goto: "b" }] });
  // @ts-expect-error an unknown target of an edge
  definePipeline({ steps: [{ id: "a", run: "ls", edges: [{ to: "b" }] }] });
  // @ts-expect-error an unknown step to go to
  definePipeline({ steps: [{ id: "a", run: "ls", on_failure: "b" }] });
  // @ts-expect-error a misspelt key of a step in a step
  definePipeline({ steps: [{ id: "a", steps: [{ id: "b", run: "ls", whenn: "x" }] }] });
}
