/** `perdure resume --update`: shows what the edit of a pipeline file does to a run, and asks. */
import type { LoadedRun } from "../../app/loaded-run.ts";
import type { Project } from "../../app/project/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { filesOption } from "../../app/rewind/rewind-files.ts";
import { previewUpdate, readEdit } from "../../app/rewind/update.ts";
import type { FactOf } from "../../core/fact.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { updatePlanLines } from "../../view/preview/update-plan.ts";
import { print, printDiagnostics, printDocument } from "../print.ts";
import { ask, type OutputOptions, screenKind, stdoutWidth } from "../terminal.ts";

interface UpdateOptions extends OutputOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly detach?: boolean;
  /** Keeps the files, or restores those of before the steps that run again. */
  readonly files?: string;
}

export type AgreedUpdate =
  | { readonly kind: "update"; readonly update: FactOf<"update-requested"> }
  /** The edit changes no step. */
  | { readonly kind: "same" }
  /** The update was only shown, or the person refused it. */
  | { readonly kind: "over"; readonly exit: ExitCode };

/** Shows the update and asks for agreement; throws a refusal if the update is impossible. */
export async function agreeOnUpdate(
  project: Project,
  known: LoadedRun,
  options: UpdateOptions,
): Promise<AgreedUpdate> {
  const edit = await readEdit(known, filesOption(options.files));
  await printDiagnostics(edit.read);
  const screen = screenKind(options);
  if (edit.kind === "same") {
    const why = edit.edited ? "the edit changes no step" : "the file has not changed";
    if (screen !== "json") print(`Nothing to update: ${why}.`);
    return { kind: "same" };
  }
  const shows = screen !== "quiet" && (screen !== "json" || options.dryRun === true);
  if (shows) {
    const { steps, stopsFirst } = await previewUpdate(project, known, edit);
    if (screen === "json") {
      const { updatePlanJson } = await import("../../view/json/action-json.ts");
      printDocument("updatePlan", updatePlanJson(known.id, steps, stopsFirst));
    } else for (const line of updatePlanLines(steps, stdoutWidth())) print(line);
    const names = stopsFirst.join(", ");
    if (screen !== "json" && names !== "") print(`What still runs is stopped first: ${names}.`);
  }
  if (options.dryRun === true) return { kind: "over", exit: EXIT.done };
  if (await confirmed(known, options)) return { kind: "update", update: edit.update };
  print("Nothing was changed.");
  return { kind: "over", exit: EXIT.interrupted };
}

async function confirmed({ shortId }: LoadedRun, options: UpdateOptions): Promise<boolean> {
  if (options.yes === true) return true;
  const terminal = process.stdout.isTTY === true && process.stdin.isTTY === true;
  if (!terminal || options.detach === true || screenKind(options) === "json") {
    const message = "an update needs your agreement, and there is no terminal to ask on";
    throw new Refusal("no-terminal", message, command("resume", shortId, "--update", "--yes"));
  }
  return (await ask("Adopt the edit and continue? [y/N] ")).startsWith("y");
}
