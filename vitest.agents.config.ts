import { defineConfig } from "vitest/config";
import { CountReporter } from "./test/rig/count-reporter.ts";
import { PATIENCE_MS } from "./test/rig/patience.ts";

/** Real agents: a gigabyte to install, so they have a run of their own. */
export default defineConfig({
  test: {
    include: ["test/agents/*.suite.ts"],
    testTimeout: 2 * PATIENCE_MS,
    hookTimeout: 2 * PATIENCE_MS,
    // Each test has a model, a home and a project of its own, and agents wait for half of their time.
    maxWorkers: 3,
    // Those that run together mostly wait.
    maxConcurrency: 8,
    reporters: ["default", new CountReporter()],
  },
});
