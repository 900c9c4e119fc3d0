/** The last words of a hook of ours that forbids a call: they tell it from a permission that is missing. */
export const HOOK_FORBIDS = "perdure: tool_hooks.pre does not allow this call";
