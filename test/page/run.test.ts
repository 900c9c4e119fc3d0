/**
 * The page of a run in a real browser: its parts, live changes, actions with counted effects, and
 * texts of steps that look like markup.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { violations } from "../rig/accessibility.ts";
import { LAUNCH_MS_MAX, TestBrowser, type TestPage } from "../rig/browser.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { Project } from "../rig/project.ts";

const EVIL = "<img src=x onerror=alert(1)><b>bold</b>";

const project = new Project();
const hold = project.hold("work");
let browser: TestBrowser;
let dashboard: Dashboard;

/** A fan-out with a failed item, a context value, a changed file, and then a failure. */
const BROKEN = `name: broken
workspace: worktree
input: { type: object }
steps:
  - id: plan
    run: |
      echo 'area=api' >> "$PERDURE_CONTEXT"
      printf 'one\\nTWO\\n' > notes.txt
      ${project.effect("plan")}
  - id: parts
    for_each: { in: [a, b, c], as: part, on_item_failure: continue }
    run: test \${{ part }} != b
  - id: check
    run: |
      ${project.effect("check")}
      printf '\\033[31m%s\\033[0m\\n' '${EVIL}'
      test -e ${project.path("fixed")}
  - id: ship
    run: ${project.effect("ship")}
`;

const LIVE = `name: live
steps:
  - { id: first, run: echo begun }
  - id: work
    run: |
      echo working
      ${hold.command}
      ${project.effect("work")}
  - { id: last, run: echo done }
`;

beforeAll(async () => {
  project.write("notes.txt", "one\ntwo\n");
  await project.command(["git", "init", "-q"]).ended;
  project.write(".gitignore", ".perdure\nhold-*\neffects\n*.yaml\n");
  const git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"];
  await project.command([...git, "add", "-A"]).ended;
  await project.command([...git, "commit", "-qm", "start"]).ended;
  project.write("broken.yaml", BROKEN);
  project.write("live.yaml", LIVE);
  const started = await Promise.all([
    TestBrowser.launch(),
    Dashboard.start(project),
    project.run(["run", "broken.yaml"]),
  ]);
  [browser, dashboard] = started;
}, LAUNCH_MS_MAX);

afterAll(async () => {
  await browser?.close();
  await project.remove();
});

/** A page that is signed in, at an address. */
async function opened(path: string, options = {}): Promise<TestPage> {
  const page = await browser.page(options);
  await dashboard.admit(page.page);
  await page.page.goto(dashboard.url(path));
  return page;
}

test("a failed run: its parts, its texts, and how it is resumed", async () => {
  const run = await project.newestId();
  const tab = await opened(`/runs/${run}`);
  const { page } = tab;
  const card = page.getByRole("region", { name: "What happened" });
  await card.getByText("perdure resume").waitFor();
  // What a step printed is text: no element comes of it, and no terminal colours are left.
  await card.getByText(EVIL, { exact: true }).waitFor();
  expect(await page.locator("img[src=x], .tail b").count()).toBe(0);

  // The list and the graph show the same steps; the items of the fan-out are in its box.
  const list = page.getByRole("region", { name: "Steps" });
  await list.getByRole("button", { name: "failed check" }).waitFor();
  await list.getByRole("button", { name: "Failed 2", exact: true }).click();
  await expect.poll(() => list.locator("[data-step]").count()).toBe(3);
  const graph = page.getByRole("region", { name: "Graph of broken" });
  await graph.getByText("3 of 3, 1 failed").waitFor();
  await expect.poll(() => graph.locator(".graph-edge[data-look=taken]").count()).toBe(2);

  // A click shows the step beside the graph, Escape closes it, Enter opens its page.
  const node = graph.getByRole("button", { name: "failed check" });
  await node.click();
  const panel = page.getByRole("complementary", { name: "Step check" });
  await panel.getByText(EVIL, { exact: true }).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await node.press("Enter");
  await page.waitForURL(/\/steps\/check$/);
  await page.goBack();

  // Resume does what its dialog says: only `check` and what comes after it run.
  project.write("fixed", "");
  await page.locator(".page-head").getByRole("button", { name: "Resume" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/^check: run, because/).waitFor();
  expect(project.effects()).toEqual({ plan: 1, check: 1 });
  await dialog.getByRole("button", { name: "Resume" }).click();
  await page.locator(".page-head .status", { hasText: "completed" }).waitFor();
  expect(project.effects()).toEqual({ plan: 1, check: 2, ship: 1 });
  await list.getByRole("button", { name: "All 7", exact: true }).click();
  await list.getByRole("button", { name: "completed ship" }).waitFor();
  await tab.close();
});

test("the other parts of a run, in the dark and on a phone", async () => {
  const run = await project.newestId();
  const dark = await opened(`/runs/${run}?tab=waterfall`, { colors: "dark" });
  const { page } = dark;
  await page.getByRole("button", { name: /^check@1\.\d+: failed/ }).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole("tab", { name: "Log" }).click();
  await page.getByRole("searchbox").fill("ship");
  await page.getByText(/ship completed/).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole("tab", { name: "Files" }).click();
  const patch = page.getByRole("region", { name: "Changes of the run" });
  await patch.getByText("+TWO").waitFor();
  await page.getByText(/^perdure merge/).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole("tab", { name: "Context" }).click();
  await page.getByText("area").waitFor();
  expect(await violations(page)).toEqual([]);
  await dark.close();

  const phone = await opened(`/runs/${run}`, { size: "phone" });
  const list = phone.page.getByRole("region", { name: "Steps" });
  await list.getByRole("button", { name: "completed plan" }).click();
  await phone.page.getByRole("complementary", { name: "Step plan" }).waitFor();
  expect(await violations(phone.page)).toEqual([]);
  const width = await phone.page.evaluate("document.documentElement.scrollWidth");
  expect(width).toBe(390);
  await phone.close();
});

test("a run that runs: the page follows it, stops it, and resumes it", async () => {
  const program = project.start(["run", "live.yaml"]);
  await hold.arrived();
  const run = await project.newestId();
  const tab = await opened(`/runs/${run}?step=work`);
  const { page } = tab;
  const graph = page.getByRole("region", { name: "Graph of live" });
  await graph.getByRole("button", { name: "running work" }).waitFor();
  await page.getByRole("complementary").getByText("working").waitFor();
  await page.locator(".page-head").getByRole("button", { name: "Stop" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("After the step").check();
  await dialog.getByRole("button", { name: "Stop" }).click();
  await dialog.waitFor({ state: "detached" });
  await hold.release();
  await program.ended;
  await page.locator(".page-head .status", { hasText: "interrupted" }).waitFor();
  await graph.getByRole("button", { name: "completed work" }).waitFor();
  await page.getByRole("tab", { name: "Log" }).click();
  // The card moves while news of the run arrive; its head does not.
  await page.locator(".page-head").getByRole("button", { name: "Resume" }).click();
  await dialog.getByRole("button", { name: "Resume" }).click();
  // The log goes on by itself.
  await page.getByText(/last completed/).waitFor();
  await page.locator(".page-head .status", { hasText: "completed" }).waitFor();
  expect(project.effects().work).toBe(1);
  await tab.close();
});
