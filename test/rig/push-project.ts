/**
 * A project with a step that pushes to a bare repository beside it: an effect on the outside that can
 * be counted, and that happens again each time that the step runs.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync } from "node:fs";
import { type Hold, PlainProject, type Program } from "./project.ts";

/** Where the step waits, the first time that it runs. */
export type Moment = "before-push" | "in-push" | "after-push";

export const MOMENTS: readonly Moment[] = ["after-push", "in-push", "before-push"];

const PUSH = ["-c user.name=ann", "-c user.email=ann@example.com"].join(" ");

export class PushProject extends PlainProject {
  readonly remote: string;
  #rounds = 0;

  constructor() {
    super();
    this.remote = this.path("remote.git");
    execFileSync("git", ["init", "-q", "--bare", this.remote]);
  }

  /** Shell text of a probe: the tag with the visit's key is there or not. */
  get probe(): string {
    return `found=$(git ls-remote '${this.remote}' "refs/tags/$PERDURE_IDEMPOTENCY_KEY") || exit 2
test -n "$found" || exit 1
echo looking
echo "tag $PERDURE_IDEMPOTENCY_KEY"`;
  }

  /**
   * Shell text that pushes one commit more to the branch `log`, and a tag with the visit's key. Done
   * again, it pushes the commit alone, since the tag is there: nothing hides a second effect.
   */
  push(moment: Moment, hold: Hold): string {
    const round = ++this.#rounds;
    const mark = this.path(`held-${round}`);
    const wait = `if [ ! -e '${mark}' ]; then : > '${mark}'; ${hold.command}; fi`;
    const hook = this.path("remote.git", "hooks", "post-receive");
    this.write(
      "remote.git/hooks/post-receive",
      `#!/bin/sh\n${moment === "in-push" ? wait : ":"}\n`,
    );
    chmodSync(hook, 0o755);
    const work = this.path(`work-${round}`);
    return `rm -rf '${work}' && git init -q '${work}' && cd '${work}'
git remote add origin '${this.remote}'
if git fetch -q origin log 2>/dev/null; then git reset -q --hard FETCH_HEAD; fi
git ${PUSH} commit -q --allow-empty -m "$PERDURE_IDEMPOTENCY_KEY"
${moment === "before-push" ? wait : ":"}
git push -q --atomic origin HEAD:refs/heads/log "HEAD:refs/tags/$PERDURE_IDEMPOTENCY_KEY" || git push -q origin HEAD:refs/heads/log
${moment === "after-push" ? wait : ":"}`;
  }

  /** The key of every push that reached the repository, oldest first. */
  pushes(): readonly string[] {
    if (!existsSync(this.path("remote.git", "refs", "heads", "log"))) return [];
    const args = ["-C", this.remote, "log", "--reverse", "--format=%s", "log"];
    return execFileSync("git", args, { encoding: "utf8" }).trimEnd().split("\n");
  }

  /** Kills the runner and everything that its steps started. */
  async killAll(runner: Program): Promise<void> {
    await runner.kill("SIGKILL");
    await this.killSteps();
  }
}

/** Shell text as the value of a YAML key, at this depth. */
export function block(text: string, depth: number): string {
  return `|\n${text.replace(/^/gm, " ".repeat(depth))}`;
}
