/** The options that choose how a command shows its result. */

/** How a run is shown. */
export type ScreenKind = "live" | "plain" | "json" | "quiet";

export interface OutputOptions {
  readonly json?: boolean;
  readonly plain?: boolean;
  readonly quiet?: boolean;
}

/** The screen for these options: live on a terminal, lines elsewhere. */
export function screenKind(options: OutputOptions): ScreenKind {
  if (wantsJson(options)) return "json";
  if (options.quiet === true) return "quiet";
  const terminal = process.stdout.isTTY === true && process.env.TERM !== "dumb";
  return options.plain !== true && terminal ? "live" : "plain";
}

/** True when the output is for a program. */
export function wantsJson({ json }: OutputOptions): boolean {
  return json === true;
}
