/**
 * A whole life in the browser: a run is started from a form and watched, its runner is killed, it is
 * resumed from the page, the server dies and comes back, a gate is answered, a person travels back
 * and forks. Every effect is counted.
 */
import { mkdirSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { violations } from "../rig/accessibility.ts";
import { LAUNCH_MS_MAX, TestBrowser } from "../rig/browser.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { Project } from "../rig/project.ts";

const project = new Project();
const hold = project.hold("build");
let browser: TestBrowser;
let dashboard: Dashboard;

const PIPELINE = `# Builds a product and ships it after a person has agreed.
name: product
input:
  type: object
  required: [product]
  properties:
    product: { type: string, description: What is shipped. }
    copies: { type: integer, minimum: 1, default: 1 }
steps:
  - id: fetch
    run: |
      ${project.effect("fetch")}
      echo "product=\${{ input.product }}" >> "$PERDURE_CONTEXT"
  - id: build
    run: |
      echo building
      ${hold.command}
      ${project.effect("build")}
  - id: agree
    gate: { ask: "Ship \${{ input.product }}?", text: optional }
  - id: ship
    run: ${project.effect("ship")}
`;

beforeAll(async () => {
  mkdirSync(project.path("pipelines"));
  project.write("pipelines/product.yaml", PIPELINE);
  [browser, dashboard] = await Promise.all([TestBrowser.launch(), Dashboard.start(project)]);
}, LAUNCH_MS_MAX);
afterAll(async () => {
  await browser.close();
  await project.remove();
});

/** The process that drives a run. */
async function ownerOf(run: string): Promise<number> {
  const answer = await dashboard.fetch(`/api/runs/${run}`);
  const { overview } = (await answer.json()) as { overview: { owner: { pid: number } | null } };
  if (overview.owner === null) throw new Error("nobody drives the run");
  return overview.owner.pid;
}

test("start, watch, kill, resume, answer, travel back, fork", async () => {
  const opened = await browser.page();
  const { page } = opened;
  const status = (word: string) => page.locator(".page-head .status", { hasText: word });
  const step = (name: string) =>
    page.getByRole("region", { name: "Steps" }).getByRole("button", { name });

  // The first page of a new user leads to the form.
  await page.goto(dashboard.address.href);
  await page.getByRole("heading", { name: "No runs yet" }).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.getByRole("link", { name: "Start a run" }).click();
  await page.getByRole("link", { name: /product\.yaml/ }).click();
  await page.getByRole("textbox", { name: "product" }).fill("<b>Lamp</b>");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
  const run = page.url().split("/").at(-1) ?? "";

  // It is watched while it runs; its runner dies, and the page says so by itself.
  await hold.arrived();
  await step("running build").waitFor();
  process.kill(await ownerOf(run), "SIGKILL");
  await status("interrupted").waitFor();
  expect(project.effects()).toEqual({ fetch: 1 });

  // The server dies and comes back where it was; the page finds it again, and needs no new token.
  opened.expectProblem(/net::ERR_/);
  await dashboard.program.kill();
  await page.getByText("connecting…").waitFor();
  dashboard = await Dashboard.start(project, { port: dashboard.port });
  await page.getByText("live", { exact: true }).waitFor();

  // Resumed from the page: the step that survived its runner is not started again.
  await page.locator(".page-head").getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await status("running").waitFor();
  await hold.release();
  await status("waiting").waitFor();
  expect(project.effects()).toEqual({ fetch: 1, build: 1 });

  // The question is answered in the inbox, and the run continues by itself.
  await page.getByRole("link", { name: "Inbox 1 open" }).click();
  const card = page.getByRole("article", { name: /Ship <b>Lamp<\/b>\?/ });
  await card.getByRole("textbox").fill("It shines.");
  await card.getByRole("button", { name: "approve" }).click();
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  await page.getByRole("region", { name: "Answered now" }).getByRole("link").click();
  await status("completed").waitFor();
  expect(project.effects()).toEqual({ fetch: 1, build: 1, ship: 1 });

  // Back in time the run is as it was, and a fork begins there.
  await page.getByRole("link", { name: "Time travel" }).click();
  await page.getByRole("button", { name: /build completed/ }).click();
  await page.getByRole("tab", { name: "Context" }).click();
  await page.getByText("<b>Lamp</b>").first().waitFor();
  await page.getByRole("button", { name: /^Fork from before/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("heading", { name: "Is kept" }).waitFor();
  await dialog.getByRole("button", { name: "Fork" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/runs/") && !url.pathname.includes(run));
  await status("waiting").waitFor();
  await step("completed build").waitFor();
  expect(project.effects()).toEqual({ fetch: 1, build: 1, ship: 1 });
  await page.goto(dashboard.url("/"));
  await page.getByRole("button", { name: /^All 2/ }).waitFor();
  await opened.close();
});
