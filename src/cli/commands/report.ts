/** `perdure report RUN`: a post-mortem that needs nothing but itself. */

import { whyInputOf } from "../../app/known-run.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { type PostMortem, postMortem } from "../../view/post-mortem.ts";
import { type DocumentOptions, deliver, type Formats, formatOf } from "../document.ts";
import { findRun, maskedRun } from "./look.ts";

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
  const known = maskedRun(findRun(id));
  const { plan, events } = known;
  const outputs =
    options.withOutput === true
      ? await (await import("../../app/output-tail.ts")).outputTails(known)
      : new Map<string, string>();
  const story = postMortem({ ...whyInputOf(known, Date.now()), plan, events, outputs });
  deliver(await textOf(story, format), options);
  return EXIT.done;
}

async function textOf(story: PostMortem, format: ReportFormat): Promise<string> {
  switch (format) {
    case "md":
      return (await import("../../view/post-mortem-text.ts")).postMortemText(story);
    case "html":
      return (await import("../../view/post-mortem-html.ts")).postMortemHtml(story);
    case "json": {
      const { postMortemJson } = await import("../../view/post-mortem-json.ts");
      return `${JSON.stringify(postMortemJson(story), null, 2)}\n`;
    }
  }
}
