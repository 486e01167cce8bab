// Who has the next turn, against a list that is searched each time.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import {
  goesBefore,
  OperationSlots,
  type Place,
  type Turn,
  type Waiting,
} from "../../../../../src/policy-engine/gather/rates/operation-slots.ts";
import { property } from "../../../../harness/property.ts";

const NEW = Number.POSITIVE_INFINITY;

describe("the slots of operations", () => {
  it("count what runs on a node there and in the cluster, and what runs nowhere in the cluster alone", () => {
    const slots = new OperationSlots();
    slots.start("a");
    slots.start("b");
    slots.start(undefined);
    slots.end("b");
    expect([slots.running("a"), slots.running("b"), slots.running(undefined)]).toEqual([1, 0, 2]);
  });

  it("have extends go before shrinks, and then who has waited longer", () => {
    const slots = new OperationSlots();
    const shrink = slots.wait(undefined, undefined, 1, "shrink");
    const extend = slots.wait(undefined, undefined, 1, "extend");
    expect(slots.waitingBefore(undefined, extend, 0)).toBe(0);
    expect(slots.waitingBefore(undefined, shrink, 0)).toBe(1);
    expect(slots.waitingBefore(undefined, { direction: "extend", ticket: NEW }, 0)).toBe(1);
    expect(slots.waitingBefore(undefined, { direction: "shrink", ticket: NEW }, 0)).toBe(2);
  });

  it("leave a volume its turn when it waits elsewhere", () => {
    const slots = new OperationSlots();
    const first = slots.wait(undefined, "a", 1, "extend");
    slots.wait(undefined, undefined, 1, "extend");
    const moved = slots.wait(first, undefined, 1, "extend");
    expect(slots.waitingBefore(undefined, moved, 0)).toBe(0);
    expect(slots.waitingBefore("a", { direction: "extend", ticket: NEW }, 0)).toBe(0);
  });

  it("have none wait for one that a lower ceiling holds anyway", () => {
    const slots = new OperationSlots();
    slots.wait(undefined, undefined, 2, "extend");
    const turn: Turn = { direction: "extend", ticket: NEW };
    expect([1, 2].map((running) => slots.waitingBefore(undefined, turn, running))).toEqual([1, 0]);
  });

  property(
    "say of any who waits how many go before, whoever came and left in between",
    { runs: 200, reaches: { "one behind others": 0.5 } },
    [
      fc.array(
        fc.record({
          volume: fc.integer({ min: 0, max: 7 }),
          place: fc.constantFrom<Place>(undefined, "a"),
          limit: fc.integer({ min: 1, max: 3 }),
          direction: fc.constantFrom("extend" as const, "shrink" as const),
          leaves: fc.boolean(),
        }),
        { minLength: 10, maxLength: 60 },
      ),
    ],
    (reach, steps) => {
      const slots = new OperationSlots();
      const waiting = new Map<number, Waiting>();
      for (const { volume, place, limit, direction, leaves } of steps) {
        const known = waiting.get(volume);
        if (leaves && known !== undefined) {
          slots.leave(known);
          waiting.delete(volume);
        } else waiting.set(volume, slots.wait(known, place, limit, direction));
      }
      for (const own of waiting.values())
        for (const running of [0, 1, 2]) {
          const before = [...waiting.values()].filter(
            (one) => one.place === own.place && one.limit > running && goesBefore(one, own),
          ).length;
          if (before > 0) reach("one behind others");
          expect(slots.waitingBefore(own.place, own, running)).toBe(before);
        }
    },
  );
});
