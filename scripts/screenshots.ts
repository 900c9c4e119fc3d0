/**
 * `npm run screenshots`: makes docs/images, a picture of every page of the dashboard in light, in dark
 * and on a phone, with real runs in a scratch project, the real server and a real browser.
 *
 *   node scripts/screenshots.ts [NAME...]     all pages, or some
 */
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { type PageOptions, TestBrowser } from "../test/rig/browser.ts";
import { Dashboard } from "../test/rig/dashboard.ts";
import { Showcase, type ShowcaseRuns } from "../test/rig/showcase.ts";

const DIRECTORY = resolve(import.meta.dirname, "../docs/images");
const BYTES_MAX = 3_000_000;

const LOOKS: Readonly<Record<string, PageOptions>> = {
  light: { colors: "light" },
  dark: { colors: "dark" },
  phone: { size: "phone" },
};

/** The runs to show, and the id of the project on the server. */
interface Shown extends ShowcaseRuns {
  readonly project: string;
}

/** The address of each page. */
const PAGES: Readonly<Record<string, (shown: Shown) => string>> = {
  runs: () => "/",
  inbox: () => "/inbox",
  start: ({ project }) => `/start/${project}/pipelines/feature.yaml`,
  run: ({ completed }) => `/runs/${completed}`,
  step: ({ completed }) => `/runs/${completed}/steps/implement`,
  time: ({ completed }) => `/runs/${completed}/time`,
  compare: ({ completed, waiting }) => `/compare?left=${completed}&right=${waiting}`,
  report: ({ completed }) => `/runs/${completed}/report`,
  cost: () => "/cost",
};

/** Other states of these pages, only in light. */
const STATES: Readonly<Record<string, (shown: Shown) => string>> = {
  "run-waterfall": ({ completed }) => `/runs/${completed}?tab=waterfall`,
  "run-files": ({ completed }) => `/runs/${completed}?tab=files`,
  "run-failed": ({ failed }) => `/runs/${failed}`,
  "run-items": ({ items }) => `/runs/${items}`,
  "run-running": ({ running }) => `/runs/${running}`,
  "run-interrupted": ({ interrupted }) => `/runs/${interrupted}`,
  "step-output": ({ failed }) => `/runs/${failed}/steps/test?tab=output`,
};

/** How long to wait until the streams have shown everything. */
const QUIET_MS = 700;

async function main(wanted: readonly string[]): Promise<void> {
  const showcase = new Showcase();
  const browser = await TestBrowser.launch();
  try {
    const runs = await showcase.makeRuns();
    const dashboard = await Dashboard.start(showcase.project, showcase.options);
    const shown = { ...runs, project: await projectOf(dashboard) };
    for (const [look, options] of Object.entries(LOOKS)) {
      const page = await browser.page(options);
      await page.page.goto(dashboard.address.href);
      const pages = look === "light" ? { ...PAGES, ...STATES } : PAGES;
      for (const [name, addressOf] of Object.entries(pages)) {
        if (wanted.length > 0 && !wanted.includes(name)) continue;
        await page.page.goto(dashboard.url(addressOf(shown)));
        await page.page.locator("main h1").first().waitFor();
        await page.page.locator(".loading").first().waitFor({ state: "detached" });
        await page.page.waitForTimeout(QUIET_MS);
        await page.screenshot(join(DIRECTORY, `${name}-${look}.png`));
      }
      await page.close();
    }
  } finally {
    await browser.close();
    await showcase.remove();
  }
  const bytes = fs
    .readdirSync(DIRECTORY)
    .map((name) => fs.statSync(join(DIRECTORY, name)).size)
    .reduce((sum, size) => sum + size, 0);
  console.log(`${DIRECTORY}: ${Math.round(bytes / 1_000)} KB`);
  if (bytes > BYTES_MAX) throw new Error(`more than ${BYTES_MAX / 1_000_000} MB of pictures`);
}

async function projectOf(dashboard: Dashboard): Promise<string> {
  const answer = await dashboard.fetch("/api/projects");
  const { projects } = (await answer.json()) as { projects: readonly { project: string }[] };
  return encodeURIComponent(projects[0]?.project ?? "");
}

await main(process.argv.slice(2));
