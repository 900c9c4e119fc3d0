/** Fake and real agents killed a few times at random moments; `npm run chaos` does more of it. */
import { expect, it } from "vitest";
import { CHOSEN } from "./agent-project.ts";
import { chaos } from "./chaos.ts";
import { CHAOS_AGENTS } from "./chaos-project.ts";

const KILLS = 12;
const SEED = "3";

it("breaks no promise and loses no call", async () => {
  const agents = CHAOS_AGENTS.filter((name) => name === "fake" || CHOSEN.includes(name));
  const { violations, kept } = await chaos({ kills: KILLS, seed: SEED, agents });
  expect(violations, kept).toEqual([]);
});
