import { describe, expect, it } from "@jest/globals";
import { changesOf } from "../../../../demo/show/run/run-log.ts";
import { endedOperation } from "../../../builders/run-log.ts";

describe("the changes of a run", () => {
  it("leave out an extend that found the size already reached", () => {
    const emergency = endedOperation("Extend", 1000, 1400, { emergency: true });
    const decided = endedOperation("Extend", 1000, 1400);
    expect(changesOf([emergency, decided])).toEqual([emergency]);
  });

  it("keep an extend to a size that a shrink had left", () => {
    const operations = [endedOperation("Extend", 1000, 1400), endedOperation("Shrink", 1400, 1000)];
    expect(changesOf([...operations, endedOperation("Extend", 1000, 1400)])).toHaveLength(3);
  });

  it("keep a shrink that was cancelled before it changed anything", () => {
    const cancelled = endedOperation("Shrink", 1400, 1400, { outcome: "Cancelled" });
    expect(changesOf([endedOperation("Extend", 1000, 1400), cancelled])).toHaveLength(2);
  });
});
