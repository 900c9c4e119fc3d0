/**
 * A process of its own that works on a workspace, for the tests that kill it.
 * Arguments: <what> <project> [...]. It prints what it made as its last line.
 */
import { workOn } from "./workspace-work.ts";

console.log(await workOn(...process.argv.slice(2)));
