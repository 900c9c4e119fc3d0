/** `perdure ui` in a test's project: starts the real server on a free port and ends it. */
import type { Page } from "playwright-core";
import {
  eventually,
  type Program,
  type Project,
  type Result,
  type StartOptions,
} from "./project.ts";

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/\?token=\S+/;

export interface DashboardOptions extends StartOptions {
  /** More arguments, such as `--read-only`. */
  readonly args?: readonly string[];
  /** For a server that comes back where another one was; otherwise a free port. */
  readonly port?: number;
}

/** A server that listens. `Project.remove` ends it too. */
export class Dashboard {
  readonly program: Program;
  /** The first address, with the token. */
  readonly address: URL;

  private constructor(program: Program, address: URL) {
    this.program = program;
    this.address = address;
  }

  static async start(project: Project, options: DashboardOptions = {}): Promise<Dashboard> {
    const { args = [], port = 0, ...rest } = options;
    const program = project.start(["ui", "--port", String(port), "--no-open", ...args], rest);
    let ended: Result | undefined;
    void program.ended.then((result) => {
      ended = result;
    });
    await eventually("the dashboard prints its address", () => {
      return ended !== undefined || ADDRESS.test(program.stdout);
    });
    const address = ADDRESS.exec(program.stdout)?.[0];
    if (address === undefined) throw new Error(`no address:\n${program.stdout}${program.stderr}`);
    return new Dashboard(program, new URL(address));
  }

  get port(): number {
    return Number(this.address.port);
  }

  get token(): string {
    return this.address.searchParams.get("token") ?? "";
  }

  /** The address of a page or of the API, without the token. */
  url(path: string): string {
    return new URL(path, this.address.origin).href;
  }

  /** Gives the browser of a page the cookie; the page itself still shows nothing. */
  async admit(page: Page): Promise<void> {
    const answer = await page.context().request.get(this.address.href);
    if (!answer.ok()) throw new Error(`${answer.status()}: ${await answer.text()}`);
  }

  /** Asks the API as a program does. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", `Bearer ${this.token}`);
    return fetch(this.url(path), { ...init, headers });
  }

  /** Ends the server as Ctrl-C does. */
  async end(): Promise<Result> {
    return this.program.kill("SIGINT");
  }
}
