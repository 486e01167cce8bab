import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { createQuietTimer, type QuietTimer } from "../../../../src/lvmd/lvm/report-cache.ts";

describe("the time for a report of what may have changed", () => {
  let busy: boolean;
  let due: number[];
  let startedMs: number;
  let timer: QuietTimer;

  beforeEach(() => {
    jest.useFakeTimers();
    [busy, due, startedMs] = [false, [], performance.now()];
    timer = createQuietTimer(
      () => busy,
      () => {
        due.push(performance.now() - startedMs);
        timer.clear();
      },
    );
  });
  afterEach(() => void jest.useRealTimers());

  /** One change each so many milliseconds. */
  function changes(count: number, everyMs: number): void {
    for (let done = 0; done < count; done += 1) {
      timer.expect();
      jest.advanceTimersByTime(everyMs);
    }
  }

  it("comes 100 ms after a change, once", () => {
    changes(1, 99);
    expect([due, timer.isSet()]).toEqual([[], true]);
    jest.advanceTimersByTime(10_000);
    expect([due, timer.isSet()]).toEqual([[100], false]);
  });

  it("comes once for many changes, when it is quiet after the last of them", () => {
    changes(10, 50);
    jest.advanceTimersByTime(10_000);
    expect(due).toEqual([9 * 50 + 100]);
  });

  it("does not wait longer than 2 s for quiet that never comes", () => {
    changes(100, 50);
    expect(due).toEqual([2000, 4000]);
  });

  it("waits for commands that run, and not longer than that either", () => {
    busy = true;
    changes(1, 1999);
    expect(due).toEqual([]);
    jest.advanceTimersByTime(1);
    expect(due).toEqual([2000]);
  });

  it("comes as soon as commands have ended", () => {
    busy = true;
    changes(1, 450);
    busy = false;
    jest.advanceTimersByTime(10_000);
    expect(due).toEqual([500]);
  });

  it("does not come where a report was begun meanwhile", () => {
    changes(1, 50);
    timer.clear();
    jest.advanceTimersByTime(10_000);
    expect([due, timer.isSet()]).toEqual([[], false]);
  });
});
