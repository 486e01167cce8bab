// Bugs of other autoscalers, each named for what went wrong there, with what happens here on the same facts. What has a suite of its own is
// not repeated: extends that do not help (vain-extends), resizes that never end (engine-claim, gather), clocks (wrong-clocks).
import { describe, expect, it } from "@jest/globals";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Facts } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { endedAt } from "../../../builders/any-facts.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const FULL = 0.95;
const HOUR_MS = 3_600_000;
const extending = (rule: Partial<VolumePolicySpec["rules"][number]> = {}, max = "500Gi") =>
  aPolicy({ limits: { min: "1Gi", max }, rules: [{ ...EXTEND_AT_80, ...rule }] });
const ON_INODES = extending({ when: "volume.inodesUsedRatio >= 0.9", targetUsed: undefined, by: "25%" });
const ON_AVAILABLE_INODES = extending({
  when: "volume.inodesTotal - volume.inodesUsed < 1000",
  targetUsed: undefined,
  by: "25%",
});

const ofNoSize = { capacityBytes: 0, availableBytes: 0, usedBytes: 0 };

interface Bug {
  readonly facts: Facts;
  readonly policy?: ReturnType<typeof extending>;
  readonly plan: object;
}

const BUGS: Readonly<Record<string, Bug>> = {
  "pvc-autoresizer 118: no inode metric is read as 0 available, and the volume grows to its limit": {
    facts: aVolume({ reading: { inodesTotal: undefined, inodesUsed: undefined } }),
    policy: ON_AVAILABLE_INODES,
    plan: { kind: "hold", reason: "StaleMetrics" },
  },
  "pvc-autoresizer 118: one sample without inodes grows a volume with 1% in use": {
    facts: aVolume({ usedRatio: 0.01, reading: { inodesTotal: 0, inodesUsed: 0 } }),
    policy: ON_INODES,
    plan: { kind: "hold", reason: "WithinBounds" },
  },
  "pvc-autoresizer 121: a volume without an inode metric is never resized at all": {
    facts: aVolume({ usedRatio: FULL, reading: { inodesTotal: undefined, inodesUsed: undefined } }),
    plan: { kind: "extend", reason: "RuleFired" },
  },
  "pvc-autoresizer 77: a step counted from the request never passes what the driver rounded the size up to": {
    facts: aVolume({ sizeBytes: 12 * GIB, usedRatio: FULL, claim: { nominalBytes: 10 * GIB } }),
    policy: extending({ targetUsed: undefined, by: "10%" }),
    plan: { kind: "extend", fromBytes: 12 * GIB, sizeBytes: expect.any(Number) },
  },
  "pvc-autoresizer 274: the request runs away while the provider is slow to carry out the first extend": {
    facts: aVolume({ usedRatio: FULL, filesystem: { operationInProgress: "Extend" } }),
    plan: { kind: "hold", reason: "OperationInProgress" },
  },
  "Kubernetes-Volume-Autoscaler 33: a failed question is a size of 0, scaled from 0 to 2G": {
    facts: aVolume({ reading: ofNoSize }),
    plan: { kind: "hold", reason: "MetricsInconsistent" },
  },
  "Kubernetes-Volume-Autoscaler 33: nothing was answered": {
    facts: aVolume({ reading: "none" }),
    plan: { kind: "hold", reason: "StaleMetrics" },
  },
  "Kubernetes-Volume-Autoscaler 3: 86G is to become 20G, the maximum": {
    facts: aVolume({ sizeBytes: 86 * GIB, usedRatio: FULL }),
    policy: extending({}, "20Gi"),
    plan: { kind: "hold", reason: "AtMaximum" },
  },
  "Kubernetes-Volume-Autoscaler 1: the capacity of before the resize has it grow again and again": {
    facts: aVolume({
      usedRatio: FULL,
      reading: { takenMs: NOW_MS - 5000 },
      filesystem: { lastOperation: endedAt(NOW_MS - 4000) },
    }),
    plan: { kind: "hold", reason: "MetricsInconsistent" },
  },
  "prometheus 10404: a capacity that stays what it was after an extend": {
    facts: aVolume({
      usedRatio: FULL,
      filesystem: { lastOperation: endedAt(NOW_MS - 60_000), capacityAtExtendBytes: 10 * GIB },
    }),
    plan: { kind: "hold", reason: "MetricsInconsistent" },
  },
  "hetzner csi 615: an offline disk is resized with each cooldown": {
    facts: aVolume({ usedRatio: FULL, filesystem: { mounted: false } }),
    plan: { kind: "hold", reason: "NotMounted" },
  },
  "kubernetes 141350: the metrics end when the full disk has ended all containers": {
    facts: aVolume({ usedRatio: 0.999, facts: { metricsStale: true } }),
    plan: { kind: "extend" },
  },
  "kubernetes 64166: the figures of a deleted claim go on": {
    facts: aVolume({ usedRatio: FULL, claim: { deleting: true } }),
    plan: { kind: "hold", reason: "Deleting" },
  },
  "ceph-csi 2579: the figures are of when the pod started": {
    facts: aVolume({ usedRatio: FULL, reading: { takenMs: NOW_MS - HOUR_MS } }),
    plan: { kind: "hold", reason: "StaleMetrics" },
  },
  "Gardener: the host's disk is reported for every claim": {
    facts: aVolume({
      reading: { capacityBytes: 500 * GIB, availableBytes: 10 * GIB, usedBytes: 490 * GIB },
    }),
    plan: { kind: "hold", reason: "MetricsInconsistent" },
  },
};

describe("what went wrong in another autoscaler does not here", () => {
  it.each(Object.entries(BUGS))("%s", (_bug, { facts, policy = extending(), plan }) => {
    expect(decide(facts, policy, NO_CEILINGS)).toMatchObject(plan);
  });

  it("pvc-autoresizer 77: so the step is counted from the size that there is", () => {
    const { facts, policy = extending() } = Object.entries(BUGS).find(([name]) => name.includes(" 77:"))?.[1] as Bug;
    const plan = decide(facts, policy, NO_CEILINGS);
    expect(plan.kind === "extend" && plan.sizeBytes).toBeGreaterThanOrEqual(13 * GIB);
  });
});
