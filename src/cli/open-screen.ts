/** The choice of screen. Each is loaded when it is asked for: a resume must not wait for the others. */
import type { Screen, ScreenKind, ScreenOptions } from "../app/screen.ts";

/** The screen that was asked for; somebody else's is taken as it is. */
export async function openScreen(
  kind: ScreenKind | Screen,
  options: ScreenOptions,
): Promise<Screen> {
  if (typeof kind !== "string") return kind;
  switch (kind) {
    case "live":
      return new (await import("./terminal-screen.ts")).TerminalScreen(options);
    case "plain":
      return new (await import("./line-screen.ts")).LineScreen(options);
    case "json":
      return new (await import("./json-screen.ts")).JsonScreen(options);
    case "quiet":
      return {
        say: () => undefined,
        update: () => undefined,
        refresh: () => undefined,
        close: async () => undefined,
      };
  }
}
