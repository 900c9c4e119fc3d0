/** `perdure report RUN`: a post-mortem that needs nothing but itself. */

import { maskedRun, openShown } from "../../app/inspect.ts";
import { whyInputOf } from "../../app/known-run.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { type RunReport, runReport } from "../../view/report/report.ts";
import { type DocumentOptions, deliver, type Formats, formatOf } from "../document.ts";

export interface ReportOptions extends DocumentOptions {
  readonly withOutput?: boolean;
}

type ReportFormat = "md" | "html" | "json";

const FORMATS: Formats<ReportFormat> = {
  md: ["md", "markdown"],
  html: ["html", "htm"],
  json: ["json"],
};

/** Writes the report on a run; on the newest one when none is named. */
export async function reportCommand(
  id: string | undefined,
  options: ReportOptions,
): Promise<ExitCode> {
  const format = formatOf(FORMATS, options);
  // Masked before it is told: a format may write a value in letters of its own.
  const known = maskedRun((await openShown(process.cwd(), id)).known);
  const { plan, events } = known;
  const outputs =
    options.withOutput === true
      ? await (await import("../../app/output.ts")).outputTails(known)
      : new Map<string, string>();
  const story = runReport({ ...whyInputOf(known, Date.now()), plan, events, outputs });
  deliver(await textOf(story, format), options);
  return EXIT.done;
}

async function textOf(story: RunReport, format: ReportFormat): Promise<string> {
  switch (format) {
    case "md":
      return (await import("../../view/report/markdown.ts")).reportMarkdown(story);
    case "html":
      return (await import("../../view/report/html.ts")).reportHtml(story);
    case "json": {
      const { reportJson } = await import("../../view/report/report-json.ts");
      return `${JSON.stringify(reportJson(story), null, 2)}\n`;
    }
  }
}
