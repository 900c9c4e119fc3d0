import { describe, expect, it } from "vitest";
import {
  CLOCK_SLOW_MAX,
  CLOCK_STEP_MAX_MS,
  HANDOVER,
  isUnchangedSince,
  LEASE_MARGIN_SHARE,
  LEASH_WATCH_MS,
  LeaseKeeper,
  mayUseDirectory,
  RENEW_AGAIN_MS,
  RENEW_EVERY_MS,
  RENEW_TIMEOUT_MS,
  type Renewal,
  takeoverOf,
  wantsDriver,
} from "../../src/app/fleet/lease-policy.ts";
import type { RunEvent } from "../../src/core/event.ts";
import type { RunState } from "../../src/core/run.ts";

const HELD_MS = 12_000;
const STORE = 5_000_000;
const DEADLINE_MS = HELD_MS * (1 - LEASE_MARGIN_SHARE);

/** Sends the renewal that is due and answers it after a while; the clock here runs at this rate. */
function renewed(
  keeper: LeaseKeeper,
  now: number,
  { lost = [] as string[], tookMs = 10, rate = 1 } = {},
): Renewal {
  const renewal = keeper.renew(now);
  if (renewal === undefined) throw new Error(`no renewal is due at ${now}`);
  const answer = { now: STORE + now / rate, heldMs: HELD_MS, lost };
  keeper.answered(renewal, answer, now + tookMs);
  return renewal;
}

/** A keeper whose clock is proven, with one lease; its last renewal was sent at `RENEW_AGAIN_MS`. */
function keeperOf(runId: string): LeaseKeeper {
  const keeper = new LeaseKeeper();
  renewed(keeper, 0);
  renewed(keeper, RENEW_AGAIN_MS);
  keeper.took(runId, 1, RENEW_AGAIN_MS, { now: STORE, heldMs: HELD_MS });
  return keeper;
}

describe("a worker", () => {
  it("takes runs only after its clock is proven", () => {
    const keeper = new LeaseKeeper();
    expect(keeper.mayTake).toBe(false);
    renewed(keeper, 0);
    expect(keeper.mayTake).toBe(false);
    expect(keeper.nextAt()).toBe(RENEW_AGAIN_MS);
    renewed(keeper, RENEW_AGAIN_MS);
    expect(keeper.mayTake).toBe(true);
    expect(keeper.nextAt()).toBe(RENEW_AGAIN_MS + RENEW_EVERY_MS);
  });

  it("does not trust its clock while answers take too long", () => {
    const keeper = new LeaseKeeper();
    renewed(keeper, 0, { tookMs: 450 });
    renewed(keeper, RENEW_AGAIN_MS, { tookMs: 450 });
    expect(keeper.mayTake).toBe(false);
    renewed(keeper, 2 * RENEW_AGAIN_MS);
    expect(keeper.mayTake).toBe(false);
    renewed(keeper, 3 * RENEW_AGAIN_MS);
    expect(keeper.mayTake).toBe(true);
  });

  it("never takes runs with a clock that runs slow, and takes them with one that runs fast", () => {
    const slow = new LeaseKeeper();
    for (let now = 0; now < 20; now++) renewed(slow, now * RENEW_AGAIN_MS, { rate: 0.8 });
    expect(slow.mayTake).toBe(false);
    const fast = new LeaseKeeper();
    renewed(fast, 0, { rate: 1.5 });
    renewed(fast, RENEW_AGAIN_MS, { rate: 1.5 });
    expect(fast.mayTake).toBe(true);
  });
});

describe("a lease", () => {
  it("counts from when its renewal was sent, up to the margin (lease-policy/K1)", () => {
    const keeper = keeperOf("a");
    const sentAt = RENEW_AGAIN_MS + RENEW_EVERY_MS;
    renewed(keeper, sentAt, { tookMs: 1_900 });
    const deadline = sentAt + DEADLINE_MS;
    expect(keeper.deadlineOf("a")).toBe(deadline);
    expect(keeper.holds("a", 1, deadline - 1)).toBe(true);
    expect(keeper.holds("a", 2, deadline - 1)).toBe(false);
    expect(keeper.holds("a", 1, deadline)).toBe(false);
    expect(keeper.giveUp(deadline - 1)).toEqual([]);
    expect(keeper.giveUp(deadline)).toEqual([{ runId: "a", epoch: 1, why: "not-renewed" }]);
    expect(keeper.giveUp(deadline)).toEqual([]);
    expect(keeper.deadlineOf("a")).toBeUndefined();
  });

  it("has a margin that covers the watcher, a slow clock and a jump of a clock", () => {
    const endsMs = (DEADLINE_MS + LEASH_WATCH_MS) * (1 + CLOCK_SLOW_MAX) + CLOCK_STEP_MAX_MS;
    expect(endsMs).toBeLessThanOrEqual(HELD_MS - 1_000);
  });

  it("is renewed again soon after a renewal without an answer", () => {
    const keeper = keeperOf("a");
    const first = RENEW_AGAIN_MS + RENEW_EVERY_MS;
    const silent = keeper.renew(first);
    expect(keeper.renew(first + RENEW_TIMEOUT_MS - 1)).toBeUndefined();
    expect(keeper.nextAt()).toBe(first + RENEW_TIMEOUT_MS);
    const second = keeper.renew(first + RENEW_TIMEOUT_MS);
    expect(second?.epochs).toEqual(new Map([["a", 1]]));
    if (second === undefined || silent === undefined) throw new Error("no renewal");
    keeper.failed(second);
    expect(keeper.nextAt()).toBe(first + RENEW_TIMEOUT_MS + RENEW_AGAIN_MS);
    // An answer that comes late counts from its own request.
    keeper.answered(
      silent,
      { now: STORE + first, heldMs: HELD_MS, lost: [] },
      first + RENEW_TIMEOUT_MS + 5,
    );
    expect(keeper.deadlineOf("a")).toBe(first + DEADLINE_MS);
  });

  it("is not renewed after its run was given up (lease-policy/K3)", () => {
    const keeper = keeperOf("a");
    const late = keeper.renew(RENEW_AGAIN_MS + RENEW_EVERY_MS);
    const deadline = RENEW_AGAIN_MS + DEADLINE_MS;
    expect(keeper.giveUp(deadline)).toHaveLength(1);
    if (late === undefined) throw new Error("no renewal");
    keeper.answered(late, { now: STORE + deadline, heldMs: HELD_MS, lost: [] }, deadline);
    expect(keeper.holds("a", 1, deadline)).toBe(false);
    expect(keeper.renew(deadline + RENEW_EVERY_MS)?.epochs.size).toBe(0);
  });

  it("is given up at once when another worker has the run", () => {
    const keeper = keeperOf("a");
    renewed(keeper, RENEW_AGAIN_MS + RENEW_EVERY_MS, { lost: ["a"] });
    expect(keeper.holds("a", 1, RENEW_AGAIN_MS + RENEW_EVERY_MS)).toBe(false);
    expect(keeper.giveUp(4_000)).toEqual([{ runId: "a", epoch: 1, why: "another-owner" }]);
    const refused = keeperOf("b");
    refused.refused("b", 2);
    expect(refused.giveUp(600)).toEqual([]);
    refused.refused("b", 1);
    expect(refused.giveUp(600)).toEqual([{ runId: "b", epoch: 1, why: "another-owner" }]);
  });

  it("is given up when the clock here runs slower than the store's (lease-policy/K2)", () => {
    const keeper = keeperOf("a");
    const at = RENEW_AGAIN_MS + RENEW_EVERY_MS;
    const renewal = keeper.renew(at);
    if (renewal === undefined) throw new Error("no renewal");
    // The machine was stopped for five seconds, and its clock with it.
    keeper.answered(renewal, { now: STORE + at + 5_000, heldMs: HELD_MS, lost: [] }, at + 10);
    expect(keeper.mayTake).toBe(false);
    expect(keeper.giveUp(at + 10)).toEqual([{ runId: "a", epoch: 1, why: "slow-clock" }]);
    expect(keeper.storeTime(at + 110)).toBe(STORE + at + 5_100);
    renewed(keeper, at + RENEW_AGAIN_MS);
    expect(keeper.mayTake).toBe(false);
    renewed(keeper, at + 2 * RENEW_AGAIN_MS);
    expect(keeper.mayTake).toBe(true);
    expect(new LeaseKeeper().storeTime(0)).toBeUndefined();
  });
});

describe("a takeover", () => {
  const me = { worker: "w1", boot: "b" };
  const dead = (): boolean => true;
  const owner = { pid: 1, started: "0", boot: "b", host: "h", user: "u" };

  it("waits for the end of another worker's lease (lease-policy/T1)", () => {
    expect(takeoverOf(undefined, me, dead)).toBe("take");
    expect(takeoverOf({ epoch: 3 }, me, dead)).toBe("take");
    const other = { epoch: 3, owner: { ...owner, worker: "w2" } };
    expect(takeoverOf(other, me, dead)).toBe("wait");
    expect(takeoverOf({ ...other, hasExpired: true }, me, dead)).toBe("take");
    expect(takeoverOf({ epoch: 3, owner }, me, dead)).toBe("wait");
  });

  it("does not wait in the worker's own directory, in this boot (lease-policy/T2)", () => {
    const own = { epoch: 3, owner: { ...owner, worker: "w1" } };
    expect(takeoverOf(own, me, dead)).toBe("adopt");
    expect(takeoverOf(own, me, () => false)).toBe("wait");
    expect(takeoverOf(own, { ...me, boot: "c" }, dead)).toBe("wait");
  });

  it("drives an ended run only for a request (lease-policy/T4)", () => {
    const failed = { status: "failed", message: "no" } as const;
    expect(wantsDriver({ status: "running" }, 0)).toBe(true);
    expect(wantsDriver(failed, 0)).toBe(false);
    expect(wantsDriver(failed, 1)).toBe(true);
  });

  it("drives a run that was handed over or resumed (lease-policy/T5)", () => {
    const stopped = (by: string): RunState => ({
      status: "stopped",
      reason: { code: "requested", by },
    });
    expect(wantsDriver(stopped(HANDOVER), 0)).toBe(true);
    expect(wantsDriver(stopped("SIGTERM"), 0)).toBe(false);
    const events = (["run.failed", "run.moved", "run.opened"] as const).map((type, index) => ({
      ...{ seq: index + 1, time: 0, version: 1 },
      event: { type } as RunEvent,
    }));
    expect(isUnchangedSince(1, events.slice(0, 1))).toBe(true);
    // Whoever took the run has died after its move.
    expect(isUnchangedSince(1, events.slice(0, 2))).toBe(true);
    expect(isUnchangedSince(1, events)).toBe(false);
  });

  it("uses the directory of the owner directly before (lease-policy/T3)", () => {
    expect(mayUseDirectory(3, 4)).toBe(true);
    expect(mayUseDirectory(3, 5)).toBe(false);
    expect(mayUseDirectory(undefined, 1)).toBe(false);
  });
});
