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

/** What an agent may use beside its level of permissions. */
export interface AgentAccess {
  /** `Name` or `Name(pattern)`, in the agent's own words for its tools. */
  readonly tools?: { readonly allow: readonly string[]; readonly deny: readonly string[] };
  /** What follows from a denied call. Default: nothing; its result and its check decide. */
  readonly onDenied?: "continue" | "ask" | "fail";
  readonly effort?: string;
  /** By name. */
  readonly mcp?: Readonly<Record<string, McpServer>>;
  /** Directories outside of the workspace, relative to where the run was started; templates. */
  readonly directories?: readonly string[];
}
