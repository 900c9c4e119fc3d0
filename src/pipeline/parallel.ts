/** How many steps of a run may run at once, where its file does not say it. */
export const PARALLEL_DEFAULT = 4;
/** In a walk only branches run side by side, and they say themselves how many. */
export const WALK_PARALLEL_MAX = 64;
