/** Follows the stream of a running agent: tells its conversation's id as soon as it is known. */
import { join } from "node:path";
import type { AgentAdapter } from "../runner/agents/adapter.ts";
import { AgentFollower, type AgentReport } from "../runner/agents/report.ts";
import { ATTEMPT_FILE } from "../runner/attempt-folder.ts";
import { type FollowedFile, followLines, lastLine } from "../runner/output.ts";

/** Reads one attempt's stream from its first byte, whoever started it. */
export class AgentWatch {
  readonly #follower: AgentFollower;
  readonly #file: FollowedFile;
  readonly #dir: string;

  constructor(adapter: AgentAdapter, dir: string, onSession: (session: string) => void) {
    this.#dir = dir;
    this.#follower = new AgentFollower(adapter);
    this.#file = followLines(join(dir, ATTEMPT_FILE.output), (line) => {
      for (const event of this.#follower.line(line)) {
        if (event.type === "session") onSession(event.id);
      }
    });
  }

  /** What the whole stream says, once the process has ended. */
  async end(exit: number | undefined): Promise<AgentReport> {
    await this.#file.close();
    return this.#follower.end(exit, lastLine(join(this.#dir, ATTEMPT_FILE.stderr)));
  }
}
