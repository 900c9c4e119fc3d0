/** The page of a fleet, with real workers on a real PostgreSQL, in a real browser. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Fleet } from "../fleet/worker-rig.ts";
import { violations } from "../rig/accessibility.ts";
import { LAUNCH_MS_MAX, TestBrowser } from "../rig/browser.ts";
import { Dashboard } from "../rig/dashboard.ts";
import { runSql } from "../rig/postgres.ts";

let browser: TestBrowser;
let fleet: Fleet;
let dashboard: Dashboard;
/** The runs that are under way, that waits for a slot, and that is a dead letter. */
let runs: Readonly<Record<"held" | "parked" | "dead", string>>;
let release: () => Promise<void>;

beforeAll(async () => {
  [browser, fleet] = await Promise.all([TestBrowser.launch(), Fleet.open()]);
  runs = await stateOf(fleet);
  dashboard = await Dashboard.start(fleet);
}, LAUNCH_MS_MAX);
afterAll(async () => {
  await browser.close();
  await release();
  await dashboard.end();
  await fleet.end();
});

/** A fleet with two workers, and a run in each state. */
async function stateOf(on: Fleet): Promise<typeof runs> {
  const hold = on.hold("held");
  let released: Promise<void> | undefined;
  release = () => {
    released ??= hold.release();
    return released;
  };
  const step = (run: string): string => `steps: [{id: only, run: "${run}"}]`;
  const dead = await on.submitted(`requires: [poison]\n${step("echo dead")}`);
  await runSql(on.url, "update perdure.blobs set hash = 'x' || hash");
  const poisoned = await on.worker("poison", "--labels", "poison", "--concurrency", "2");
  await poisoned.supervisor.printed("is a dead letter now");
  await on.worker("claude", "--labels", "linux,claude", "--concurrency", "8");
  const group = "requires: [claude]\nconcurrency: {group: deploy, max: 1}\n";
  const held = await on.submitted(`${group}${step(hold.command)}`);
  await hold.arrived();
  const parked = await on.submitted(`${group}${step("echo parked")}`);
  await on.submitted(`requires: [gpu]\n${step("echo nobody")}`);
  on.write("nightly.yaml", `name: nightly\non: {schedule: "0 3 * * mon-fri"}\n${step("echo a")}`);
  await on.must(["submit", "nightly.yaml", "--schedule"]);
  return { held, parked, dead };
}

test("shows workers, queues, groups, schedules and dead letters, and what changes", async () => {
  const opened = await browser.page();
  const { page } = opened;
  await page.goto(dashboard.address.href);
  await page.getByRole("link", { name: "Fleet" }).click();
  const row = (name: string) => page.getByRole("row").filter({ hasText: name });
  await row("linux, claude").getByText("1 of 8").waitFor();
  const link = row("linux, claude").getByRole("link", { name: runs.held.slice(0, 8) });
  expect(await link.getAttribute("href")).toBe(`/runs/${runs.held}`);
  await row("poison").getByText("working").first().waitFor();
  await row("deploy").getByText("1 of 1").waitFor();
  await row("gpu").waitFor();
  await row("nightly").getByText("0 3 * * mon-fri").waitFor();
  const dead = page.locator(".card", { hasText: "No worker could drive run" });
  await dead.getByText(`perdure resume ${runs.dead.slice(0, 8)}`).waitFor();
  await release();
  await fleet.reached(runs.parked, "run.completed");
  await row("linux, claude").getByText("0 of 8").waitFor();
  await opened.close();
});

test("is free of what axe-core finds, light, dark and on a phone", async () => {
  const opened = await browser.page();
  await dashboard.admit(opened.page);
  await opened.page.goto(dashboard.url("/fleet"));
  for (const look of [{}, { colors: "dark" }, { size: "phone" }] as const) {
    await opened.look(look);
    await opened.page.getByText("linux, claude").waitFor();
    expect(await violations(opened.page)).toEqual([]);
  }
  await opened.close();
});

test("is not there without a store", async () => {
  const alone = await Dashboard.start(fleet, { env: { PERDURE_STORE: "" } });
  const opened = await browser.page();
  await opened.page.goto(alone.address.href);
  await opened.page.getByRole("link", { name: "Cost" }).waitFor();
  expect(await opened.page.getByRole("link", { name: "Fleet" }).count()).toBe(0);
  expect((await alone.fetch("/api/fleet")).ok).toBe(false);
  await opened.close();
  await alone.end();
});
