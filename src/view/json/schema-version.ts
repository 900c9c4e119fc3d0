/** The version of all JSON that Perdure prints (docs/JSON.md). */
export const SCHEMA_VERSION = 1;
