/** An edit of the pipeline, in words: which steps run again, and why. */
import type { Rerun, RunUpdated } from "../core/event.ts";
import { countText, shortList } from "./display-text.ts";

const NAMES_MAX = 4;

/** "2 steps run again, 3 are kept, 1 is removed". */
export function updateText({ kept, rerun, gone }: RunUpdated): string {
  const steps = (count: number): string => countText(count, "step");
  const parts = [
    `${steps(rerun.length)} ${rerun.length === 1 ? "runs" : "run"} again`,
    `${kept.length} ${kept.length === 1 ? "is" : "are"} kept`,
    `${gone.length} ${gone.length === 1 ? "is" : "are"} removed`,
  ];
  return parts.filter((part) => !part.startsWith("0 ")).join(", ");
}

/** "its `prompt` changed": why a step runs again. */
export function rerunText({ because, names }: Omit<Rerun, "step">): string {
  const list = shortList(names, NAMES_MAX);
  const words = shortList(
    names.map((name) => `\`${name}\``),
    NAMES_MAX,
  );
  switch (because) {
    case "new":
      return "it is new";
    case "definition":
      return `its ${words} changed`;
    case "input":
      return `${words} changed`;
    case "upstream":
      return `${list} before it ${names.length === 1 ? "runs" : "run"} again`;
  }
}
