/**
 * How long a test waits for something that must happen: only a broken test waits so long. A worker of
 * the fleet took more than a minute to start while forty other processes wanted two cores.
 */
export const PATIENCE_MS = 300_000;
