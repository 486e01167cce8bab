// Time as a parameter: what decides gets `nowMs`; only loops at the edge hold a Clock.
import { readFileSync } from "node:fs";

export interface Clock {
  /** Wall-clock time, Unix milliseconds: for what people and the API read. */
  nowMs(): number;
  /** Never jumps, and is the same in all threads: for intervals, deadlines, leases and ages. It begins with the machine's boot. */
  monotonicMs(): number;
}

/** One instant on both clocks. */
export interface Instant {
  readonly nowMs: number;
  readonly monotonicMs: number;
}

export function instantOf(clock: Clock): Instant {
  return { nowMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Not performance.now(), which starts at 0 in each thread.
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
};

/** Which boot of the machine this is: the monotonic clock starts over with each. The same in all containers of the machine. */
export function readBootID(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
