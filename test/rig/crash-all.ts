/** Walks through failpoints kill at a sample of them; PERDURE_CRASH_ALL=1 lets them kill at each. */
export const CRASH_ALL = process.env.PERDURE_CRASH_ALL === "1";
