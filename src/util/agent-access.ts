/** What agents may do and use, in the words that pipelines, plans and adapters share. */

/** What an agent may do without asking; `default` is what the agent itself allows headless. */
export const PERMISSION_LEVELS = ["default", "plan", "edit", "all"] as const;
export type PermissionLevel = (typeof PERMISSION_LEVELS)[number];

/** A program that speaks MCP on its pipes, or a server at an address. */
export type McpServer =
  | {
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | {
      readonly url: string;
      readonly type: "http" | "sse";
      readonly headers: Readonly<Record<string, string>>;
    };
