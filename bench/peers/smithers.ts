/** Smithers: a workflow in TSX, run by its own program on Bun. */
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environmentOf, folderOf, type Peer, programOf, WORK_SCRIPT } from "./peer.ts";

const NAME = "Smithers";
const PROGRAM = `/** @jsxImportSource smithers-orchestrator */
import { createSmithers, Sequence } from "smithers-orchestrator";
import { z } from "zod";
${WORK_SCRIPT}
const { Workflow, Task, smithers, outputs } = createSmithers({ done: z.object({ exit: z.number() }) });
export default smithers(() => (
  <Workflow name="bench">
    <Sequence>
      {Array.from({ length: steps }, (_, index) => (
        <Task key={index} id={"step-" + index} output={outputs.done}>
          {async () => ({ exit: await work(index) })}
        </Task>
      ))}
    </Sequence>
  </Workflow>
));
`;
const QUIET = ["--no-report", "--no-monitor", "--no-post-failure"];

export const SMITHERS: Peer = {
  name: NAME,
  packages: { "smithers-orchestrator": "0.32.0", bun: "1.4.4" },
  overrides: {
    "@effect/platform-node-shared": "4.0.0-beta.102",
    "@tanstack/electric-db-collection": "0.3.15",
    "@vectorize-io/hindsight-client": "0.9.1",
    effect: "4.0.0-beta.102",
  },
  works: ["nothing", "process", "hold"],
  prepare(directory) {
    symlinkSync(join(folderOf(NAME), "node_modules"), join(directory, "node_modules"));
    writeFileSync(join(directory, "bench.tsx"), PROGRAM);
  },
  start: (_directory, task) => ({
    argv: [programOf(NAME, "smithers"), "up", "bench.tsx", "--run-id", "bench", ...QUIET],
    env: { ...environmentOf(task), ...ON_BUN },
  }),
  resume: (_directory, task) => ({
    argv: [
      ...[programOf(NAME, "smithers"), "up", "bench.tsx", "--run-id", "bench"],
      ...["--resume", "true", "--force", ...QUIET],
    ],
    env: { ...environmentOf(task), ...ON_BUN },
  }),
  version: () => ({ argv: [programOf(NAME, "smithers"), "--version"], env: ON_BUN }),
};

const ON_BUN = { PATH: `${join(folderOf(NAME), "node_modules/.bin")}:${process.env.PATH ?? ""}` };
