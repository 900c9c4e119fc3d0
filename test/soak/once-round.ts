/**
 * One round of "a push that is killed before its receipt happens once", in a project of its own.
 */
import { block, MOMENTS, PushProject } from "../rig/push-project.ts";

/**
 * Starts a push, kills it and its runner at a moment, resumes; gives the promises that it broke.
 */
export async function onceRound(round: number): Promise<readonly string[]> {
  const project = new PushProject();
  try {
    return await play(project, round);
  } finally {
    await project.remove();
  }
}

async function play(project: PushProject, round: number): Promise<readonly string[]> {
  const moment = MOMENTS[round % MOMENTS.length] ?? "after-push";
  const hold = project.hold("push");
  const seen = `echo "$PERDURE_IDEMPOTENCY_KEY" >> '${project.path("effects")}'`;
  project.write(
    "p.yaml",
    `steps:
  - id: push
    once:
      probe: ${block(project.probe, 8)}
    run: ${block(`${seen}\n${project.push(moment, hold)}`, 6)}
  - id: ship
    run: ${project.effect("ship")}
`,
  );
  const runner = project.start(["run", "p.yaml"]);
  await hold.arrived();
  const again = moment === "before-push";
  const broken: string[] = [];
  const expects = (what: string, holds: boolean): void => {
    if (!holds) broken.push(`round ${round}, ${moment}: ${what}`);
  };
  expects("the push is where it is thought to be", project.pushes().length === (again ? 0 : 1));
  await project.killAll(runner);
  const resumed = await project.run(["resume"]);
  expects(`resume completes:\n${resumed.stdout}${resumed.stderr}`, resumed.exit === 0);
  const [key = "", ...others] = project.pushes();
  expects(`one push, not ${1 + others.length}`, key !== "" && others.length === 0);
  const { ship, ...starts } = project.effects();
  expects(`ship ran ${ship} times`, ship === 1);
  expects(`one key for all attempts: ${JSON.stringify(starts)}`, starts[key] === (again ? 2 : 1));
  const id = key.split("/")[0] ?? "";
  const receipt = JSON.parse(
    project.read(".perdure", "runs", id, "receipts", "push-shell.json"),
  ) as Record<string, unknown>;
  const named = again || receipt.identity === `tag ${key}`;
  expects(`the receipt names the effect: ${JSON.stringify(receipt)}`, named);
  expects("the receipt names who settled it", again === (receipt.settled_by === undefined));
  return broken;
}
