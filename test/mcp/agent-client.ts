/** A client of the official SDK, connected to the program under test in a project. */
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { PATIENCE_MS } from "../rig/patience.ts";
import { cleanEnvironment, PROGRAM, type Project } from "../rig/project.ts";

/** Longer than the server waits for a run. */
const REQUEST_MS_MAX = 2 * PATIENCE_MS;

/** The document of a tool. */
export type ToolDocument = Readonly<Record<string, unknown>>;

export interface Refused {
  readonly code: string;
  readonly message: string;
  readonly next: readonly { readonly text: string; readonly command: string | null }[];
}

export class AgentClient {
  readonly client = new Client({ name: "test-client", version: "1.0.0" });
  /** Whatever the server wrote that is not the protocol. */
  readonly problems: Error[] = [];
  readonly progress: string[] = [];
  #onProgress: (message: string) => void = () => undefined;
  #transport: StdioClientTransport | undefined;

  /** Starts `perdure mcp` and connects. */
  static async connect(
    project: Project,
    options: { readonly args?: readonly string[]; readonly env?: Record<string, string> } = {},
  ): Promise<AgentClient> {
    const agent = new AgentClient();
    const { args = ["mcp"], env = {} } = options;
    agent.#transport = new StdioClientTransport({
      command: process.execPath,
      args: [PROGRAM, ...args],
      cwd: project.dir,
      env: { ...cleanEnvironment(), ...project.own, ...env },
    });
    agent.client.onerror = (error) => {
      // The SDK reads progress that arrives together with the result after the result; then it is
      // an error that holds the message.
      const isLate = error.message.includes("unknown token");
      if (isLate) agent.progress.push(error.message);
      else agent.problems.push(error);
    };
    await agent.client.connect(agent.#transport, { timeout: REQUEST_MS_MAX });
    return agent;
  }

  /** The process of the server. */
  get pid(): number {
    return this.#transport?.pid as number;
  }

  /** The next message about the progress of a call. */
  nextProgress(): Promise<string> {
    return new Promise((resolve) => {
      this.#onProgress = resolve;
    });
  }

  async toolNames(): Promise<readonly string[]> {
    return (await this.client.listTools()).tools.map(({ name }) => name);
  }

  /** Calls a tool that must succeed; the SDK holds its document against the declared schema. */
  async call(name: string, args: Record<string, unknown> = {}): Promise<ToolDocument> {
    const { isError, structuredContent } = await this.#result(name, args);
    if (isError === true) throw new Error(`${name}: ${JSON.stringify(structuredContent)}`);
    return structuredContent as ToolDocument;
  }

  /** Waits for a run, however long a busy machine takes for it. */
  wait(run: unknown): Promise<ToolDocument> {
    return this.call("wait_for_run", { run, seconds: PATIENCE_MS / 1000 });
  }

  /** Calls a tool that must refuse. */
  async refused(name: string, args: Record<string, unknown> = {}): Promise<Refused> {
    const { isError, structuredContent } = await this.#result(name, args);
    if (isError !== true) throw new Error(`${name}: ${JSON.stringify(structuredContent)}`);
    return (structuredContent as { readonly error: Refused }).error;
  }

  async #result(
    name: string,
    args: Record<string, unknown>,
  ): Promise<{ readonly isError?: boolean | undefined; readonly structuredContent?: unknown }> {
    const onprogress = ({ message = "" }: { message?: string | undefined }): void => {
      this.progress.push(message);
      this.#onProgress(message);
    };
    return this.client.callTool({ name, arguments: args }, { onprogress, timeout: REQUEST_MS_MAX });
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}
