/** Perdure itself, from its packed tarball. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Peer, packageOf, packOurs, type Task } from "./peer.ts";

function scriptOf(index: number, { work, hold }: Task): string {
  if (work === "process") return "'true'";
  const record = `echo "${index} $(date +%s%3N)" >> effects`;
  if (index !== hold) return `'${record}'`;
  return `'[ -e held ] || { touch held; sleep 600; }; ${record}'`;
}

function pipelineOf(task: Task, settings: string): string {
  const steps = Array.from({ length: task.steps }, (_, index) => {
    return `  - id: step-${index}\n    run: ${scriptOf(index, task)}\n`;
  });
  return `name: bench\n${settings}steps:\n${steps.join("")}`;
}

/** Perdure with pipelines that have these settings. */
export function perdure(name: string, settings = ""): Peer {
  const program = join(packageOf(name, "perdure"), "bin/perdure.js");
  const command = (...args: readonly string[]) => ({
    argv: [process.execPath, program, ...args],
    env: {},
  });
  return {
    name,
    packages: { perdure: `file:${packOurs()}` },
    works: ["process", "hold"],
    prepare(directory, task) {
      writeFileSync(join(directory, "bench.yaml"), pipelineOf(task, settings));
    },
    start: () => command("run", "bench.yaml"),
    resume: () => command("resume"),
    version: () => command("--version"),
  };
}
