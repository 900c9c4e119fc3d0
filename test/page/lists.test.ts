/** The pages beside that of a run: runs, inbox, start, cost, compare. A real browser uses them. */
import * as fs from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { violations } from "../rig/accessibility.ts";
import { LAUNCH_MS_MAX, TestBrowser, type TestPage } from "../rig/browser.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { DashboardRuns } from "../rig/dashboard-runs.ts";
import { eventually } from "../rig/project.ts";

let browser: TestBrowser;
let runs: DashboardRuns;
let dashboard: Dashboard;
let opened: TestPage;
let page: Page;

beforeAll(async () => {
  runs = new DashboardRuns();
  [browser] = await Promise.all([
    TestBrowser.launch(),
    runs.make(
      "uncertain",
      "completed",
      "earlier",
      "failed",
      "waiting",
      "asked",
      "agents",
      "running",
    ),
  ]);
  dashboard = await Dashboard.start(runs.stands.world, runs.stands.options());
}, LAUNCH_MS_MAX);
beforeEach(async () => {
  opened = await browser.page();
  page = opened.page;
  await page.goto(dashboard.address.href);
});
afterEach(() => opened.close());
afterAll(async () => {
  await browser.close();
  await dashboard.end();
  await runs.remove();
});

const row = (name: string) => page.getByRole("row").filter({ hasText: name });

/** What `published.txt` of the project holds: a line for each time that it was published. */
function published(): string {
  const file = join(runs.stands.dir, "published.txt");
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
}

/** Holds back the replies to requests at this address until the result is called. */
async function holdReplies(address: string): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route(address, async (route) => {
    const response = await route.fetch();
    await promise;
    await route.fulfill({ response });
  });
  return resolve;
}

/** Writes down what has the focus at the moment when a card has just gone away; gives its label. */
async function focusAtRemoval(): Promise<() => Promise<string>> {
  await page.evaluate(`
    new MutationObserver((changes) => {
      if (changes.every(({ removedNodes }) => removedNodes.length === 0)) return;
      window.focusAtRemoval ??= document.activeElement.getAttribute("aria-label");
    }).observe(document.querySelector(".inbox-cards"), { childList: true });
  `);
  return async () => String(await page.evaluate("window.focusAtRemoval"));
}

test("every page is free of what axe-core finds, light, dark and on a phone", async () => {
  const compare = `/compare?left=${runs.id("earlier")}&right=${runs.id("completed")}`;
  const pages: Readonly<Record<string, string>> = {
    "/": "watch",
    "/?status=queued": "No run matches",
    "/inbox": "Release 4.2 to everybody?",
    "/start": "Builds and tests",
    "/cost": "By model",
    [compare]: "differ",
  };
  const found: string[] = [];
  for (const [path, words] of Object.entries(pages)) {
    await page.goto(dashboard.url(path));
    for (const colors of ["light", "dark"] as const) {
      await opened.look({ colors, size: colors === "dark" ? "phone" : "desktop" });
      await page.getByText(words).filter({ visible: true }).first().waitFor();
      for (const one of await violations(page)) found.push(`${colors} ${path}: ${one}`);
      const isWide = "document.documentElement.scrollWidth > innerWidth";
      if (await page.evaluate(isWide)) found.push(`${colors} ${path}: it scrolls sideways`);
    }
  }
  expect(found).toEqual([]);
});

test("the list of runs is filtered by its address, and keys move in it", async () => {
  await row("watch").getByText("running").waitFor();
  await expect.poll(() => page.getByRole("row").count()).toBe(9);
  await page.getByRole("button", { name: /^failed 2/ }).click();
  await page.getByRole("button", { name: /^waiting 2/ }).click();
  expect(new URL(page.url()).searchParams.get("status")).toBe("failed,waiting");
  await row("build").waitFor({ state: "detached" });
  await expect.poll(() => page.getByRole("row").count()).toBe(5);
  await page.goBack();
  await row("release").waitFor({ state: "detached" });
  await page.goto(dashboard.url("/?q=4.1"));
  await row(runs.shortId("earlier")).waitFor();
  await expect.poll(() => page.getByRole("row").count()).toBe(2);
  await page.getByRole("searchbox").fill("");
  await row("watch").waitFor();
  expect(new URL(page.url()).search).toBe("");
  await page.getByRole("searchbox").press("Escape");
  for (const key of ["j", "j", "k", "j"]) await page.keyboard.press(key);
  const second = await page.locator("tbody tr[aria-rowindex='3'] a").getAttribute("href");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**${second}`);
});

test("the list is live: a run that ends and a run that begins", async () => {
  await row("watch").getByText("running").waitFor();
  await runs.release();
  await row("watch").getByText("completed").waitFor();
  await row("watch").getByRole("img", { name: "3 of 3 steps completed" }).waitFor();
  await runs.stands.perdure("run", "build", "--input", "version=5");
  await page.getByRole("button", { name: /^All 9/ }).waitFor();
  await expect.poll(() => page.getByRole("row").count()).toBe(10);
  await expect.poll(() => page.getByRole("row").nth(1).textContent()).toContain("build");
});

test("two runs are chosen and compared", async () => {
  for (const name of ["earlier", "completed"] as const) {
    await page.getByRole("checkbox", { name: `Compare build ${runs.shortId(name)}` }).check();
  }
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("heading", { name: "Compare two runs" }).waitFor();
  await page.getByText("only in the second run").waitFor();
  await expect.poll(() => page.getByText("only the 1 of 5 that differ").isVisible()).toBe(true);
  await page.getByRole("button", { name: "Swap" }).click();
  await page.getByText("only in the first run").waitFor();
});

test("questions are answered one after another, and their runs continue by themselves", async () => {
  await page.getByRole("link", { name: "Inbox 3 open" }).click();
  const cards = page.getByRole("article");
  await cards.first().waitFor();
  await expect.poll(() => cards.count()).toBe(3);
  const release = page.getByRole("article", { name: /Release 4.2/ });
  await release.getByText("<b>markup</b> is only text.").waitFor();
  await expect.poll(() => release.getByText("then “reject” counts").isVisible()).toBe(true);

  const plan = page.getByRole("article", { name: /Which part/ });
  await plan.getByRole("button", { name: "page" }).click();
  await plan.getByText("This question needs a text.").waitFor();
  await plan.getByRole("textbox").fill("because <i>it</i> shows");
  // The list is told that the question is closed before its answer has a reply.
  const reply = await holdReplies("**/answer");
  const focus = await focusAtRemoval();
  await plan.getByRole("button", { name: "page" }).click();
  await plan.waitFor({ state: "detached" });
  expect(await focus()).toMatch(/Release 4.2/);
  reply();
  await page.getByText("Answered now").waitFor();
  // The next card has the focus: its key answers it.
  await page.keyboard.press("A");
  await release.waitFor({ state: "detached" });
  await eventually("the release is published", () => published() !== "");
  await page
    .getByRole("article", { name: /did push happen/ })
    .getByLabel("What happened")
    .fill("r7");
  await page.getByRole("button", { name: "It happened" }).click();
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  await page.goto(dashboard.url("/?status=completed"));
  for (const name of ["deploy", "plan", "release"]) await row(name).waitFor();
  expect(published()).toBe("published\n");
});

test("a form made from the schema starts a run; a refusal stands beside its field", async () => {
  await page.goto(dashboard.url("/start"));
  await page.getByRole("link", { name: /build.yaml/ }).click();
  const field = (name: string) => page.getByRole("textbox", { name });
  const version = field("version");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.getByText("This is required.").waitFor();
  await version.fill("four");
  await field("count").fill("12");
  await field("mail").fill("nobody");
  opened.expectProblem(/response: 4\d\d .*\/api\/runs$/);
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.getByRole("alert").first().waitFor();
  for (const name of ["version", "count", "mail"]) {
    await expect.poll(() => field(name).getAttribute("aria-invalid")).toBe("true");
  }
  expect(await violations(page)).toEqual([]);
  await version.fill("4.3");
  await field("count").fill("3");
  await field("mail").fill("");
  await field("parts").fill("core\npage\ndocs");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  const id = page.url().split("/").at(-1) ?? "";
  const answer = await dashboard.fetch(`/api/runs/${id}`);
  const { overview } = (await answer.json()) as { overview: { input: unknown } };
  expect(overview.input).toMatchObject({
    ...{ version: "4.3", count: 3, level: "quick", parts: ["core", "page", "docs"] },
  });
});

test("costs are shown over time, by pipeline, model and agent", async () => {
  await page.goto(dashboard.url("/cost"));
  await page.getByRole("table").filter({ hasText: "fake-model" }).waitFor();
  expect(
    await page
      .getByRole("row", { name: /^review/ })
      .first()
      .textContent(),
  ).toContain("1 run");
  await page.getByRole("button", { name: "7 days" }).click();
  expect(new URL(page.url()).searchParams.get("since")).toBe("7d");
  await page.getByText("The figures as a table").click();
  const day = new Date().toISOString().slice(0, 10);
  await page.getByRole("row", { name: new RegExp(`^${day}`) }).waitFor();
});
