// V4 of the look at a million decisions: 19% of use ended at 90 GiB, 21% at 27 GiB.
import { describe, expect, it } from "@jest/globals";
import type { PolicyRule } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

type Size = Partial<Pick<PolicyRule, "targetUsed" | "by" | "to" | "toExpression">>;
const shrink = (name: string, below: number, size: Size): PolicyRule => ({
  name,
  action: "Shrink",
  when: `volume.usedRatio < ${below}`,
  ...size,
});
const policyOf = (gentle: Size, harsh: Size) =>
  aPolicy({
    limits: { min: "1Gi", max: "200Gi" },
    rules: [EXTEND_AT_80, shrink("gentle", 0.2, gentle), shrink("harsh", 0.3, harsh)],
  });

describe("V4: of two Shrink rules that hold the largest size wins", () => {
  it.each([
    [0.19, 90],
    [0.21, 30],
  ])("so that %d of use may end at %d GiB", (usedRatio, gib) => {
    const policy = policyOf({ by: "10Gi" }, { targetUsed: "70%" });
    const plan = decide(aVolume({ sizeBytes: 100 * GIB, usedRatio }), policy, NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "shrink" });
    expect(plan.kind === "shrink" && plan.sizeBytes / GIB).toBeCloseTo(gib, 1);
  });
});
