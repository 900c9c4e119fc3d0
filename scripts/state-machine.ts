/** Writes docs/STATE_MACHINE.md from the transition tables. */
import { writeFileSync } from "node:fs";
import { stateMachineText } from "../src/view/state-machine.ts";

writeFileSync(new URL("../docs/STATE_MACHINE.md", import.meta.url), stateMachineText());
