/** The choice of screen. Each is loaded when it is asked for: a resume must not wait for the others. */
import type { Screen, ScreenOptions } from "./screen.ts";

/** The screen that was asked for. */
export async function openScreen(options: ScreenOptions): Promise<Screen> {
  switch (options.kind) {
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
