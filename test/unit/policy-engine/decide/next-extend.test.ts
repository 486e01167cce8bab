import { describe, expect, it } from "@jest/globals";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { nextExtendUsedBytes } from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const next = (facts = aVolume(), spec = {}) => nextExtendUsedBytes(facts, aPolicy(spec), NO_CEILINGS) ?? Number.NaN;
const PRECISION_BYTES = 5 * MIB; // 1/1024 of what is available

describe("the next extend", () => {
  it("is found where the rule's threshold is", () => {
    expect(next()).toBeGreaterThanOrEqual(8 * GIB);
    expect(next()).toBeLessThan(8 * GIB + PRECISION_BYTES);
  });

  it("counts a rule on the time to full at the present growth", () => {
    const facts = aVolume({ growth: 10 * MIB });
    const found = next(facts, { rules: [{ ...EXTEND_AT_80, when: "volume.secondsToFull < 300.0" }] });
    expect(Math.abs(found - (10 * GIB - 3000 * MIB))).toBeLessThan(PRECISION_BYTES);
  });

  it("counts a rule on a window", () => {
    const found = next(aVolume(), { rules: [{ ...EXTEND_AT_80, when: "volume.usedRatioMax('1h') >= 0.7" }] });
    expect(Math.abs(found - 7 * GIB)).toBeLessThan(PRECISION_BYTES);
  });

  it("is minAvailable's crossing where that comes first, or where no rule extends", () => {
    expect(next(aVolume(), { limits: { max: "100Gi", minAvailable: "4Gi" } })).toBe(6 * GIB);
    expect(next(aVolume(), { rules: [] })).toBe(9.5 * GIB);
  });

  it("is what it was before while that is right, and found again once growth has moved it", () => {
    const rules = [{ ...EXTEND_AT_80, when: "volume.secondsToFull < 300.0" }];
    const at = (growthBytesPerSecond: number, knownBytes?: number): number => {
      const facts = aVolume({ reading: { growthBytesPerSecond } });
      return nextExtendUsedBytes(facts, aPolicy({ rules }), NO_CEILINGS, knownBytes) ?? Number.NaN;
    };
    const found = at(10 * MIB);
    expect(at(10 * MIB, found)).toBe(found);
    for (const wrongBytes of [found + 2 * PRECISION_BYTES, found - 2 * PRECISION_BYTES, 1, 11 * GIB])
      expect(at(10 * MIB, wrongBytes)).toBe(found);
    expect(at(12 * MIB, found)).toBe(at(12 * MIB));
  });

  it("is now when a rule holds already", () => {
    expect(next(aVolume({ usedRatio: 0.85 }))).toBe(Math.round(8.5 * GIB));
  });

  it("is unknown where nothing can be extended", () => {
    expect(next(aVolume(), { limits: { max: "10Gi" } })).toBeNaN();
    expect(next(aVolume({ reading: "none" }))).toBeNaN();
    expect(nextExtendUsedBytes(aVolume(), undefined, NO_CEILINGS)).toBeUndefined();
  });
});
