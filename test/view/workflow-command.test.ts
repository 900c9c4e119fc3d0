import { expect, test } from "vitest";
import {
  annotation,
  groupStart,
  harmless,
  workflowOutput,
} from "../../src/view/workflow-command.ts";

test("groups and annotations are escaped", () => {
  expect(groupStart("100%\nof it")).toBe("::group::100%25%0Aof it");
  expect(annotation("error", "a: b, c", "line 1\nline 2")).toBe(
    "::error title=a%3A b%2C c::line 1%0Aline 2",
  );
});

test("output never becomes a command (view/G1)", () => {
  expect(workflowOutput("::set-env name=PATH::/tmp")).toBe("│ ::set-env name=PATH::/tmp");
  expect(workflowOutput("  ::error::x")).toBe("│   ::error::x");
  expect(harmless("a ##[error] b")).toBe("a # #[error] b");
});
