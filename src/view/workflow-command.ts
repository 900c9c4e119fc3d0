/**
 * Lines for the log of GitHub Actions: groups that fold, annotations, and output that cannot pass for a
 * command of the workflow.
 *
 * Owns: the syntax of workflow commands.
 * Invariants:
 * - view/G1 No text of a step becomes a workflow command: `::` never begins a line of its output, and
 *   `##[` does not appear in it.
 */

/** "::group::build". */
export function groupStart(title: string): string {
  return `::group::${escapedData(title)}`;
}

/** Ends the group that is open. */
export const GROUP_END = "::endgroup::";

/** "::error title=test failed::it exited with 1". */
export function annotation(level: "error" | "warning", title: string, message: string): string {
  return `::${level} title=${escapedProperty(title)}::${escapedData(message)}`;
}

/** A line of a step's output in the log. */
export function workflowOutput(text: string): string {
  return `│ ${harmless(text)}`.trimEnd();
}

/** A line of ours that may quote what a step said. */
export function harmless(text: string): string {
  return text.replaceAll("##[", "# #[");
}

function escapedData(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escapedData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
