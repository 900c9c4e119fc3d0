/**
 * The modules that the built program loads: none that talk to a server when there is no server.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Project } from "../rig/project.ts";

/** Writes the names of Node's own modules that were loaded to stderr when the program ends. */
const HOOK = `process.on("exit", () => {
  require("fs").writeSync(2, "LOADED" + process.moduleLoadList.join(" ") + "\\n");
});`;

it("loads neither DNS nor TLS, which a client of PostgreSQL needs", async () => {
  const project = new Project();
  const hook = join(project.dir, "hook.cjs");
  writeFileSync(hook, HOOK);
  project.write("one.yaml", "name: one\nsteps:\n  - id: a\n    run: echo hi\n");
  const env = { NODE_OPTIONS: `--require ${hook}` };
  for (const args of [
    ["run", "one.yaml"],
    ["list", "runs"],
  ]) {
    const { exit, stderr } = await project.run(args, { env });
    expect(exit).toBe(0);
    const loaded = (stderr.split("LOADED").at(-1) ?? "").split(/ (?=NativeModule|Internal)/);
    expect(loaded).toContain("NativeModule fs");
    expect(loaded).not.toContain("NativeModule dns");
    expect(loaded).not.toContain("NativeModule tls");
  }
});
