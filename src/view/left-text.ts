/** What an attempt left running, in words. */
import type { LeftRunning } from "../core/event.ts";
import { cutText, plainText, shortList } from "./display-text.ts";

const NAMES_MAX = 3;
const COMMAND_WIDTH_MAX = 60;

/** "it left processes running, which were ended: sleep 600 (process 4711)"; undefined for none. */
export function leftText(left: readonly LeftRunning[] = []): string | undefined {
  if (left.length === 0) return undefined;
  const names = left.map(({ pid, command, survived }) => {
    const alive = survived === true ? ", which did not die" : "";
    return `${cutText(plainText(command), COMMAND_WIDTH_MAX)} (process ${pid}${alive})`;
  });
  const what =
    left.length === 1
      ? "it left a process running, which was ended"
      : "it left processes running, which were ended";
  return `${what}: ${shortList(names, NAMES_MAX)}`;
}
