/**
 * A real Chromium for tests of the dashboard. `TestBrowser.launch()` once per file, a `TestPage` per
 * test; a page that logged an error or failed to load something fails the test that closes it.
 *
 * Owns: the browser's process, sizes and colour schemes, the list of problems.
 * Does not: find or install the browser (scripts/browser.ts) or serve a page (dashboard.ts).
 */
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import {
  type Browser,
  type BrowserContext,
  type CDPSession,
  chromium,
  type Page,
} from "playwright-core";
import { installedBrowser } from "../../scripts/browser.ts";
import { PATIENCE_MS } from "./patience.ts";

/** For `beforeAll`: the first launch on a new machine installs the browser. */
export const LAUNCH_MS_MAX = 900_000;
const INSTALLER = resolve(import.meta.dirname, "../../scripts/browser.ts");
/** The requests that a page cancels when it goes elsewhere are no failures. */
const CANCELLED = "net::ERR_ABORTED";

const SIZES = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
} as const;

export interface PageOptions {
  readonly size?: keyof typeof SIZES;
  readonly colors?: "light" | "dark";
}

/** One browser, which the pages of a test file share. */
export class TestBrowser {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async launch(): Promise<TestBrowser> {
    const executablePath = installedBrowser() ?? (await install());
    // Without its own sandbox, as root needs it: it only loads our pages.
    return new TestBrowser(await chromium.launch({ executablePath, chromiumSandbox: false }));
  }

  /** A page with cookies and storage of its own. */
  async page(options: PageOptions = {}): Promise<TestPage> {
    const { size = "desktop", colors = "light" } = options;
    const context = await this.#browser.newContext({
      viewport: SIZES[size],
      colorScheme: colors,
      reducedMotion: "reduce",
      hasTouch: size === "phone",
      locale: "en-GB",
      timezoneId: "UTC",
    });
    context.setDefaultTimeout(PATIENCE_MS);
    return new TestPage(context, await context.newPage());
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

/** A page, and everything that went wrong in it. */
export class TestPage {
  readonly page: Page;
  readonly #context: BrowserContext;
  #devtools: CDPSession | undefined;
  readonly #problems: string[] = [];
  readonly #expected: RegExp[] = [];

  constructor(context: BrowserContext, page: Page) {
    this.#context = context;
    this.page = page;
    page.on("pageerror", (error) => this.#problems.push(`exception: ${error.message}`));
    page.on("console", (message) => {
      // Chromium's own line about a failed request does not say which one; the events below do.
      const isRequest = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isRequest) {
        this.#problems.push(`console: ${message.text()}`);
      }
    });
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      if (why !== CANCELLED) this.#problems.push(`request: ${request.url()} ${why}`);
    });
    page.on("response", (response) => {
      if (response.status() < 400) return;
      this.#problems.push(`response: ${response.status()} ${response.url()}`);
    });
  }

  /** What went wrong so far, without what the test expects. */
  get problems(): readonly string[] {
    return this.#problems.filter((text) => !this.#expected.some((words) => words.test(text)));
  }

  /** Problems that belong to the test: an attack that is refused, a server that was killed. */
  expectProblem(words: RegExp): void {
    this.#expected.push(words);
  }

  /** Gives the page, as it is loaded, another size or other colours. */
  async look({ size = "desktop", colors = "light" }: PageOptions): Promise<void> {
    await this.page.setViewportSize(SIZES[size]);
    this.#devtools ??= await this.#context.newCDPSession(this.page);
    const enabled = size === "phone";
    await this.#devtools.send("Emulation.setTouchEmulationEnabled", { enabled });
    await this.page.emulateMedia({ colorScheme: colors });
  }

  /** Writes what the page shows as a PNG; `whole` includes what is below the window. */
  async screenshot(file: string, { whole = false } = {}): Promise<void> {
    fs.mkdirSync(dirname(file), { recursive: true });
    await this.page.screenshot({ path: file, fullPage: whole, animations: "disabled" });
  }

  /** Closes the page; throws if anything went wrong in it. */
  async close(): Promise<void> {
    await this.#context.close();
    if (this.problems.length > 0) throw new Error(this.problems.join("\n"));
  }
}

/** In a process of its own, because it waits for commands. */
async function install(): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [INSTALLER]);
  return stdout.trim();
}
