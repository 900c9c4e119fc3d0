/** The rig of the dashboard's tests: a real browser, and what it reports as a problem. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { LAUNCH_MS_MAX, TestBrowser } from "./browser.ts";

it(
  "reports console errors, exceptions and failed requests of a page",
  async () => {
    const server = createServer((request, response) => {
      response.writeHead(request.url === "/missing.png" ? 404 : 200, {
        "content-type": "text/html; charset=utf-8",
      });
      response.end(request.url === "/bad" ? BAD : "<title>Good</title><p>✓ 完了");
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void server.close());
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const browser = await TestBrowser.launch();
    onTestFinished(() => browser.close());

    const good = await browser.page({ size: "phone", colors: "dark" });
    await good.page.goto(`${origin}/good`);
    expect(
      await good.page.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]"),
    ).toEqual([390, true]);
    await good.close();

    const bad = await browser.page();
    await bad.page.goto(`${origin}/bad`);
    await bad.page.waitForFunction("document.title === 'done'");
    bad.expectProblem(/expected of the test/);
    expect(bad.problems.toSorted()).toEqual([
      "console: broken",
      "exception: thrown",
      `response: 404 ${origin}/missing.png`,
    ]);
    await expect(bad.close()).rejects.toThrow("console: broken");
  },
  LAUNCH_MS_MAX,
);

const BAD = `<script>
console.error("broken");
console.error("expected of the test");
setTimeout(() => { throw new Error("thrown"); });
const image = new Image();
image.onerror = () => setTimeout(() => { document.title = "done"; });
image.src = "/missing.png";
</script>`;
