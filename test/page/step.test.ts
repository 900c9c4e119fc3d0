/** The pages of a step, of time travel and of the report, in a real browser on real runs. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violations } from "../rig/accessibility.ts";
import { LAUNCH_MS_MAX, type PageOptions, TestBrowser, type TestPage } from "../rig/browser.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { FakeClaude } from "../rig/fake-claude.ts";
import { shell, stateless, text } from "../rig/model/reply.ts";
import type { Hold } from "../rig/project.ts";

const LINES = 40_000;
/** Agent output is text: this would run, and hide what comes after it. */
const MARKUP = `<img src=x onerror="document.title='owned'">`;
const ESCAPES = "\u001b[2J\u001b]0;owned\u0007";

const pipeline = (project: FakeClaude): string => `
name: work
workspace: directory
steps:
  - id: note
    capture: json
    run: |
      mkdir src; echo one > src/a.txt; ${project.effect("note")}; echo '{"size": 1}'
  - id: flood
    run: |
      echo two > src/a.txt; ${project.effect("flood")}
      i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo "line $i $MARKUP"; done
  - { id: talk, agent: claude, prompt: 'Say $MARKUP.' }
  - id: last
    run: test -e '${project.path("ok")}' && ${project.effect("last")}
`;

let project: FakeClaude;
let dashboard: Dashboard;
let browser: TestBrowser;
let hold: Hold;
let failed: string;

beforeAll(async () => {
  browser = await TestBrowser.launch();
  project = await FakeClaude.open(
    stateless(shell("echo from the tool"), text(`Done. ${MARKUP}${ESCAPES}`)),
  );
  hold = project.hold("live");
  project.write("work.yaml", pipeline(project));
  project.write(
    "live.yaml",
    `steps: [{ id: live, run: "echo first; ${hold.command}; echo second" }]`,
  );
  const env = { ...project.environment, MARKUP };
  expect((await project.begin(["run", "work.yaml"], env).ended).exit).toBe(3);
  failed = await project.newestId();
  dashboard = await Dashboard.start(project, { env });
}, LAUNCH_MS_MAX);

afterAll(async () => {
  await browser?.close();
  await project?.close();
});

/** Opens a page, gives it to the test, and fails if anything went wrong in it. */
async function visit(
  path: string,
  use: (page: Page, opened: TestPage) => Promise<void>,
  options: PageOptions = {},
): Promise<void> {
  const opened = await browser.page(options);
  await dashboard.admit(opened.page);
  await opened.page.goto(dashboard.url(path));
  await opened.page.locator("main h1").waitFor();
  await use(opened.page, opened);
  expect(await opened.page.title()).not.toContain("owned");
  await opened.close();
}

describe("a step", () => {
  test("its conversation has turns and tool calls; what the agent says is text", async () => {
    await visit(`/runs/${failed}/steps/talk`, async (page) => {
      const conversation = page.getByRole("region", { name: "Conversation" });
      await conversation.getByText(`Done. ${MARKUP}`).waitFor();
      expect(await conversation.locator("img").count()).toBe(0);
      await conversation.locator("summary").click();
      await conversation.getByText("from the tool", { exact: true }).waitFor();
      await page.getByRole("tab", { name: "Prompt" }).click();
      await page.getByText(`Say ${MARKUP}.`).or(page.getByText("Say $MARKUP.")).first().waitFor();
    });
  });

  test("a long output starts at its end, and any part of it is loaded when it is wanted", async () => {
    await visit(`/runs/${failed}/steps/flood?tab=output`, async (page) => {
      const lines = page.locator(".output-line");
      const line = (number: number) => lines.filter({ hasText: `line ${number} <img` });
      await line(LINES).waitFor();
      expect(await lines.count()).toBeLessThan(200);
      await page.getByRole("button", { name: "Start" }).click();
      await line(1).waitFor();
      await page.getByLabel("Search in what is loaded").fill("line 1234 ");
      await page.getByText("– of 1").waitFor();
      await page.keyboard.press("Enter");
      await page
        .locator('.output-line[data-chosen="true"]')
        .filter({ hasText: "line 1234 " })
        .waitFor();
      await page.getByRole("slider", { name: "Position in the output" }).fill("1400000");
      await page.keyboard.press("Tab");
      await line(1_400_000 / 50)
        .or(lines.filter({ hasText: /^line 2\d{4} </ }))
        .first()
        .waitFor();
      await page.getByRole("button", { name: "End" }).click();
      await line(LINES).waitFor();
    });
    const path = `/api/runs/${failed}/output/download?attempt=flood@1.1`;
    const whole = await (await dashboard.fetch(path)).text();
    expect(whole.split("\n")).toHaveLength(LINES + 1);
  });

  test("the page follows a step that works, to its end", async () => {
    const program = project.begin(["run", "live.yaml"], project.environment);
    await hold.arrived();
    const id = await project.newestId();
    await visit(`/runs/${id}/steps/live`, async (page) => {
      await page.locator(".output-line", { hasText: "first" }).waitFor();
      await page.locator("h1 + .status", { hasText: "running" }).waitFor();
      await hold.release();
      await page.locator(".output-line", { hasText: "second" }).waitFor();
      await page.locator("h1 + .status", { hasText: "completed" }).waitFor();
      expect((await program.ended).exit).toBe(0);
    });
  });

  test("what it changed, why it ran, and its receipt", async () => {
    await visit(`/runs/${failed}/steps/flood?tab=changes`, async (page) => {
      await page.getByRole("button", { name: "src/a.txt" }).first().waitFor();
      await page.locator(".patch-line", { hasText: "+two" }).waitFor();
      await page.getByRole("tab", { name: "Why" }).click();
      await page.getByText("flood").first().waitFor();
      await page.getByRole("tab", { name: "Receipt" }).click();
      await page.locator(".json").waitFor();
    });
  });
});

describe("time travel", () => {
  test("the run as it was: keys, the address, context, files, and two moments compared", async () => {
    await visit(`/runs/${failed}/time?tab=files`, async (page) => {
      await page.keyboard.press("Home");
      await page.waitForURL(/\/time\/1\?/);
      await page.getByText("There is no snapshot of the files at this moment").waitFor();
      const moment = page.getByRole("list", { name: "Events" }).getByRole("button");
      await moment.filter({ hasText: "note completed" }).click();
      await page.getByRole("button", { name: "a.txt" }).click();
      await page.locator(".file-content pre", { hasText: "one" }).waitFor();
      await page.getByRole("tab", { name: "Context" }).click();
      await page.locator(".context-changes", { hasText: "note" }).waitFor();
      await page.getByRole("button", { name: "Compare from here" }).click();
      await page.getByRole("tab", { name: "Graph" }).focus();
      await moment.filter({ hasText: "flood completed" }).click();
      await page.locator(".patch-line", { hasText: "-one" }).waitFor();
      await page.locator(".patch-line", { hasText: "+two" }).waitFor();
      await page.getByRole("tab", { name: "Steps" }).click();
      const steps = page.getByRole("list", { name: "Steps at this moment" });
      await steps.getByRole("listitem").filter({ hasText: "lastpending" }).waitFor();
    });
  });

  test("a fork from a moment starts there; what was done before it is not done again", async () => {
    const before = project.effects();
    await visit(`/runs/${failed}/time`, async (page) => {
      const moment = page.getByRole("list", { name: "Events" }).getByRole("button");
      await moment.filter({ hasText: "flood started" }).click();
      await page.getByRole("button", { name: "Fork from before flood@1" }).click();
      await page.getByText("the snapshot before flood@1").waitFor();
      await page.getByRole("button", { name: "Fork", exact: true }).click();
      await page.waitForURL((url) => !url.pathname.includes(failed));
      await page.locator(".status", { hasText: "failed" }).first().waitFor();
    });
    expect(project.effects()).toEqual({ ...before, flood: (before.flood ?? 0) + 1 });
    expect(await project.runIds()).toHaveLength(3);
  });
});

test("the report prints without the frame, and is one file to send", async () => {
  await visit(`/runs/${failed}/report`, async (page) => {
    await page.getByRole("heading", { name: "Problems" }).waitFor();
    await page.getByRole("img", { name: "The graph of work" }).waitFor();
    await page.emulateMedia({ media: "print" });
    expect(await page.getByRole("navigation", { name: "Pages" }).isVisible()).toBe(false);
    await expect.poll(() => page.getByRole("heading", { name: "Steps" }).isVisible()).toBe(true);
    const download = page.waitForEvent("download");
    await page.emulateMedia({ media: "screen" });
    await page.getByRole("link", { name: "Download as one HTML file" }).click();
    expect((await download).suggestedFilename()).toMatch(/^report-[0-9a-f]{8}\.html$/);
  });
});

test("axe finds nothing, in light and in dark, and no page is wider than a phone", async () => {
  const found: string[] = [];
  const inDark = ["steps/talk", "time", "report"];
  const onPhone = ["steps/talk", "time/8?tab=compare", "report"];
  const others = ["steps/flood", "time/8?tab=files", "steps/last?tab=why"];
  const opened = await browser.page();
  const { page } = opened;
  await dashboard.admit(page);
  for (const path of new Set([...inDark, ...onPhone, ...others])) {
    await page.goto(dashboard.url(`/runs/${failed}/${path}`));
    await page.locator("main h1").waitFor();
    await page.locator(".loading").first().waitFor({ state: "detached" });
    const looks: readonly PageOptions[] = [
      {},
      ...(inDark.includes(path) ? [{ colors: "dark" } as const] : []),
      ...(onPhone.includes(path) ? [{ size: "phone" } as const] : []),
    ];
    for (const look of looks) {
      await opened.look(look);
      const where = `${path} ${JSON.stringify(look)}`;
      found.push(...(await violations(page)).map((one) => `${where}: ${one}`));
      const isWide = "document.documentElement.scrollWidth > innerWidth";
      if (await page.evaluate(isWide)) found.push(`${where}: wider than the window`);
    }
  }
  await opened.close();
  expect(found).toEqual([]);
});

test("a retry from the page runs the step again, and the page shows how it ends", async () => {
  project.write("ok", "");
  const before = project.effects();
  await visit(`/runs/${failed}/steps/last`, async (page) => {
    await page.getByRole("button", { name: "Retry" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.locator(".preview code", { hasText: "last" }).waitFor();
    await dialog.getByRole("button", { name: "Retry" }).click();
    await page.locator("h1 + .status", { hasText: "completed" }).waitFor();
  });
  expect(project.effects()).toEqual({ ...before, last: 1 });
});
