import { defineConfig } from "vitest/config";
import { CountReporter } from "./test/rig/count-reporter.ts";
import { SlowFirst } from "./test/rig/slow-first.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // They mostly wait for processes and disks: two cores are not busy with fewer.
    maxWorkers: 4,
    sequence: { sequencer: SlowFirst },
    testTimeout: 120_000,
    hookTimeout: 60_000,
    reporters: ["default", new CountReporter()],
  },
});
