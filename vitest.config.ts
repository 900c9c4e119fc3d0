import { defineConfig } from "vitest/config";
import { CountReporter } from "./test/rig/count-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // They mostly wait for processes and disks: two cores are not busy with fewer.
    maxWorkers: 3,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    reporters: ["default", new CountReporter()],
  },
});
