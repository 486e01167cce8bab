import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import {
  emergencyGrant,
  grantLimit,
  isGrantUncertain,
} from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { NO_CEILINGS, readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const HOUR = 3_600_000;
const MIN_AVAILABLE = { limits: { min: "1Gi", max: "100Gi", minAvailable: "1Gi" } };

describe("the emergency grant", () => {
  it("lets the agent make the step that the policy would make at the crossing", () => {
    expect(emergencyGrant(aVolume(), aPolicy(MIN_AVAILABLE), NO_CEILINGS)).toEqual({
      sizeBytes: 15 * GIB, // 9 GiB used at the crossing, targetUsed 60%
      minAvailableBytes: 1 * GIB,
      expiresInMs: 24 * 3_600_000,
    });
  });

  it("is the same however much is used now, so that it is not rewritten with every sample", () => {
    const grant = emergencyGrant(aVolume({ usedRatio: 0.1 }), aPolicy(MIN_AVAILABLE), NO_CEILINGS);
    expect(emergencyGrant(aVolume({ usedRatio: 0.7 }), aPolicy(MIN_AVAILABLE), NO_CEILINGS)).toEqual(grant);
  });

  it("is never larger than a step, the limits, the ceilings or the node allow", () => {
    const size = (facts = aVolume(), spec = {}, ceilings = NO_CEILINGS) =>
      emergencyGrant(facts, aPolicy({ ...MIN_AVAILABLE, ...spec }), ceilings)?.sizeBytes;
    expect(size(aVolume(), { behavior: { extend: { maxStep: "2Gi" } } })).toBe(12 * GIB);
    expect(size(aVolume(), { limits: { max: "13Gi", minAvailable: "1Gi" } })).toBe(13 * GIB);
    expect(size(aVolume(), {}, readCeilings("guard", { max: "11Gi" }))).toBe(11 * GIB);
    expect(size(aVolume({ facts: { node: { name: "n", freeBytes: 3 * GIB, ioUtilizationRatio: 0 } } }))).toBe(13 * GIB);
  });

  it("takes no more than its namespace's budget leaves, and nothing of one that is not known", () => {
    const budget = readCeilings("guard", { max: "1Ti", bytesPerNamespace: "30Gi" });
    const size = (namespaceBytes: number) =>
      emergencyGrant(aVolume({ facts: { namespaceBytes } }), aPolicy(MIN_AVAILABLE), budget)?.sizeBytes;
    expect(size(20 * GIB)).toBe(15 * GIB);
    expect(size(27 * GIB)).toBe(13 * GIB);
    expect(size(30 * GIB)).toBeUndefined();
    expect(size(Number.NaN)).toBeUndefined();
  });

  it("is not given where nothing may grow", () => {
    const none = (facts = aVolume(), spec = {}, ceilings = NO_CEILINGS) =>
      expect(emergencyGrant(facts, aPolicy({ ...MIN_AVAILABLE, ...spec }), ceilings)).toBeUndefined();
    none(aVolume(), { mode: { extend: "Recommend" } });
    none(aVolume(), {}, readCeilings("guard", { max: "1Ti", modes: { extend: "Recommend" } }));
    none(aVolume(), { suspend: true });
    none(aVolume(), { limits: { max: "10Gi", minAvailable: "1Gi" } });
    none(aVolume({ claim: { deleting: true } }));
    none(aVolume(), {}, readCeilings("guard", { storageClassNames: ["other"] }));
    expect(emergencyGrant(aVolume(), undefined, NO_CEILINGS)).toBeUndefined();
  });

  it("is given under a policy whose rules are wrong, as long as its limits can be read", () => {
    const policy = aPolicy({ ...MIN_AVAILABLE, rules: [{ ...EXTEND_AT_80, when: "nonsense" }] });
    expect(emergencyGrant(aVolume(), policy, NO_CEILINGS)?.sizeBytes).toBe(11 * GIB);
  });

  it("is left as it is while the facts of the moment say nothing about it", () => {
    expect(isGrantUncertain(aVolume())).toBe(false);
    expect(isGrantUncertain(aVolume({ reading: "none" }))).toBe(true);
    expect(isGrantUncertain(aVolume({ filesystem: { operationInProgress: "Shrink" } }))).toBe(true);
  });

  it.each([HOUR, -HOUR, 24 * HOUR, -24 * HOUR])("is given on a node whose clock differs by %d ms", (aheadMs) => {
    const facts = aVolume({ reading: { aheadMs } });
    expect(isGrantUncertain(facts)).toBe(false);
    expect(emergencyGrant(facts, aPolicy(MIN_AVAILABLE), NO_CEILINGS)?.sizeBytes).toBe(15 * GIB);
  });

  it("is limited by what is written down, whatever is measured", () => {
    const limit = (spec = {}, ceilings = NO_CEILINGS) =>
      grantLimit(aVolume({ reading: "none" }), aPolicy({ ...MIN_AVAILABLE, ...spec }), ceilings);
    expect(limit({ limits: { max: "15Gi", minAvailable: "1Gi" } })).toBe(15 * GIB);
    expect(limit({}, readCeilings("guard", { max: "14Gi" }))).toBe(14 * GIB);
    expect(limit({ suspend: true })).toBe(0);
    expect(limit({ mode: { extend: "Recommend" } })).toBe(0);
    expect(grantLimit(aVolume(), undefined, NO_CEILINGS)).toBe(0);
  });
});
