/**
 * The dashboard in a real browser with much to show: 10,000 runs, a run of 5,000 steps, a fan-out of
 * 2,000 items, an output of 200 MB. Floor of each line: the same page of a project with one of
 * everything, from a server of its own, alternately in the same browser.
 *
 * - Until the rows are there: from the request for the page to the first row that can be clicked.
 * - Live: from the commit of an event to its number on the page.
 * - Frames: the 95th percentile of the frame times while a list scrolls.
 * - Memory of the server after 30 visits to each page. Floor: after 10.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestBrowser, type TestPage } from "../test/rig/browser.ts";
import { Dashboard } from "../test/rig/dashboard.ts";
import { Project } from "../test/rig/project.ts";
import { compare, inDirectory, type Line, median, PROGRAM, run, timeLine } from "./measure.ts";
import { createRuns, NoopRun } from "./noop-run.ts";
import { frozenPlan, type Shape } from "./plans.ts";

const ROUNDS = 5;
const MEMORY_ROUNDS = 10;
const MEGABYTE = 1_000_000;
const OUTPUT_MEGABYTES = 200;
const LIVE_STEPS = 15;
/** How many frames a list scrolls, and how far in each of them. */
const FRAMES = 120;
const FRAME_PIXELS = 120;

/** The size of a project. */
interface Size {
  readonly runs: number;
  readonly steps: number;
  readonly items: number;
  readonly outputBytes: number;
}

const LARGE: Size = {
  runs: 10_000,
  steps: 5_000,
  items: 2_000,
  outputBytes: OUTPUT_MEGABYTES * MEGABYTE,
};
const SMALL: Size = { runs: 1, steps: LIVE_STEPS * 2, items: 2, outputBytes: 1_000 };

/** A page, and the selector of an element that is there when the page can be used. */
interface View {
  readonly path: string;
  readonly ready: string;
}

/** A project with its server and a page of a browser. */
interface Site {
  readonly dashboard: Dashboard;
  readonly page: TestPage;
  readonly views: Readonly<Record<"runs" | "steps" | "items" | "output", View>>;
  /** The run that is still being driven. */
  readonly live: NoopRun;
  readonly steps: number;
}

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    const browser = await TestBrowser.launch();
    const [large, small] = [
      await open(browser, directory, LARGE),
      await open(browser, directory, SMALL),
    ];
    try {
      const before = serverBytes(large);
      const lines = [
        ...(await paintLines(large, small)),
        ...(await frameLines(large, small)),
        await liveLine(large, small),
      ];
      await openAll(large, MEMORY_ROUNDS);
      const warm = serverBytes(large);
      await openAll(large, 2 * MEMORY_ROUNDS);
      return [...lines, memoryLine(before, warm, serverBytes(large))];
    } finally {
      for (const site of [large, small]) {
        // The page opens a stream again that breaks when its server is busy.
        site.page.expectProblem(/./);
        await site.live.close();
        await site.page.close();
        await site.dashboard.end();
      }
      await browser.close();
    }
  });
}

/** Opens every page this many times. */
async function openAll(site: Site, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const view of Object.values(site.views)) await shown(site, view);
  }
}

async function open(browser: TestBrowser, directory: string, size: Size): Promise<Site> {
  const dir = join(directory, `runs-${size.runs}`);
  mkdirSync(dir);
  await createRuns(dir, size.runs);
  const items = await finished(dir, size.items, "items");
  const output = outputRun(dir, size.outputBytes);
  const { live, id } = await almostFinished(dir, size.steps);
  const dashboard = await Dashboard.start(new Project(dir));
  const page = await browser.page();
  await page.page.goto(dashboard.address.href);
  const row = ".step-list [data-step]";
  const views = {
    runs: { path: "/", ready: ".run-rows .run-row" },
    steps: { path: `/runs/${id}`, ready: row },
    items: { path: `/runs/${items}`, ready: row },
    output: { path: `/runs/${output}/steps/print?tab=output`, ready: ".output-line" },
  };
  return { dashboard, page, views, live, steps: size.steps };
}

async function finished(dir: string, steps: number, shape: Shape): Promise<string> {
  const { plan, planText } = frozenPlan(steps, shape);
  const opened = await NoopRun.open(dir, plan, planText);
  await opened.finish();
  await opened.close();
  return opened.runId;
}

/** A run with some sequential steps left. */
async function almostFinished(dir: string, steps: number): Promise<{ live: NoopRun; id: string }> {
  const { plan, planText } = frozenPlan(steps, "sequence");
  const live = await NoopRun.open(dir, plan, planText);
  for (let done = 0; done < steps - LIVE_STEPS - 1; done++) await live.step();
  return { live, id: live.runId };
}

/** A run of the real program with a step that prints this much. */
function outputRun(dir: string, bytes: number): string {
  const print = `yes "a line of output that is as long as lines often are" | head -c ${bytes}`;
  const text = `workspace: { snapshots: false }\nsteps:\n  - { id: print, run: '${print}' }\n`;
  writeFileSync(join(dir, "print.yaml"), text);
  run([PROGRAM, "run", "print.yaml", "--quiet"], dir);
  const listed = run([PROGRAM, "list", "runs", "--output", "json"], dir);
  const [newest] = JSON.parse(listed) as readonly { pipeline_id: string }[];
  return newest?.pipeline_id ?? "";
}

/** Opens a page; returns the time until it can be used. */
async function shown({ dashboard, page }: Site, { path, ready }: View): Promise<number> {
  const start = performance.now();
  await page.page.goto(dashboard.url(path));
  await page.page.locator(ready).first().waitFor();
  return performance.now() - start;
}

/** The time of the first paint of the current page. */
async function firstPaint({ page }: Site): Promise<number> {
  return page.page.evaluate<number>(
    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN",
  );
}

async function paintLines(large: Site, small: Site): Promise<readonly Line[]> {
  const lines: Line[] = [];
  const words = {
    runs: "10,000 runs",
    steps: "a run of 5,000 steps",
    items: "a fan-out of 2,000 items",
    output: `an output of ${OUTPUT_MEGABYTES} MB`,
  } as const;
  for (const name of ["runs", "steps", "items", "output"] as const) {
    const paints = { large: [] as number[], small: [] as number[] };
    const measure = async (site: Site, into: number[]): Promise<number> => {
      const time = await shown(site, site.views[name]);
      into.push(await firstPaint(site));
      return time;
    };
    const compared = await compare(ROUNDS, {
      floor: () => measure(small, paints.small),
      subject: () => measure(large, paints.large),
    });
    const [floorMs, subjectMs] = [median(paints.small), median(paints.large)];
    const paint = { floorMs, subjectMs, ratio: subjectMs / floorMs };
    lines.push(timeLine(`dashboard, first paint: ${words[name]}`, "a small one", paint, 2));
    lines.push(timeLine(`the same, until the rows are there`, "a small one", compared, 4));
  }
  return lines;
}

/** The 95th percentile of the frame times while a list scrolls, in milliseconds. */
async function slowFrame({ page }: Site, scroller: string): Promise<number> {
  return page.page.evaluate<number>(`(async () => {
    const box = document.querySelector('${scroller}') ?? document.scrollingElement;
    const times = [];
    let before = await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < ${FRAMES}; frame++) {
      box.scrollBy(0, ${FRAME_PIXELS});
      const now = await new Promise(requestAnimationFrame);
      times.push(now - before);
      before = now;
    }
    return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
  })()`);
}

async function frameLines(large: Site, small: Site): Promise<readonly Line[]> {
  const scrollers = {
    runs: ["10,000 runs", "html"],
    steps: ["5,000 steps", ".step-list ul"],
    output: [`${OUTPUT_MEGABYTES} MB of output`, ".output-box"],
  } as const;
  const lines: Line[] = [];
  for (const [name, [words, scroller]] of Object.entries(scrollers)) {
    const measure = async (site: Site): Promise<number> => {
      await shown(site, site.views[name as keyof typeof scrollers]);
      return slowFrame(site, scroller);
    };
    const compared = await compare(ROUNDS, {
      floor: () => measure(small),
      subject: () => measure(large),
    });
    lines.push(timeLine(`dashboard, a frame of scrolling: ${words}`, "a small one", compared, 2));
  }
  return lines;
}

/** How long it takes until the page shows that a step is done. */
async function liveMs(site: Site, done: number): Promise<number> {
  await site.live.step();
  const start = performance.now();
  const text = new RegExp(`\\b${done} of ${site.steps}\\b`);
  await site.page.page.getByText(text).first().waitFor();
  return performance.now() - start;
}

async function liveLine(large: Site, small: Site): Promise<Line> {
  for (const site of [large, small]) await shown(site, site.views.steps);
  const done = { large: large.steps - LIVE_STEPS - 1, small: small.steps - LIVE_STEPS - 1 };
  const compared = await compare(LIVE_STEPS - 1, {
    floor: () => liveMs(small, ++done.small),
    subject: () => liveMs(large, ++done.large),
  });
  return timeLine(
    "dashboard, live: from a commit to the page of 5,000 steps",
    "30 steps",
    compared,
    2,
  );
}

function serverBytes({ dashboard }: Site): number {
  const text = readFileSync(`/proc/${dashboard.program.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1] ?? Number.NaN) * 1024;
}

function memoryLine(before: number, warm: number, often: number): Line {
  const shownBytes = (bytes: number): string => `${Math.round(bytes / MEGABYTE)} MB`;
  return {
    what: `dashboard, memory of the server after ${3 * MEMORY_ROUNDS} visits to each of these pages`,
    floor: `after ${MEMORY_ROUNDS}: ${shownBytes(warm)} (at its start ${shownBytes(before)})`,
    measured: shownBytes(often),
    ratio: often / warm,
    limit: 1.2,
  };
}
