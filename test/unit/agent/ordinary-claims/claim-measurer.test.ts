import { afterEach, describe, expect, it, jest } from "@jest/globals";
import { createClaimMeasurer } from "../../../../src/agent/ordinary-claims/claim-measurer.ts";
import { systemClock } from "../../../../src/platform/process/clock.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";

afterEach(() => {
  jest.useRealTimers();
});

describe("the claims of a node", () => {
  it("are looked for once when many layouts change at once", async () => {
    jest.useFakeTimers();
    let looks = 0;
    const measurer = createClaimMeasurer({
      kubeletDirectory: "/nowhere",
      layouts: () => {
        looks += 1;
        return [];
      },
      samplerWorkerPath: "/nowhere",
      offer: () => {},
      clock: systemClock,
      log: createRecordingLog().log,
    });
    for (let change = 0; change < 1000; change += 1) measurer.look();
    jest.advanceTimersByTime(100);
    expect(looks).toBe(1);
    await measurer.stop();
  });
});
