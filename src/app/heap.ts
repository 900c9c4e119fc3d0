/** How V8 keeps the memory of a long run small. */
import { setFlagsFromString } from "node:v8";

/** What every run needs of Node beside what each start of the program loads. */
const NEEDED_BY_RUNS = ["node:child_process", "node:crypto", "node:fs/promises"];

/**
 * Keeps the heap of this process small: a young generation that does not grow (70 MB less once a large
 * pipeline has been read), and a collection of garbage when the heap has grown by a fifth, not when it
 * has doubled. V8 discards its cached code of Node's own modules when flags change, so what a run needs
 * is loaded before, and commands that only look at runs do not call this.
 */
export function keepHeapSmall(): void {
  for (const name of NEEDED_BY_RUNS) process.getBuiltinModule(name);
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--heap-growing-percent=20");
}
