/** What an agent may do without asking; `default` is what the agent itself allows. */
export const PERMISSION_LEVELS = ["default", "plan", "edit", "all"] as const;
export type PermissionLevel = (typeof PERMISSION_LEVELS)[number];
