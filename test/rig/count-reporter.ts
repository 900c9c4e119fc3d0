/** Ends a test run with one plain line: `N passed, N failed`. */
import type { Reporter, TestModule } from "vitest/node";

export class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    let failed = errors.length;
    for (const module of modules) {
      failed += module.errors().length;
      for (const test of module.children.allTests()) {
        if (test.result().state === "passed") passed++;
        else if (test.result().state === "failed") failed++;
      }
    }
    process.on("exit", () => console.log(`\n${passed} passed, ${failed} failed`));
  }
}
