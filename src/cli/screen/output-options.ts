/** The options that choose how a command shows its result. */
import { Refusal } from "../../app/refusal.ts";

/** How a run is shown. */
export type ScreenKind = "live" | "plain" | "json" | "quiet";

export interface OutputOptions {
  readonly output?: string;
  readonly quiet?: boolean;
}

/** The screen for these options: live on a terminal, lines elsewhere. */
export function screenKind(options: OutputOptions): ScreenKind {
  if (wantsJson(options)) return "json";
  if (options.quiet === true) return "quiet";
  const terminal = process.stdout.isTTY === true && process.env.TERM !== "dumb";
  return options.output === undefined && terminal ? "live" : "plain";
}

/** True when the output is for a program. */
export function wantsJson({ output }: OutputOptions): boolean {
  if (output === undefined || output === "text" || output === "json") return output === "json";
  throw new Refusal("bad-option", `--output takes text or json, not "${output}"`);
}
