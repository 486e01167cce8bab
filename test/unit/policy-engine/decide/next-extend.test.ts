import { describe, expect, it } from "@jest/globals";
import { nextExtendUsedBytes } from "../../../../src/policy-engine/decide/next-extend.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { GIB, MIB } from "../../../../src/units/quantity.ts";
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
    const facts = aVolume({ filesystem: { growthBytesPerSecond: 10 * MIB } });
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

  it("is now when a rule holds already", () => {
    expect(next(aVolume({ usedRatio: 0.85 }))).toBe(Math.round(8.5 * GIB));
  });

  it("is unknown where nothing can be extended", () => {
    expect(next(aVolume(), { limits: { max: "10Gi" } })).toBeNaN();
    expect(next(aVolume({ reading: "none" }))).toBeNaN();
    expect(nextExtendUsedBytes(aVolume(), undefined, NO_CEILINGS)).toBeUndefined();
  });
});
