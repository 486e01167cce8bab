// How the thread is shared between compiling and deciding, on a clock that stands still but for what compiling takes.
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { createCompileTurns } from "../../../../src/policy-engine/gather/policy-book.ts";

function turnsOf(policies: Readonly<Record<string, number>>, tookMs: number) {
  const left = { ...policies };
  const log: string[] = [];
  let nowMs = 0;
  const turns = createCompileTurns({
    step: (scope) => {
      if (left[scope] === undefined || left[scope] === 0) return false;
      left[scope] -= 1;
      log.push(scope);
      nowMs += tookMs;
      return true;
    },
    onTurn: () => log.push("|"),
    monotonicMs: () => nowMs,
  });
  return { turns, log };
}

describe("compiling in turns", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("begins at once, and ends a turn after 10 ms", () => {
    const { turns, log } = turnsOf({ a: 9 }, 4);
    turns.soon("a");
    expect(log.join("")).toBe("aaa|");
  });

  it("rests for as long as the turn took, so that decisions have half of the thread", () => {
    const { turns, log } = turnsOf({ a: 3 }, 40);
    turns.soon("a");
    jest.advanceTimersByTime(39);
    expect(log.join("")).toBe("a|");
    jest.advanceTimersByTime(1);
    expect(log.join("")).toBe("a|a|");
  });

  it("rests before what comes in the meantime, too", () => {
    const { turns, log } = turnsOf({ a: 1, b: 1 }, 40);
    turns.soon("a");
    turns.soon("b");
    expect(log.join("")).toBe("a|");
    jest.advanceTimersByTime(40);
    expect(log.join("")).toBe("a|b|");
  });

  it("takes the namespaces one after another: one with many policies holds up no other", () => {
    const { turns, log } = turnsOf({ many: 1000, few: 1 }, 20);
    turns.soon("many");
    turns.soon("few");
    jest.advanceTimersByTime(60);
    expect(log).toEqual(["many", "|", "many", "|", "few", "|", "many", "|"]);
  });

  it("says when all is done", async () => {
    const { turns } = turnsOf({ a: 3 }, 20);
    turns.soon("a");
    let isSettled = false;
    void turns.settled().then(() => {
      isSettled = true;
    });
    await jest.advanceTimersByTimeAsync(40);
    expect(isSettled).toBe(false);
    await jest.advanceTimersByTimeAsync(100);
    expect(isSettled).toBe(true);
  });

  it("ends when it is stopped", () => {
    const { turns, log } = turnsOf({ a: 3 }, 20);
    turns.soon("a");
    turns.stop();
    jest.advanceTimersByTime(1000);
    turns.soon("a");
    expect(log.join("")).toBe("a|");
  });
});
