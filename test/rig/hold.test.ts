import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Hold } from "./project.ts";

function waitingAt(hold: Hold): ChildProcess {
  const step = spawn("/bin/sh", ["-ec", hold.command]);
  onTestFinished(() => void step.kill("SIGKILL"));
  return step;
}

it("a hold releases the living step, not one that is still being killed", async () => {
  const dir = mkdtempSync(join(tmpdir(), "perdure-hold-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const hold = new Hold(join(dir, "hold"));
  const dying = waitingAt(hold);
  await hold.arrived();
  // Like a step that was killed: it has the FIFO open, and will never read from it.
  dying.kill("SIGSTOP");
  let released = false;
  const release = hold.release().then(() => {
    released = true;
  });
  dying.kill("SIGKILL");
  await once(dying, "exit");
  expect(released).toBe(false);
  const [exit] = (await once(waitingAt(hold), "exit")) as [number];
  expect(exit).toBe(0);
  await release;
});
