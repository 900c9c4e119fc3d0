/**
 * One worker process for each worker directory.
 *
 * Owns: the file that names the process.
 * Does not: protect runs; leases do. Two processes with one id would only disturb each other.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Owner } from "../../core/event.ts";
import { errorCode } from "../../runner/file-text.ts";
import { isOwnerAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { advice, Refusal } from "../refusal.ts";

/** How often another process may be faster before this one gives up. */
const ATTEMPTS_MAX = 10;

/** Takes the directory for this process. Refuses while another worker uses it. */
export function lockWorkerDirectory(directory: string): void {
  const file = join(directory, "process.json");
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    try {
      writeFileSync(file, JSON.stringify(thisOwner()), { flag: "wx", mode: 0o600 });
      return;
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
    }
    const other = ownerIn(file);
    if (other !== undefined && isOwnerAlive(other)) {
      const message = `another worker uses ${directory}: ${ownerText(other)}`;
      throw new Refusal(
        "worker-running",
        message,
        advice("end it, or give this one --directory DIR"),
      );
    }
    rmSync(file, { force: true });
  }
  throw new Refusal("worker-running", `other processes want ${directory} too`, advice("try again"));
}

function ownerIn(file: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Owner;
  } catch {
    // Half written, or gone meanwhile.
    return undefined;
  }
}
