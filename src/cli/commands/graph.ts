/** `perdure graph FILE|RUN`: the plan of a pipeline, or a run with its states, as a picture. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { openShown } from "../../app/inspect.ts";
import { findStateDir } from "../../app/project.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { type Drawing, leftOutText, planDrawing, runDrawing } from "../../view/graph/drawing.ts";
import { readPlan } from "../diagnostics.ts";
import { type DocumentOptions, deliver, type Formats, formatOf } from "../document.ts";
import { printError } from "../print.ts";

type GraphFormat = "mermaid" | "dot" | "svg";

const FORMATS: Formats<GraphFormat> = {
  mermaid: ["mmd", "mermaid"],
  dot: ["dot", "gv"],
  svg: ["svg"],
};

/** Draws a file or a run; the newest run when nothing is named. */
export async function graphCommand(
  what: string | undefined,
  options: DocumentOptions,
): Promise<ExitCode> {
  const format = formatOf(FORMATS, options);
  const drawing = await drawingOf(what);
  deliver(await textOf(drawing, format), options);
  const left = leftOutText(drawing);
  if (left !== undefined) printError(`The picture is incomplete; ${left}.`);
  return EXIT.done;
}

async function drawingOf(what: string | undefined): Promise<Drawing> {
  if (what !== undefined && existsSync(what)) {
    return planDrawing((await readPlan(resolve(what))).plan);
  }
  if (what !== undefined && (/[./]/.test(what) || findStateDir(process.cwd()) === undefined)) {
    const message = `${what}: there is no such file`;
    throw new Refusal(
      "missing-file",
      message,
      advice("give the path of a pipeline file, or a run"),
    );
  }
  const { known } = await openShown(process.cwd(), what);
  const { plan, run, events, liveness } = known;
  return runDrawing(plan, run, events, liveness);
}

async function textOf(drawing: Drawing, format: GraphFormat): Promise<string> {
  switch (format) {
    case "mermaid":
      return (await import("../../view/graph/mermaid.ts")).mermaidText(drawing);
    case "dot":
      return (await import("../../view/graph/dot.ts")).dotText(drawing);
    case "svg":
      return (await import("../../view/graph/svg.ts")).svgText(drawing);
  }
}
