/**
 * How long a test waits for something that must happen: only a broken test waits so long. A worker of
 * the fleet took more than a minute to start while forty other processes wanted two cores.
 */
export const PATIENCE_MS = 300_000;

/** How long a test may take that starts the program dozens of times. */
export const WALK_MS = 6 * PATIENCE_MS;
