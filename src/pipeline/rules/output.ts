/** Rules on outputs: their paths, and the variables that name them. */
import { posix } from "node:path";
import { parseTemplate } from "../../util/template.ts";
import type { Report } from "../report.ts";
import type { StepShape } from "../schema.ts";
import type { Path } from "../source.ts";
import { pathIn, type StepList } from "../step-list.ts";

/** Reports outputs outside of the workspace, for any values; a run checks the values. */
export function reportOutputsOutside(
  { cwd, outputs }: StepShape,
  path: Path,
  report: Report,
): void {
  const from = plainPath(cwd ?? ".");
  for (const [name, text] of Object.entries(outputs ?? {})) {
    const plain = plainPath(text);
    const outside = plain.startsWith("/") || /^\.\.(\/|$)/.test(posix.join(from, plain));
    if (!outside) continue;
    const message = `the output \`${name}\` is outside of the workspace`;
    const help = "name a file below the step's directory; copy what is elsewhere into it";
    report.add({ rule: "output-outside", message, help, path: [...path, name] });
  }
}

/** Reports a directory outside of the workspace. */
export function reportDirectoryOutside(cwd: string | undefined, path: Path, report: Report): void {
  const plain = plainPath(cwd ?? ".");
  if (!plain.startsWith("/") && !/^\.\.(\/|$)/.test(posix.normalize(plain))) return;
  const message = `the directory \`${cwd}\` is outside of the workspace`;
  const help =
    "name a directory below the workspace, relative to it; `cd` in the script goes elsewhere";
  report.add({ rule: "cwd-outside", message, help, path });
}

/** A path with a plain name instead of each expression. */
function plainPath(text: string): string {
  const parsed = parseTemplate(text);
  if (!parsed.ok) return ".";
  return parsed.parts.map((part) => (part.kind === "text" ? part.text : "value")).join("");
}

/** Reports outputs with the same environment variable: `a-b` and `a_b`. */
export function reportOutputClashes(list: StepList, report: Report): void {
  const owners = new Map<string, string>();
  list.steps.forEach(({ id, outputs }, index) => {
    for (const name of Object.keys(outputs ?? {})) {
      const variable = `PERDURE_OUTPUT_${id}_${name}`.toUpperCase().replaceAll("-", "_");
      const owner = owners.get(variable);
      owners.set(variable, owner ?? `${id}.${name}`);
      if (owner === undefined) continue;
      const message = `$${variable} stands for both \`${owner}\` and \`${id}.${name}\``;
      const help = `rename one of them, or use \${{ outputs["${id}"]["${name}"] }} instead`;
      const path = pathIn(list, index, "outputs", name);
      report.add({ rule: "output-clash", severity: "warning", message, help, path, on: "key" });
    }
  });
}
