// When all volumes are decided again because policies have changed, on timers that the test turns.
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { createPolicyBook, type LivePolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { type EngineCaches, engineCaches } from "../../../fakes/engine-caches.ts";

const POLICIES = 50;
/** Of a turn: each compiles one policy, and rests. */
const TURN_MS = 20;

let caches: EngineCaches;
let book: LivePolicyBook;
let rounds: number;
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ["performance"] });
  caches = engineCaches();
  rounds = 0;
  let nowMs = 0;
  const monotonicMs = (): number => {
    nowMs += TURN_MS / 2;
    return nowMs;
  };
  book = createPolicyBook(caches, monotonicMs, () => {
    rounds += 1;
  });
});
afterEach(() => {
  book.stop();
  jest.useRealTimers();
});

function put(index: number): void {
  caches.policies.put({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { namespace: `team-${index}`, name: "default", uid: `uid-${index}`, generation: 1 },
    spec: {
      limits: { max: "100Gi" },
      rules: [{ name: "extend", action: "Extend", when: "volume.usedRatio >= 0.8", by: "10%" }],
    },
  });
}

describe("a policy that was too slow", () => {
  const entryOf = () => {
    const [entry] = book.entries();
    if (entry === undefined) throw new Error("no entry");
    return entry.compiled;
  };
  const PROBLEM = { field: "spec.rules", message: "it took too long" };

  it("is named with the time after which it is tried again, is tried again by itself, and waits longer the next time", () => {
    put(0);
    jest.advanceTimersByTime(1);
    const compiled = entryOf();
    expect(compiled.problems).toEqual([]);
    book.invalidate(compiled, PROBLEM);
    expect(entryOf()).toMatchObject({ rules: [], problems: [{ field: "spec.rules" }] });
    const [{ message = "" } = {}] = entryOf().problems;
    expect(message).toMatch(/^it took too long; tried again after (?:[345][0-9]s|1m)$/);
    rounds = 0;
    jest.advanceTimersByTime(29_999);
    expect(entryOf().problems).toHaveLength(1);
    jest.advanceTimersByTime(30_002);
    expect(entryOf()).toBe(compiled);
    jest.advanceTimersByTime(1);
    expect(rounds).toBeGreaterThan(0);
    book.invalidate(compiled, PROBLEM);
    jest.advanceTimersByTime(59_999);
    expect(entryOf().problems).toHaveLength(1);
    jest.advanceTimersByTime(60_002);
    expect(entryOf()).toBe(compiled);
  });

  it("is not tried again by a book that was closed", () => {
    put(0);
    jest.advanceTimersByTime(1);
    book.invalidate(entryOf(), PROBLEM);
    book.stop();
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe("policies that have changed", () => {
  it("have all volumes decided at once, where it is one", () => {
    put(0);
    jest.advanceTimersByTime(1);
    expect(rounds).toBe(1);
  });

  it("have all volumes decided twice at most, where Git syncs many at once", () => {
    for (let index = 0; index < POLICIES; index += 1) put(index);
    jest.advanceTimersByTime(60_000);
    expect([...book.entries()]).toHaveLength(POLICIES);
    expect(rounds).toBeLessThanOrEqual(2);
  });

  it("are not waited for without end, where compiling them takes long", () => {
    for (let index = 0; index < 10 * POLICIES; index += 1) put(index);
    jest.advanceTimersByTime(5000);
    expect([...book.entries()].length).toBeLessThan(10 * POLICIES);
    expect(rounds).toBe(3);
  });
});
