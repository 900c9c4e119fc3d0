/** The signals that a runner answers. SIGHUP is none of them: a closed terminal ends nothing. */
import type { Wishes } from "./wishes.ts";

/** Makes wishes of signals; gives what puts everything back. */
export function listen(wishes: Wishes): () => void {
  const handlers: readonly (readonly [NodeJS.Signals, () => void])[] = [
    ["SIGINT", () => wishes.end("SIGINT")],
    ["SIGTERM", () => wishes.end("SIGTERM")],
    ["SIGHUP", () => undefined],
    ["SIGUSR2", () => wishes.look()],
  ];
  for (const [signal, handler] of handlers) process.on(signal, handler);
  return () => {
    for (const [signal, handler] of handlers) process.off(signal, handler);
  };
}
