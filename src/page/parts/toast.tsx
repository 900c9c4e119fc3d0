/** Short messages at the edge of the page, which readers of the screen hear too. */
import { type ReactNode, useSyncExternalStore } from "react";

interface Message {
  readonly id: number;
  readonly text: string;
  readonly tint: "done" | "failed";
}

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;

let messages: readonly Message[] = [];
let nextId = 1;
const watchers = new Set<() => void>();

function change(next: readonly Message[]): void {
  messages = next;
  for (const watcher of watchers) watcher();
}

/** Shows a message for a few seconds. */
export function say(text: string, tint: Message["tint"] = "done"): void {
  const message = { id: nextId++, text, tint };
  change([...messages, message].slice(-SHOWN_MAX));
  window.setTimeout(() => change(messages.filter(({ id }) => id !== message.id)), SHOWN_MS);
}

export function Toasts(): ReactNode {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => messages,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, tint }) => (
        <p key={id} data-tint={tint}>
          {text}
        </p>
      ))}
    </div>
  );
}
