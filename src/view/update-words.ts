/** An edit of a pipeline in words: what it does to the steps of a run, and why. */
import type { Rerun, RunUpdated } from "../core/event.ts";
import { countText, shortList } from "./display-text.ts";

const NAMES_MAX = 4;

/** "2 steps begin anew, 3 are kept, 1 is gone". */
export function updateText({ kept, rerun, gone }: RunUpdated): string {
  const steps = (count: number): string => countText(count, "step");
  const parts = [
    `${steps(rerun.length)} ${rerun.length === 1 ? "begins" : "begin"} anew`,
    `${kept.length} ${kept.length === 1 ? "is" : "are"} kept`,
    `${gone.length} ${gone.length === 1 ? "is" : "are"} gone`,
  ];
  return parts.filter((part) => !part.startsWith("0 ")).join(", ");
}

/** "its `prompt` changed": why a step begins anew. */
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
