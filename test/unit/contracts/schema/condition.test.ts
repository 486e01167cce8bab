import { describe, expect, it } from "@jest/globals";
import { datedCondition } from "../../../../src/contracts/schema/condition.ts";

const ready = { type: "Ready", status: "True", reason: "Ready", message: "as it should be" } as const;
const BEFORE = "2026-01-01T00:00:00Z";
const NOW_MS = Date.parse("2026-01-02T03:04:05.678Z");

describe("a condition", () => {
  it("is dated in whole seconds, as the API server writes times", () => {
    expect(datedCondition(ready, undefined, 3, NOW_MS)).toEqual({
      ...ready,
      lastTransitionTime: "2026-01-02T03:04:05Z",
      observedGeneration: 3,
    });
  });

  it("says what others have brought without anything that a terminal acts on", () => {
    const said = { ...ready, message: "\u001b[2Jall is well" };
    expect(datedCondition(said, undefined, 3, NOW_MS).message).toBe("\\u001b[2Jall is well");
  });

  it("keeps its time while its status stays, whatever its reason says", () => {
    const before = [{ ...ready, reason: "Other", lastTransitionTime: BEFORE }];
    expect(datedCondition(ready, before, 4, NOW_MS).lastTransitionTime).toBe(BEFORE);
  });

  it("is dated anew when its status changes, and takes no other type's time", () => {
    const before = [
      { ...ready, status: "False" as const, lastTransitionTime: BEFORE },
      { ...ready, type: "Stalled", lastTransitionTime: BEFORE },
    ];
    expect(datedCondition(ready, before, 4, NOW_MS).lastTransitionTime).toBe("2026-01-02T03:04:05Z");
  });
});
