import { expect, it, jest } from "@jest/globals";
import { createMovingRoom } from "../../../../../src/agent/storage/block/block-member.ts";
import type { MemberRoom } from "../../../../../src/agent/storage/decide-shrink.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";

const roomIn = (place: string, holeBytes = 8 * GIB): MemberRoom => ({
  ...{ place, freeBytes: 4 * GIB, holeBytes },
  lagMs: 0,
});

it("a step's part is not free for others in the same place until the step has ended", () => {
  const moving = createMovingRoom();
  const giveBack = moving.take(roomIn("disk"), GIB);
  expect(moving.left(roomIn("disk"))).toEqual({ ...roomIn("disk"), freeBytes: 3 * GIB });
  expect(moving.left(roomIn("pool"))).toEqual(roomIn("pool"));
  giveBack();
  expect(moving.left(roomIn("disk"))).toEqual(roomIn("disk"));
});

it("a step takes no more than the holes of its member, and never more than there is", () => {
  const moving = createMovingRoom();
  moving.take(roomIn("disk", GIB), 3 * GIB);
  expect(moving.left(roomIn("disk"))?.freeBytes).toBe(3 * GIB);
  moving.take(roomIn("disk"), 7 * GIB);
  expect(moving.left(roomIn("disk"))?.freeBytes).toBe(0);
});

it("a member whose bytes are all its own takes nothing of anybody", () => {
  const moving = createMovingRoom();
  moving.take(undefined, GIB)();
  expect(moving.left(undefined)).toBeUndefined();
});

it("a step's part of a place that shows late what was taken is given back late", () => {
  jest.useFakeTimers();
  try {
    const moving = createMovingRoom();
    const pool = { ...roomIn("pool"), lagMs: 5000 };
    moving.take(pool, GIB)();
    jest.advanceTimersByTime(4999);
    expect(moving.left(pool)?.freeBytes).toBe(3 * GIB);
    jest.advanceTimersByTime(1);
    expect(moving.left(pool)?.freeBytes).toBe(4 * GIB);
  } finally {
    jest.useRealTimers();
  }
});
