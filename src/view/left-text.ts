/** What an attempt left running, in words. */
import type { LeftRunning } from "../core/event.ts";
import { cutText, plainText, shortList } from "./display-text.ts";

const NAMES_MAX = 3;
const COMMAND_WIDTH_MAX = 60;

/** "what it left running was ended: sleep 600 (process 4711)"; undefined when that was nothing. */
export function leftText(left: readonly LeftRunning[] = []): string | undefined {
  if (left.length === 0) return undefined;
  const names = left.map(({ pid, command, survived }) => {
    const alive = survived === true ? ", which did not die" : "";
    return `${cutText(plainText(command), COMMAND_WIDTH_MAX)} (process ${pid}${alive})`;
  });
  return `what it left running was ended: ${shortList(names, NAMES_MAX)}`;
}
