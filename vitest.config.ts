import { rmSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { CountReporter } from "./test/rig/count-reporter.ts";
import { PATIENCE_MS } from "./test/rig/patience.ts";
import { scratchDirectory } from "./test/rig/scratch.ts";
import { SlowFirst } from "./test/rig/slow-first.ts";

const CACHE = join(import.meta.dirname, "node_modules/.cache");
// The projects of earlier tests are gone.
rmSync(join(CACHE, "test-state"), { recursive: true, force: true });

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // They mostly wait for processes and disks: two cores are not busy with fewer.
    maxWorkers: 5,
    // A process for each file would cost 0.2 s; no test changes what others see of it.
    isolate: false,
    sequence: { sequencer: SlowFirst },
    // They end a broken test. A test that works takes as long as a busy machine needs.
    testTimeout: 2 * PATIENCE_MS,
    hookTimeout: 2 * PATIENCE_MS,
    expect: { poll: { timeout: PATIENCE_MS } },
    env: {
      // Tests start many programs in TypeScript; Node keeps them without their types.
      NODE_COMPILE_CACHE: join(CACHE, "test-programs"),
      TMPDIR: scratchDirectory(),
      // Nothing of a test is kept among what the user keeps.
      XDG_STATE_HOME: join(CACHE, "test-state"),
    },
    reporters: ["default", new CountReporter()],
  },
});
