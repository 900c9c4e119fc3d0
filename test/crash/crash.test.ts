/**
 * The real program is killed with SIGKILL at the failpoints of every pipeline, resumed, and held
 * against an uninterrupted run: same effects, same journal, same files, same end. Each is killed where
 * it first passes a failpoint that no pipeline before it has, and at one of so many passings;
 * PERDURE_CRASH_ALL=1 strikes all.
 *
 * The last test looks at where the others killed, so it only holds when the whole file is run.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../../src/util/random.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import type { KillPlace } from "../rig/kill-walk.ts";
import { WALK_MS } from "../rig/patience.ts";
import {
  type Baseline,
  baselineOf,
  killAgainAndAgain,
  killAt,
  killedAt,
  killRepairOfSecondCopy,
  killResumesAt,
} from "./crash-walk.ts";
import { type CrashPipeline, PIPELINES, RETRYING, SEQUENTIAL } from "./pipelines.ts";

/**
 * A resume passes about so many until it has started a process: lease, opening, the loss of the
 * attempt before, the next one. Killed earlier again and again, it could never move on.
 */
const RESUME_FAILPOINTS_MIN = 26;
/** How many resumes of a run are killed at random, after its first owner; the other walks kill more. */
const RESUMES = 1;

const baselines = new Map<CrashPipeline, Promise<Baseline>>();

function baseline(pipeline: CrashPipeline): Promise<Baseline> {
  const known = baselines.get(pipeline) ?? baselineOf(pipeline);
  baselines.set(pipeline, known);
  return known;
}

/** Before this failpoint all pipelines are alike: there is no run yet. */
function firstOfRun({ failpoints }: Baseline): number {
  return failpoints.indexOf("journal.create.after") + 1;
}

/** One of so many passings is a place to kill a run, beside the first of each new kind. */
const STRIDE = 97;
const SHORT_STRIDE = 17;

/** Where a pipeline is killed. */
async function placesOf(pipeline: CrashPipeline, whole: Baseline): Promise<readonly KillPlace[]> {
  const isFirstOne = pipeline === SEQUENTIAL;
  const first = isFirstOne ? 1 : firstOfRun(whole);
  const stride = isFirstOne ? SHORT_STRIDE : STRIDE;
  const before = await Promise.all(PIPELINES.slice(0, PIPELINES.indexOf(pipeline)).map(baseline));
  const known = new Set(before.flatMap(({ failpoints }) => failpoints));
  const { failpoints } = whole;
  return failpoints.flatMap((name, index) => {
    const nth = index + 1;
    const isFirst = failpoints.indexOf(name) === index && !known.has(name);
    const isPlace = CRASH_ALL || isFirst || index % stride === 0;
    return nth >= first && isPlace ? [{ name, nth }] : [];
  });
}

describe.each(PIPELINES)("$name", (pipeline) => {
  it(
    "has the same effects when it is killed at any failpoint and resumed",
    async () => {
      const whole = await baseline(pipeline);
      await killAt(pipeline, whole, await placesOf(pipeline, whole));
    },
    WALK_MS,
  );

  it(
    "has the same effects when its resumes are killed as well",
    async () => {
      const whole = await baseline(pipeline);
      const random = seededRandom(PIPELINES.indexOf(pipeline));
      const first = firstOfRun(whole);
      const nth = first + random.below(whole.failpoints.length - first + 1);
      const later = Array.from({ length: RESUMES }, () => 1 + random.below(RESUME_FAILPOINTS_MIN));
      await killResumesAt(pipeline, whole, [nth, ...later]);
    },
    WALK_MS,
  );
});

it(
  "a run completes although every resume is killed",
  async () => {
    const whole = await baseline(RETRYING);
    for (const nth of [RESUME_FAILPOINTS_MIN, RESUME_FAILPOINTS_MIN + 7]) {
      await killAgainAndAgain(RETRYING, whole, nth);
    }
  },
  WALK_MS,
);

it(
  "a run has the same effects when a resume is killed while it rewrites the second copy",
  async () => {
    const whole = await baseline(SEQUENTIAL);
    await killRepairOfSecondCopy(SEQUENTIAL, whole, whole.failpoints.lastIndexOf("engine.launch"));
  },
  WALK_MS,
);

/** Failpoints that `run` and `resume` do not pass, and why. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "journal.request": "`perdure stop` writes requests",
  "journal.rebuild": "summary rows are rebuilt by a repair",
  "journal.clean": "`perdure clean` notes what it removed",
  "journal.receive": "`perdure import` stores a whole run; cli/portable.test.ts kills it there",
  "journal.unowned": "`perdure clean` removes artifacts; cli/clean.test.ts kills it there",
  answer: "`perdure answer`; cli/gate.test.ts kills it there",
  import: "`perdure import`; cli/portable.test.ts kills it there",
  export: "`perdure export`; cli/portable.test.ts kills it there",
  clean: "`perdure clean`; cli/clean.test.ts kills it there",
  workspace: "pipelines whose files are kept; workspace.test.ts kills them there",
  fork: "`perdure fork`; test/rewind/crash.test.ts kills it there",
  "attractor-logs": "`run --logs`; dot.test.ts kills it there",
  "stage-status": "stages that write status.json; test/dot/status.test.ts kills them there",
  probe: "steps that must not happen twice; test/cli/once.test.ts kills it there",
  update: "`resume --update`; update.test.ts kills it there",
  take: "`perdure merge`, `apply` and `pr`; test/cli/take.test.ts kills them there",
  request: "commands that ask a living owner; test/cli/requests.test.ts kills them there",
  say: "`perdure say`; test/cli/say.test.ts kills it there",
  "journal.commit": "runs in PostgreSQL; test/journal/postgres-losses.test.ts loses them there",
  service: "schedules; test/cli/service.test.ts kills the service there",
  blobs: "runs of a fleet; test/fleet/crash.test.ts kills them there",
  ship: "runs of a fleet; test/fleet/crash.test.ts kills them there",
  fetch: "runs of a fleet; test/fleet/crash.test.ts kills them there",
  repository: "runs of a fleet; test/fleet/crash.test.ts kills them there",
  push: "`perdure push`; test/fleet/anywhere.test.ts kills it there",
  pull: "`perdure pull`; test/fleet/anywhere.test.ts kills it there",
  copies: "`perdure clean` on a fleet; test/fleet/commands.test.ts kills it there",
  reuse: "steps with `cache`; test/cli/cache.test.ts kills them there",
  repair: "`perdure doctor --repair`; test/journal/repair.test.ts kills it there",
};

it("the walks kill at every failpoint that run and resume can pass", () => {
  const expected = failpointsOfSources().filter(
    (name) => !Object.keys(ELSEWHERE).some((prefix) => name.startsWith(`${prefix}.`)),
  );
  expect([...killedAt].toSorted()).toEqual(expected.toSorted());
});

/** All names of failpoints in the sources: literal ones, and those of the journal's writes. */
function failpointsOfSources(): readonly string[] {
  const names = new Set<string>();
  const root = resolve(import.meta.dirname, "../../src");
  for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts")) continue;
    const text = readFileSync(join(root, file), "utf8");
    for (const [, name = ""] of text.matchAll(/\bfailpoint\("([^"]+)"\)/g)) names.add(name);
    for (const [, name = ""] of text.matchAll(/\bdatabase\.write\("([^"]+)"/g)) {
      for (const place of ["before", "inside", "after"]) names.add(`journal.${name}.${place}`);
    }
    const templates = [...text.matchAll(/\bfailpoint\(`([^`]+)`\)/g)].map(([, name]) => name);
    const known = ["before", "inside", "after"].map((place) => `journal.\${name}.${place}`);
    expect(known, `names of failpoints that cannot be read from ${file}`).toEqual(
      expect.arrayContaining(templates),
    );
  }
  return [...names];
}
