import { describe, expect, it } from "@jest/globals";
import { dataProfilesOf } from "../../../../src/contracts/formulas/data-profiles.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { ChangeReason, HoldReason } from "../../../../src/contracts/reasons.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Plan } from "../../../../src/policy-engine/decide/plan.ts";
import type { Facts, RecentChanges } from "../../../../src/policy-engine/facts/facts.ts";
import { type Ceilings, NO_CEILINGS, readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, NOW_MS, steadyHistory } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

interface Case {
  facts: Facts;
  policy?: CompiledPolicy | "none";
  ceilings?: Ceilings;
  plan: Plan["kind"];
  reason: HoldReason | ChangeReason;
  sizeBytes?: number;
  rule?: string;
  message?: RegExp;
  nextEligibleMs?: number;
  preview?: string;
  notAfterMs?: number;
}

const HOUR_MS = 3_600_000;
const WRONG_CLOCKS = {
  "an hour ahead": HOUR_MS,
  "an hour behind": -HOUR_MS,
  "a day ahead": 24 * HOUR_MS,
  "a day behind": -24 * HOUR_MS,
};
const full = { usedRatio: 0.9 };
/** What statfs shows of 10 GiB whose data has these profiles: half of it, with so many bytes used. */
const withCopies = (dataProfiles: number, usedBytes: number) => ({
  capacityBytes: 5 * GIB,
  usedBytes,
  availableBytes: 5 * GIB - usedBytes,
  dataProfiles,
});
const empty = { usedRatio: 0.1 };
const extendedAt = (...extendsAtMs: number[]): RecentChanges => ({ extendsAtMs, shrinksAtMs: [] });
const shrunkAt = (...shrinksAtMs: number[]): RecentChanges => ({ extendsAtMs: [], shrinksAtMs });
/** Of 30 GiB. */
const quotaLeaves = (bytes: number) => ({ name: "team", key: "requests.storage", limitBytes: 30 * GIB, bytes });
const ceilings = (spec: Parameters<typeof readCeilings>[1]): Ceilings => readCeilings("guard", spec);
const endedAt = (endedAtMs: number): Facts["filesystem"]["lastOperation"] => ({
  kind: "Extend",
  outcome: "Succeeded",
  endedAtMs,
  reason: undefined,
  floorBytes: undefined,
});
/** Ten hours ago, at the size and the use that there are. */
const floorFound = (floorBytes: number) =>
  ({
    kind: "Shrink",
    outcome: "FloorReached",
    endedAtMs: NOW_MS - 10 * HOUR_MS,
    reason: undefined,
    floorBytes,
    usedBytes: GIB,
    askedBytes: 2 * GIB,
    reachedBytes: 10 * GIB,
  }) as const;
const LARGE = ceilings({ max: "1Ti" });
const everySecond = (count: number): number[] => Array.from({ length: count }, (_, i) => NOW_MS - (count - i) * 1000);

const PLANNED = { sizeBytes: 2 * GIB, fromBytes: 10 * GIB };
/** Open from 12:00 UTC, which it is. */
const IN_WINDOW = { behavior: { shrink: { windows: [{ cron: "0 12 * * *", duration: "1h" }] } } };
const anExt4 = (filesystem: Partial<Facts["filesystem"]> = {}): Facts =>
  aVolume({
    ...empty,
    claim: { fsType: "ext4" },
    reading: { inodesTotal: 100, inodesUsed: 1 },
    filesystem: { shrinksUnmounted: true, ...filesystem },
  });

const cases: Record<string, Case> = {
  "holds while no rule holds": { facts: aVolume(), plan: "hold", reason: "WithinBounds" },
  "holds a raw block volume, whatever its rules and limits say": {
    facts: aVolume({ ...full, claim: { volumeMode: "Block" } }),
    policy: aPolicy({ limits: { min: "20Gi", max: "40Gi" } }),
    plan: "hold",
    reason: "RawBlockVolume",
    message: /no fill level.*only a raised request extends it/,
  },
  "holds a raw block volume for the same reason without a policy": {
    facts: aVolume({ claim: { volumeMode: "Block" } }),
    policy: "none",
    plan: "hold",
    reason: "RawBlockVolume",
  },
  "extends a raw block volume to a raised request": {
    facts: aVolume({ claim: { volumeMode: "Block", raisedRequestBytes: 12 * GIB } }),
    policy: "none",
    plan: "extend",
    reason: "RequestRaised",
    sizeBytes: 12 * GIB,
  },
  "extends to the size at which targetUsed is used": {
    facts: aVolume({ usedRatio: 0.9 }),
    plan: "extend",
    reason: "RuleFired",
    rule: "extend-at-80",
    sizeBytes: 15 * GIB,
  },
  "extends by at least minStep, however little the rule asks for": {
    facts: aVolume({ usedRatio: 0.61 }),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio >= 0.6" }] }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 11 * GIB,
  },
  "extends by a percentage of the size": {
    facts: aVolume(full),
    policy: aPolicy({ rules: [{ name: "grow", action: "Extend", when: "volume.usedRatio >= 0.8", by: "25%" }] }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 12.5 * GIB,
  },
  "extends by a quantity": {
    facts: aVolume(full),
    policy: aPolicy({ rules: [{ name: "grow", action: "Extend", when: "volume.usedRatio >= 0.8", by: "3Gi" }] }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 13 * GIB,
  },
  "extends to the size that an expression names": {
    facts: aVolume(full),
    policy: aPolicy({
      rules: [
        { name: "grow", action: "Extend", when: "volume.usedRatio >= 0.8", toExpression: "volume.usedBytes * 2" },
      ],
    }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 18 * GIB,
  },
  "takes the largest size of all Extend rules that hold": {
    facts: aVolume(full),
    policy: aPolicy({
      rules: [EXTEND_AT_80, { name: "more", action: "Extend", when: "volume.usedRatio > 0.5", to: "17Gi" }],
    }),
    plan: "extend",
    reason: "RuleFired",
    rule: "more",
    sizeBytes: 17 * GIB,
  },
  "lets any Extend beat every Shrink": {
    facts: aVolume(empty),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio > 0.05" }, SHRINK_BELOW_30] }),
    plan: "extend",
    reason: "RuleFired",
    rule: "extend-at-80",
  },
  "extends on inodes where the filesystem has a fixed number of them": {
    facts: aVolume({ claim: { fsType: "ext4" }, reading: { inodesTotal: 1000, inodesUsed: 950 } }),
    policy: aPolicy({
      rules: [{ name: "inodes", action: "Extend", when: "volume.inodesUsedRatio >= 0.9", by: "25%" }],
    }),
    plan: "extend",
    reason: "RuleFired",
  },
  "reads zero inodes as unlimited": {
    facts: aVolume({ reading: { inodesTotal: 0, inodesUsed: 0 } }),
    policy: aPolicy({
      rules: [{ name: "inodes", action: "Extend", when: "volume.inodesUsedRatio >= 0.9", by: "25%" }],
    }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "counts the devices' size where the filesystem shows less of it": {
    facts: aVolume({
      claim: { fsType: "ext4" },
      reading: { capacityBytes: 9 * GIB, usedBytes: 8294 * MIB, availableBytes: 922 * MIB },
    }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 15 * GIB,
  },
  "extends a filesystem whose data has two copies by twice the bytes that it lacks": {
    facts: aVolume({ reading: withCopies(dataProfilesOf(["dup"]), 4.5 * GIB) }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 15 * GIB,
  },
  "extends for minAvailable where a span's data is in raid1": {
    facts: aVolume({ claim: { backend: "span" }, reading: withCopies(dataProfilesOf(["raid1"]), 4.75 * GIB) }),
    policy: aPolicy({ rules: [], limits: { min: "1Gi", max: "100Gi", minAvailable: "1Gi" } }),
    plan: "extend",
    reason: "BelowMinAvailable",
    sizeBytes: 13.5 * GIB,
  },
  "counts the copies of the last profile while data is converted, as statfs does": {
    facts: aVolume({ reading: withCopies(dataProfilesOf(["single", "dup"]), 4.5 * GIB) }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 15 * GIB,
  },
  "adds the rule's own message": {
    facts: aVolume(full),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, messageExpression: "'now at ' + percent(volume.usedRatio)" }] }),
    plan: "extend",
    reason: "RuleFired",
    message: /extend-at-80: 90% of 10Gi is used; extend from 10Gi to 15Gi \(now at 90%\)/,
  },

  "extends when minAvailable is crossed, although no rule holds": {
    facts: aVolume({ usedRatio: 0.75 }),
    policy: aPolicy({ limits: { min: "1Gi", max: "100Gi", minAvailable: "3Gi" } }),
    plan: "extend",
    reason: "BelowMinAvailable",
    sizeBytes: 13.5 * GIB,
  },
  "does not extend while just minAvailable is there": {
    facts: aVolume({ usedRatio: 0.7 }),
    policy: aPolicy({ limits: { min: "1Gi", max: "100Gi", minAvailable: "3Gi" } }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "counts 5 s of growth as minAvailable by default": {
    facts: aVolume({ usedRatio: 0.7, reading: { growthBytesPerSecond: GIB } }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "never counts more than 20% of capacity as minAvailable by default": {
    facts: aVolume({ usedRatio: 0.79, reading: { growthBytesPerSecond: 100 * GIB } }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "does not let a cooldown hold an extend for minAvailable": {
    facts: aVolume({ usedRatio: 0.98, facts: { changes: extendedAt(NOW_MS - 1000) } }),
    policy: aPolicy({ behavior: { extend: { cooldown: "1h", maxPerDay: 1 } } }),
    plan: "extend",
    reason: "BelowMinAvailable",
    sizeBytes: 16.333984375 * GIB,
  },
  "counts emergencies but does not hold them": {
    facts: aVolume({ usedRatio: 0.98, facts: { changes: extendedAt(...everySecond(100)) } }),
    plan: "extend",
    reason: "BelowMinAvailable",
  },
  "extends to limits.min": {
    facts: aVolume({ sizeBytes: 4 * GIB }),
    policy: aPolicy({ limits: { min: "5Gi", max: "100Gi" } }),
    plan: "extend",
    reason: "BelowMinimum",
    sizeBytes: 5 * GIB,
  },
  "extends to limits.min even when nothing is measured": {
    facts: aVolume({ sizeBytes: 4 * GIB, reading: "none", filesystem: { mounted: false } }),
    policy: aPolicy({ limits: { min: "5Gi", max: "100Gi" } }),
    plan: "extend",
    reason: "BelowMinimum",
  },
  "takes the class' initial size for the minimum when none is written": {
    facts: aVolume({ sizeBytes: 2 * GIB, claim: { initialSizeBytes: 3 * GIB } }),
    policy: aPolicy({ limits: { max: "100Gi" } }),
    plan: "extend",
    reason: "BelowMinimum",
    sizeBytes: 3 * GIB,
  },
  "holds what takes no writes, however full": {
    facts: aVolume({ usedRatio: 0.99, filesystem: { readOnly: "remount it" } }),
    plan: "hold",
    reason: "ReadOnly",
    message: /^remount it$/,
  },
  "holds what takes no writes, although its request is raised": {
    facts: aVolume({ claim: { raisedRequestBytes: 20 * GIB }, filesystem: { readOnly: "remount it" } }),
    plan: "hold",
    reason: "ReadOnly",
  },
  "holds what takes no writes while a shrink of it runs": {
    facts: aVolume({ usedRatio: 0.99, filesystem: { operationInProgress: "Shrink", readOnly: "remount it" } }),
    plan: "hold",
    reason: "ReadOnly",
  },
  "extends to a raised request": {
    facts: aVolume({ claim: { raisedRequestBytes: 20 * GIB } }),
    plan: "extend",
    reason: "RequestRaised",
    sizeBytes: 20 * GIB,
  },
  "extends to a raised request without any policy": {
    facts: aVolume({ claim: { raisedRequestBytes: 20 * GIB } }),
    policy: "none",
    plan: "extend",
    reason: "RequestRaised",
    sizeBytes: 20 * GIB,
  },
  "extends to a raised request although the policy only recommends": {
    facts: aVolume({ claim: { raisedRequestBytes: 20 * GIB } }),
    policy: aPolicy({ mode: { extend: "Recommend" } }),
    plan: "extend",
    reason: "RequestRaised",
  },
  "never extends a raised request over limits.max": {
    facts: aVolume({ claim: { raisedRequestBytes: 200 * GIB } }),
    plan: "extend",
    reason: "RequestRaised",
    sizeBytes: 100 * GIB,
  },

  "holds without a policy": { facts: aVolume(full), policy: "none", plan: "hold", reason: "NoPolicy" },
  "holds while the claim is being deleted": {
    facts: aVolume({ ...full, claim: { deleting: true } }),
    plan: "hold",
    reason: "Deleting",
  },
  "holds while the policy is suspended": {
    facts: aVolume(full),
    policy: aPolicy({ suspend: true }),
    plan: "hold",
    reason: "PolicySuspended",
  },
  "holds under an invalid policy and says what is wrong with it": {
    facts: aVolume(full),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio >= 80" }] }),
    plan: "hold",
    reason: "PolicyInvalid",
    message: /spec\.rules\[0\]\.when/,
  },
  "still extends for minAvailable under an invalid policy": {
    facts: aVolume({ usedRatio: 0.99 }),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio >= 80" }] }),
    plan: "extend",
    reason: "BelowMinAvailable",
  },
  "does not extend under an invalid policy whose limits cannot be read": {
    facts: aVolume({ usedRatio: 0.99 }),
    policy: aPolicy({ limits: { min: "5Gi", max: "1Gi" } }),
    plan: "hold",
    reason: "PolicyInvalid",
    message: /max \(1Gi\) is smaller than min \(5Gi\)/,
  },
  "holds while an operation runs": {
    facts: aVolume({ ...full, filesystem: { operationInProgress: "Extend" } }),
    plan: "hold",
    reason: "OperationInProgress",
  },
  "lets a running shrink go on while its rollback would give the writer enough": {
    facts: aVolume({
      reading: { capacityBytes: 5 * GIB, usedBytes: 5018 * MIB, availableBytes: 102 * MIB },
      filesystem: { operationInProgress: "Shrink" },
    }),
    plan: "hold",
    reason: "OperationInProgress",
  },
  "extends over a running shrink when even its rollback would not be enough": {
    facts: aVolume({
      reading: { capacityBytes: 10035 * MIB, usedBytes: 9984 * MIB, availableBytes: 51 * MIB },
      filesystem: { operationInProgress: "Shrink" },
    }),
    plan: "extend",
    reason: "BelowMinAvailable",
  },

  "recommends an extend and shows what would happen": {
    facts: aVolume(full),
    policy: aPolicy({ mode: { extend: "Recommend" } }),
    plan: "hold",
    reason: "RecommendOnly",
    preview: "extend from 10Gi to 15Gi",
  },
  "recommends a shrink unless the policy says Enforce": {
    facts: aVolume(empty),
    policy: aPolicy({ mode: {} }),
    plan: "hold",
    reason: "RecommendOnly",
    preview: "shrink from 10Gi to 2Gi",
  },
  "recommends where a ceiling allows no more than that": {
    facts: aVolume(full),
    ceilings: ceilings({ max: "1Ti", modes: { extend: "Recommend" } }),
    plan: "hold",
    reason: "RecommendOnly",
    message: /ClusterVolumePolicy guard/,
  },
  "cools down after an extend": {
    facts: aVolume({ ...full, facts: { changes: extendedAt(NOW_MS - 60_000) } }),
    policy: aPolicy({ behavior: { extend: { cooldown: "5m" } } }),
    plan: "hold",
    reason: "CoolingDown",
    nextEligibleMs: NOW_MS + 240_000,
  },
  "extends right after a shrink that was too much": {
    facts: aVolume({ ...full, facts: { changes: shrunkAt(NOW_MS - 1000) } }),
    policy: aPolicy({ behavior: { extend: { cooldown: "5m" } } }),
    plan: "extend",
    reason: "RuleFired",
  },
  "cools down before a shrink after an extend, too": {
    facts: aVolume({ ...empty, facts: { changes: extendedAt(NOW_MS - HOUR_MS) } }),
    plan: "hold",
    reason: "CoolingDown",
    nextEligibleMs: NOW_MS + 5 * HOUR_MS,
  },
  "waits a little after an operation that failed": {
    facts: aVolume({
      ...full,
      filesystem: {
        lastOperation: {
          kind: "Extend",
          outcome: "Failed",
          endedAtMs: NOW_MS - 2000,
          reason: "DiskFull",
          floorBytes: undefined,
        },
      },
    }),
    plan: "hold",
    reason: "CoolingDown",
    message: /DiskFull/,
    nextEligibleMs: NOW_MS + 8000,
  },
  "waits a little after an extend to a raised request that failed": {
    facts: aVolume({
      claim: { raisedRequestBytes: 20 * GIB },
      filesystem: {
        lastOperation: {
          kind: "Extend",
          outcome: "Failed",
          endedAtMs: NOW_MS - 2000,
          reason: "DiskFull",
          floorBytes: undefined,
        },
      },
    }),
    policy: "none",
    plan: "hold",
    reason: "CoolingDown",
    message: /DiskFull/,
    nextEligibleMs: NOW_MS + 8000,
  },
  "waits until the rule has held for long enough": {
    facts: aVolume(empty),
    policy: aPolicy({ rules: [{ ...SHRINK_BELOW_30, for: "1h" }] }),
    plan: "hold",
    reason: "RulePending",
    rule: "shrink-below-30",
    nextEligibleMs: NOW_MS + HOUR_MS,
  },
  "waits for its window and says when it opens": {
    facts: aVolume(empty),
    policy: aPolicy({
      behavior: { shrink: { windows: [{ cron: "0 2 * * *", duration: "3h", timeZone: "Europe/Berlin" }] } },
    }),
    plan: "hold",
    reason: "OutsideWindow",
    nextEligibleMs: Date.parse("2026-11-21T01:00:00Z"),
  },
  "shrinks inside its window": {
    facts: aVolume(empty),
    policy: aPolicy({
      behavior: { shrink: { windows: [{ cron: "0 13 * * *", duration: "1h", timeZone: "Europe/Berlin" }] } },
    }),
    plan: "shrink",
    reason: "RuleFired",
  },
  "makes no more changes a day than the policy allows": {
    facts: aVolume({ ...empty, facts: { changes: shrunkAt(NOW_MS - 20 * HOUR_MS, NOW_MS - 10 * HOUR_MS) } }),
    policy: aPolicy({ behavior: { shrink: { maxPerDay: 2 } } }),
    plan: "hold",
    reason: "TooManyChanges",
    nextEligibleMs: NOW_MS + 4 * HOUR_MS,
  },
  "makes no more than 60 changes an hour, whatever the policy says": {
    facts: aVolume({ ...full, facts: { changes: extendedAt(...everySecond(60)) } }),
    plan: "hold",
    reason: "TooManyChanges",
    nextEligibleMs: NOW_MS - 60_000 + HOUR_MS,
  },
  "leaves changes under minStep": {
    facts: aVolume({ usedRatio: 0.29 }),
    policy: aPolicy({ behavior: { shrink: { minStep: "8Gi" } } }),
    plan: "hold",
    reason: "StepTooSmall",
  },
  "leaves a size alone that has reached what its rule names": {
    facts: aVolume(full),
    policy: aPolicy({ rules: [{ name: "to-10", action: "Extend", when: "volume.usedRatio >= 0.8", to: "10Gi" }] }),
    plan: "hold",
    reason: "StepTooSmall",
    message: /the size asked for is 10Gi/,
  },
  "makes large changes in steps": {
    facts: aVolume({ sizeBytes: 40 * GIB, usedRatio: 0.9 }),
    policy: aPolicy({ behavior: { extend: { maxStep: "5Gi" } } }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 45 * GIB,
    message: /capped by maxStep \(5Gi\)/,
  },
  "shrinks in steps, too": {
    facts: aVolume(empty),
    policy: aPolicy({ behavior: { shrink: { maxStep: "2Gi" } } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 8 * GIB,
  },

  "holds at limits.max": {
    facts: aVolume(full),
    policy: aPolicy({ limits: { max: "10Gi" } }),
    plan: "hold",
    reason: "AtMaximum",
    message: /limits\.max \(10Gi\)/,
  },
  "extends the last bit up to limits.max, even if it is under minStep": {
    facts: aVolume(full),
    policy: aPolicy({ limits: { max: "10752Mi" } }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 10.5 * GIB,
  },
  "never extends over ten times the request while no ceiling is set": {
    facts: aVolume({ ...full, claim: { nominalBytes: 1 * GIB } }),
    plan: "hold",
    reason: "AtMaximum",
    message: /10 × the claim's request/,
  },
  "extends over ten times the request under a ceiling that allows it": {
    facts: aVolume({ ...full, claim: { nominalBytes: 1 * GIB } }),
    ceilings: LARGE,
    plan: "extend",
    reason: "RuleFired",
  },
  "never extends over the maxSize of the class": {
    facts: aVolume({ ...full, claim: { classMaxBytes: 12 * GIB } }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 12 * GIB,
  },
  "never extends over the free space of the node": {
    facts: aVolume({ ...full, facts: { node: { name: "node-a", freeBytes: 2 * GIB, ioUtilizationRatio: 0 } } }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 12 * GIB,
  },
  "never extends over a ceiling": {
    facts: aVolume(full),
    ceilings: ceilings({ max: "12Gi" }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 12 * GIB,
  },
  "holds at a ceiling and names who set it": {
    facts: aVolume(full),
    ceilings: ceilings({ max: "10Gi" }),
    plan: "hold",
    reason: "CeilingReached",
    message: /ClusterVolumePolicy guard/,
  },
  "reads a ceiling that cannot be read as nothing allowed": {
    facts: aVolume(full),
    ceilings: ceilings({ max: "lots" }),
    plan: "hold",
    reason: "CeilingReached",
  },
  "shrinks nothing under a ceiling that cannot be read": {
    facts: aVolume({ usedRatio: 0.1 }),
    ceilings: ceilings({ max: "12Gi", modes: { shrink: "Sometimes" } }),
    plan: "hold",
    reason: "RecommendOnly",
    message: /ClusterVolumePolicy guard/,
  },
  "never extends over the namespace's budget": {
    facts: aVolume({ ...full, facts: { namespaceBytes: 18 * GIB } }),
    ceilings: ceilings({ max: "1Ti", bytesPerNamespace: "20Gi" }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 12 * GIB,
  },
  "holds when the namespace's budget is spent": {
    facts: aVolume({ ...full, facts: { namespaceBytes: 25 * GIB } }),
    ceilings: ceilings({ max: "1Ti", bytesPerNamespace: "20Gi" }),
    plan: "hold",
    reason: "CeilingReached",
  },
  "never extends over what a ResourceQuota leaves it": {
    facts: aVolume({
      ...full,
      facts: { quota: quotaLeaves(11 * GIB) },
    }),
    ceilings: ceilings({ max: "1Ti" }),
    plan: "extend",
    reason: "RuleFired",
    sizeBytes: 11 * GIB,
  },
  "holds where a ResourceQuota leaves nothing, and says which": {
    facts: aVolume({
      ...full,
      facts: { quota: quotaLeaves(10 * GIB) },
    }),
    ceilings: ceilings({ max: "1Ti" }),
    plan: "hold",
    reason: "AtMaximum",
    message: /what ResourceQuota team leaves of 30Gi requests\.storage \(10Gi\)/,
  },
  "changes nothing of a class that the ceilings leave out": {
    facts: aVolume(empty),
    ceilings: ceilings({ storageClassNames: ["other"] }),
    plan: "hold",
    reason: "CeilingReached",
  },

  "shrinks to the size at which targetUsed was used at the peak": {
    facts: aVolume({ usedRatio: 0.05, peakRatio: 0.2 }),
    plan: "shrink",
    reason: "RuleFired",
    rule: "shrink-below-30",
    sizeBytes: 4 * GIB,
  },
  "never shrinks for what this instant alone shows": {
    facts: aVolume({ usedRatio: 0.05, peakRatio: 0.5 }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "never shrinks under limits.min": {
    facts: aVolume(empty),
    policy: aPolicy({ limits: { min: "6Gi", max: "100Gi" } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 6 * GIB,
    message: /capped by limits\.min \(6Gi\)/,
  },
  "never shrinks under the class' initial size unless limits.min says so": {
    facts: aVolume({ ...empty, claim: { initialSizeBytes: 7 * GIB } }),
    policy: aPolicy({ limits: { max: "100Gi" } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 7 * GIB,
    message: /capped by initialSize of StorageClass \S+ \(7Gi\)/,
  },
  "holds at its minimum": {
    facts: aVolume(empty),
    policy: aPolicy({ limits: { min: "10Gi", max: "100Gi" } }),
    plan: "hold",
    reason: "AtMinimum",
    message: /the size is at limits\.min \(10Gi\)/,
  },
  "always leaves the reserve available, and room for the chunk that the shrink moves": {
    facts: aVolume(empty),
    policy: aPolicy({ rules: [{ name: "to-1", action: "Shrink", when: "volume.usedRatio < 0.3", to: "1Gi" }] }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: Math.ceil((1536 * 10) / 9) * MIB,
    message: /capped by the reserve of 512Mi and a chunk to move/,
  },
  "leaves 256 MiB available however small the filesystem is": {
    facts: aVolume({ sizeBytes: 4 * GIB, usedRatio: 0.25 }),
    policy: aPolicy({ rules: [{ name: "to-1", action: "Shrink", when: "volume.usedRatio < 0.3", to: "1Gi" }] }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: Math.ceil((1280 * 10) / 9) * MIB,
  },
  "counts two seconds of the writer's peak into the reserve": {
    facts: aVolume({ ...empty, reading: { peakWriteBytesPerSecond: GIB } }),
    policy: aPolicy({ rules: [{ name: "to-1", action: "Shrink", when: "volume.usedRatio < 0.3", to: "1Gi" }] }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: Math.ceil((3072 * 10) / 9) * MIB,
  },
  "leaves no more than 1 GiB for the chunk that the shrink moves": {
    facts: aVolume({ sizeBytes: 100 * GIB, usedRatio: 0.05 }),
    policy: aPolicy({
      limits: { min: "1Gi", max: "500Gi", minAvailable: "48Gi" },
      rules: [{ name: "to-1", action: "Shrink", when: "volume.usedRatio < 0.3", to: "1Gi" }],
    }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 54 * GIB,
  },
  "takes the largest size of all Shrink rules that hold": {
    facts: aVolume(empty),
    policy: aPolicy({
      rules: [SHRINK_BELOW_30, { name: "careful", action: "Shrink", when: "volume.usedRatio < 0.3", by: "10%" }],
    }),
    plan: "shrink",
    reason: "RuleFired",
    rule: "careful",
    sizeBytes: 9 * GIB,
  },
  "shrinks less where an Extend would hold on the predicted facts": {
    facts: aVolume({ sizeBytes: 100 * GIB, usedRatio: 0.2 }),
    policy: aPolicy({
      limits: { min: "1Gi", max: "100Gi", minAvailable: "1Gi" },
      rules: [EXTEND_AT_80, { ...SHRINK_BELOW_30, targetUsed: "79%" }],
    }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 28_283 * MIB,
    message: /capped by extend-at-80, which would extend it again/,
  },
  "shrinks less where an Extend by what was used lately would hold on the predicted facts, with the same margin": {
    facts: aVolume({ sizeBytes: 100 * GIB, usedRatio: 0.2 }),
    policy: aPolicy({
      limits: { min: "1Gi", max: "100Gi", minAvailable: "1Gi" },
      rules: [
        { ...EXTEND_AT_80, when: "volume.usedRatioMax('1h') >= 0.8" },
        { ...SHRINK_BELOW_30, targetUsed: "79%" },
      ],
    }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 28_283 * MIB,
    message: /capped by extend-at-80, which would extend it again/,
  },
  "does not shrink where an Extend would hold at any smaller size": {
    facts: aVolume({ usedRatio: 0.28 }),
    policy: aPolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio >= 0.3" }, SHRINK_BELOW_30] }),
    plan: "hold",
    reason: "WouldFlap",
    message: /extend-at-80/,
  },
  "does not shrink what cannot shrink, and says what could be saved": {
    facts: aVolume({ ...empty, claim: { fsType: "xfs" }, reading: { inodesTotal: 100, inodesUsed: 1 } }),
    plan: "hold",
    reason: "ShrinkUnsupported",
    message: /xfs/,
  },
  "does not shrink a btrfs whose data somebody has converted, and names the profile": {
    facts: aVolume({ ...empty, reading: withCopies(dataProfilesOf(["single", "dup"]), GIB / 4) }),
    plan: "hold",
    reason: "ShrinkUnsupported",
    message: /data has the profile single and dup, and only single shrinks: btrfs balance start -dconvert=single/,
  },
  "does not shrink ext4, which a crash could take with it": {
    facts: aVolume({ ...empty, claim: { fsType: "ext4" }, reading: { inodesTotal: 100, inodesUsed: 1 } }),
    plan: "hold",
    reason: "ShrinkNotCrashSafe",
    message: /ext4.*crash/,
  },
  "does not shrink ext4 without a window, though a snapshot could take it back": {
    facts: anExt4(),
    plan: "hold",
    reason: "ShrinkNotCrashSafe",
    message: /behavior\.shrink\.windows$/,
  },
  "does not shrink ext4 outside its window": {
    facts: anExt4(),
    policy: aPolicy({ behavior: { shrink: { windows: [{ cron: "0 2 * * *", duration: "3h" }] } } }),
    plan: "hold",
    reason: "OutsideWindow",
  },
  "does not shrink ext4 of a thick class inside its window": {
    facts: anExt4({ shrinksUnmounted: false }),
    policy: aPolicy(IN_WINDOW),
    plan: "hold",
    reason: "ShrinkNotCrashSafe",
    message: /ext4.*crash/,
  },
  "only recommends to shrink ext4 where the mode says so": {
    facts: anExt4(),
    policy: aPolicy({ ...IN_WINDOW, mode: { shrink: "Recommend" } }),
    plan: "hold",
    reason: "RecommendOnly",
  },
  "shrinks ext4 of a thin class at the next unmount, inside its window, and for five minutes": {
    facts: anExt4(),
    policy: aPolicy(IN_WINDOW),
    plan: "shrink",
    reason: "RuleFired",
    message: /at the next unmount$/,
    notAfterMs: NOW_MS + 300_000,
  },
  "shrinks ext4 at an unmount no later than its window closes": {
    facts: anExt4(),
    policy: aPolicy({ behavior: { shrink: { windows: [{ cron: "1 11 * * *", duration: "1h" }] } } }),
    plan: "shrink",
    reason: "RuleFired",
    notAfterMs: NOW_MS + 60_000,
  },
  "waits for the unmount of an ext4 once that is decided": {
    facts: anExt4({ plannedShrink: { ...PLANNED, notAfterMs: NOW_MS + 121_000 } }),
    policy: aPolicy(IN_WINDOW),
    plan: "hold",
    reason: "ShrinkAtUnmount",
    message: /from 10Gi to 2Gi when it is unmounted/,
  },
  "decides anew before what waits for an unmount is over": {
    facts: anExt4({ plannedShrink: { ...PLANNED, notAfterMs: NOW_MS + 120_000 } }),
    policy: aPolicy(IN_WINDOW),
    plan: "shrink",
    reason: "RuleFired",
    notAfterMs: NOW_MS + 300_000,
  },
  "decides anew where more is used than what waits for an unmount would leave room for": {
    facts: anExt4({ plannedShrink: { ...PLANNED, sizeBytes: 1 * GIB, notAfterMs: NOW_MS + 300_000 } }),
    policy: aPolicy(IN_WINDOW),
    plan: "shrink",
    reason: "RuleFired",
    notAfterMs: NOW_MS + 300_000,
  },
  "decides anew where what waits for an unmount was decided on another size": {
    facts: anExt4({ plannedShrink: { ...PLANNED, fromBytes: 9 * GIB, notAfterMs: NOW_MS + 300_000 } }),
    policy: aPolicy(IN_WINDOW),
    plan: "shrink",
    reason: "RuleFired",
    notAfterMs: NOW_MS + 300_000,
  },
  "extends an ext4 though a shrink waits for its unmount": {
    facts: aVolume({
      ...full,
      claim: { fsType: "ext4" },
      filesystem: { shrinksUnmounted: true, plannedShrink: { ...PLANNED, notAfterMs: NOW_MS + 300_000 } },
    }),
    policy: aPolicy(IN_WINDOW),
    plan: "extend",
    reason: "RuleFired",
  },
  "says why the last shrink of an ext4 was not made, until it has cooled down": {
    facts: anExt4({
      lastOperation: {
        kind: "Shrink",
        outcome: "Cancelled",
        endedAtMs: NOW_MS - HOUR_MS,
        reason: "ShrinkNotCrashSafe",
        message: "the thin pool has 3Mi",
        floorBytes: undefined,
      },
    }),
    policy: aPolicy(IN_WINDOW),
    plan: "hold",
    reason: "ShrinkNotCrashSafe",
    message: /the thin pool has 3Mi/,
    nextEligibleMs: NOW_MS + 5 * HOUR_MS,
  },
  "leaves a filesystem alone that has just found its floor": {
    facts: aVolume({
      ...empty,
      filesystem: {
        lastOperation: {
          kind: "Shrink",
          outcome: "FloorReached",
          endedAtMs: NOW_MS - HOUR_MS,
          reason: undefined,
          floorBytes: 6 * GIB,
        },
      },
    }),
    plan: "hold",
    reason: "ShrinkFloorReached",
    message: /6Gi/,
    nextEligibleMs: NOW_MS + 5 * HOUR_MS,
  },
  "shrinks again when no more is asked for than the floor allows": {
    facts: aVolume({
      usedRatio: 0.1,
      filesystem: {
        lastOperation: {
          kind: "Shrink",
          outcome: "FloorReached",
          endedAtMs: NOW_MS - HOUR_MS,
          reason: undefined,
          floorBytes: 1 * GIB,
        },
      },
    }),
    plan: "shrink",
    reason: "RuleFired",
  },
  "asks for no less than the floor that was found, though the cooldown is over": {
    facts: aVolume({ ...empty, filesystem: { lastOperation: floorFound(6 * GIB) } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 6 * GIB,
    message: /capped by the floor of the last shrink \(6Gi\)/,
  },
  "leaves a filesystem alone that cannot be smaller, though the cooldown is over": {
    facts: aVolume({ ...empty, filesystem: { lastOperation: floorFound(9.5 * GIB) } }),
    plan: "hold",
    reason: "ShrinkFloorReached",
    message: /cannot shrink below 9.50Gi now; next try when its use changes by 102Mi/,
  },
  "forgets the floor of another size": {
    facts: aVolume({ ...empty, filesystem: { lastOperation: { ...floorFound(6 * GIB), reachedBytes: 9 * GIB } } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 2 * GIB,
  },
  "leaves a filesystem alone whose data cannot be moved, as its last shrink has found": {
    facts: aVolume({
      ...empty,
      filesystem: {
        lastOperation: { ...floorFound(10 * GIB), reason: "DataImmovable" },
        immovable: "it has 3 snapshots",
      },
    }),
    plan: "hold",
    reason: "ShrinkFloorReached",
  },
  "forgets the floor that it had for data that could not be moved, once that has passed": {
    facts: aVolume({
      ...empty,
      filesystem: { lastOperation: { ...floorFound(10 * GIB), reason: "DataImmovable" } },
    }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 2 * GIB,
  },
  "leaves a filesystem alone whose shrink a writer has cancelled": {
    facts: aVolume({
      ...empty,
      filesystem: {
        lastOperation: {
          kind: "Shrink",
          outcome: "Cancelled",
          endedAtMs: NOW_MS - HOUR_MS,
          reason: "Burst",
          floorBytes: undefined,
        },
      },
    }),
    plan: "hold",
    reason: "ShrinkCancelled",
    nextEligibleMs: NOW_MS + 5 * HOUR_MS,
  },
  "does not shrink while its window has gaps": {
    facts: aVolume({ ...empty, history: steadyHistory({ missing: "7% of the last 24h was not measured" }) }),
    plan: "hold",
    reason: "NotEnoughHistory",
  },
  "does not shrink while an Extend rule cannot be told": {
    facts: aVolume(empty),
    policy: aPolicy({
      rules: [{ ...EXTEND_AT_80, when: "double(volume.labels['threshold']) < volume.usedRatio" }, SHRINK_BELOW_30],
    }),
    plan: "hold",
    reason: "RuleError",
    rule: "extend-at-80",
  },
  "extends by the rule that can be told while another cannot": {
    facts: aVolume(full),
    policy: aPolicy({
      rules: [EXTEND_AT_80, { name: "labelled", action: "Extend", when: "volume.labels['nope'] == 'x'", by: "10%" }],
    }),
    plan: "extend",
    reason: "RuleFired",
    rule: "extend-at-80",
  },
  "holds when the size that a rule names cannot be told": {
    facts: aVolume(full),
    policy: aPolicy({
      rules: [
        {
          name: "labelled",
          action: "Extend",
          when: "volume.usedRatio >= 0.8",
          toExpression: "quantity(volume.labels['nope'])",
        },
      ],
    }),
    plan: "hold",
    reason: "RuleError",
  },

  "holds while it is not mounted": {
    facts: aVolume({ ...full, filesystem: { mounted: false } }),
    plan: "hold",
    reason: "NotMounted",
  },
  "holds while nothing was measured": { facts: aVolume({ reading: "none" }), plan: "hold", reason: "StaleMetrics" },
  "holds on an old reading": {
    facts: aVolume({ ...full, reading: { takenMs: NOW_MS - 11_000 } }),
    plan: "hold",
    reason: "StaleMetrics",
  },
  "takes a reading for fresh for three intervals of its source": {
    facts: aVolume({ ...full, reading: { takenMs: NOW_MS - 40_000, source: "prometheus", intervalMs: 15_000 } }),
    plan: "extend",
    reason: "RuleFired",
  },
  "holds on a reading from the future": {
    facts: aVolume({ ...full, reading: { takenMs: NOW_MS + 60_000 } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on NaN": {
    facts: aVolume({ reading: { usedBytes: Number.NaN } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on a negative figure": {
    facts: aVolume({ reading: { availableBytes: -1 } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on figures that do not add up": {
    facts: aVolume({ reading: { usedBytes: 1 } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on more used inodes than there are": {
    facts: aVolume({ reading: { inodesTotal: 10, inodesUsed: 11 } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds while the capacity lags a resize": {
    facts: aVolume({
      sizeBytes: 20 * GIB,
      reading: { capacityBytes: 10 * GIB, usedBytes: 9 * GIB, availableBytes: 1 * GIB },
    }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds while half of the members is shown, and data has one copy: that is a resize which is not over": {
    facts: aVolume({ reading: withCopies(0, 4.5 * GIB) }),
    plan: "hold",
    reason: "MetricsInconsistent",
    message: /reports 5Gi, but its devices have 10Gi/,
  },
  "holds while the capacity lags a resize of a filesystem whose data has two copies": {
    facts: aVolume({ sizeBytes: 12 * GIB, reading: withCopies(dataProfilesOf(["dup"]), 4.5 * GIB) }),
    plan: "hold",
    reason: "MetricsInconsistent",
    message: /reports 10Gi, but its devices have 12Gi/,
  },
  "holds while the filesystem shows more than its members have": {
    facts: aVolume({ reading: { capacityBytes: 12 * GIB, usedBytes: 10 * GIB, availableBytes: 2 * GIB } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on a reading from before the last operation ended": {
    facts: aVolume({
      ...full,
      filesystem: {
        lastOperation: {
          kind: "Extend",
          outcome: "Succeeded",
          endedAtMs: NOW_MS - 100,
          reason: undefined,
          floorBytes: undefined,
        },
      },
    }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "extends on a fresh reading of the agent while Prometheus is down": {
    facts: aVolume({ ...full, facts: { metricsStale: true } }),
    plan: "extend",
    reason: "RuleFired",
  },
  "holds an Extend rule while Prometheus is down where the policy says Hold": {
    facts: aVolume({ ...full, facts: { metricsStale: true } }),
    policy: aPolicy({ onStaleMetrics: "Hold" }),
    plan: "hold",
    reason: "StaleMetrics",
  },
  "still extends for minAvailable while Prometheus is down and the policy says Hold": {
    facts: aVolume({ usedRatio: 0.99, facts: { metricsStale: true } }),
    policy: aPolicy({ onStaleMetrics: "Hold" }),
    plan: "extend",
    reason: "BelowMinAvailable",
  },
  "holds after an operation whose end is no date, since no reading is known to be newer": {
    facts: aVolume({ ...full, filesystem: { lastOperation: endedAt(Number.NaN) } }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "holds on a reading of the very instant at which the last operation ended": {
    facts: aVolume({
      ...full,
      reading: { takenMs: NOW_MS - 200 },
      filesystem: { lastOperation: endedAt(NOW_MS - 200) },
    }),
    plan: "hold",
    reason: "MetricsInconsistent",
  },
  "extends on a reading from right after the last operation ended": {
    facts: aVolume({
      ...full,
      reading: { takenMs: NOW_MS - 200 },
      filesystem: { lastOperation: endedAt(NOW_MS - 201) },
    }),
    plan: "extend",
    reason: "RuleFired",
  },
  "shrinks to no less than a minimum that is no whole MiB": {
    facts: aVolume({ usedRatio: 0.01 }),
    policy: aPolicy({ limits: { min: "2000000000", max: "100Gi" } }),
    plan: "shrink",
    reason: "RuleFired",
    sizeBytes: 1908 * MIB,
  },
  "extends beyond a running shrink for a writer that would run out of space": {
    facts: aVolume({ usedRatio: 0.999, filesystem: { operationInProgress: "Shrink" } }),
    plan: "extend",
    reason: "BelowMinAvailable",
  },
  "leaves a running shrink alone on a reading that is stale": {
    facts: aVolume({
      usedRatio: 0.999,
      reading: { takenMs: NOW_MS - 60_000 },
      filesystem: { operationInProgress: "Shrink" },
    }),
    plan: "hold",
    reason: "OperationInProgress",
  },
  "leaves a running shrink alone on a reading that is impossible": {
    facts: aVolume({
      usedRatio: 0.999,
      reading: { availableBytes: 0 },
      filesystem: { operationInProgress: "Shrink" },
    }),
    plan: "hold",
    reason: "OperationInProgress",
  },
  "holds where what its namespace has is not known: that leaves nothing of a budget": {
    facts: aVolume({ ...full, facts: { namespaceBytes: Number.NaN } }),
    ceilings: ceilings({ max: "1Ti", bytesPerNamespace: "100Gi" }),
    plan: "hold",
    reason: "CeilingReached",
  },
  ...Object.fromEntries(
    Object.entries(WRONG_CLOCKS).flatMap(([what, aheadMs]): [string, Case][] => [
      [
        `extends on a node whose clock is ${what}`,
        { facts: aVolume({ ...full, reading: { aheadMs } }), plan: "extend", reason: "RuleFired", sizeBytes: 15 * GIB },
      ],
      [
        `extends beyond a running shrink on a node whose clock is ${what}`,
        {
          facts: aVolume({ usedRatio: 0.999, reading: { aheadMs }, filesystem: { operationInProgress: "Shrink" } }),
          plan: "extend",
          reason: "BelowMinAvailable",
        },
      ],
      [
        `shrinks nothing on a node whose clock is ${what}`,
        {
          facts: aVolume({ ...empty, reading: { aheadMs } }),
          plan: "hold",
          reason: "ClockDiffers",
          rule: "shrink-below-30",
          message: new RegExp(`set the clocks right: that of node node-a is 1[hd] ${what.split(" ")[2]}`),
        },
      ],
    ]),
  ),
  "says what else holds a shrink, whatever the clocks": {
    facts: aVolume({ ...empty, reading: { aheadMs: HOUR_MS }, facts: { changes: extendedAt(NOW_MS - 60_000) } }),
    plan: "hold",
    reason: "CoolingDown",
  },
  "says that no rule holds, whatever the clocks": {
    facts: aVolume({ reading: { aheadMs: HOUR_MS } }),
    plan: "hold",
    reason: "WithinBounds",
  },
  "shrinks where the clocks differ by no more than 5 s ahead": {
    facts: aVolume({ ...empty, reading: { aheadMs: 5000 } }),
    plan: "shrink",
    reason: "RuleFired",
  },
  "shrinks where the clocks differ by no more than 10 s behind, as a network delays": {
    facts: aVolume({ ...empty, reading: { aheadMs: -10_000 } }),
    plan: "shrink",
    reason: "RuleFired",
  },
  "shrinks nothing where the node's clock shows no time": {
    facts: aVolume({ ...empty, reading: { aheadMs: Number.NaN } }),
    plan: "hold",
    reason: "ClockDiffers",
  },
  "waits out a cooldown whatever the wall clock shows, and says until when it does": {
    facts: aVolume({
      ...empty,
      facts: { nowMs: NOW_MS + 30 * HOUR_MS, changes: extendedAt(NOW_MS - HOUR_MS) },
    }),
    plan: "hold",
    reason: "CoolingDown",
    nextEligibleMs: NOW_MS + 35 * HOUR_MS,
  },
  "never shrinks while Prometheus is down": {
    facts: aVolume({ ...empty, facts: { metricsStale: true } }),
    plan: "hold",
    reason: "StaleMetrics",
  },
};

/** Of a condition and an Event: what is read at once in `kubectl describe`. */
const MESSAGE_LIMIT_CHARACTERS = 160;

describe("decide", () => {
  it.each(Object.entries(cases))("%s", (_sentence, expected) => {
    const policy = expected.policy === "none" ? undefined : (expected.policy ?? aPolicy());
    const plan = decide(expected.facts, policy, expected.ceilings ?? NO_CEILINGS);
    expect({ plan: plan.kind, reason: plan.reason, message: plan.message }).toMatchObject({
      plan: expected.plan,
      reason: expected.reason,
      message: expect.stringMatching(expected.message ?? /./),
    });
    expect(plan.message.length).toBeLessThanOrEqual(MESSAGE_LIMIT_CHARACTERS);
    if (expected.rule !== undefined) expect(plan.rule).toBe(expected.rule);
    if (plan.kind === "hold") {
      if (expected.nextEligibleMs !== undefined) expect(plan.nextEligibleMs).toBe(expected.nextEligibleMs);
      if (expected.preview !== undefined) expect(plan.preview).toBe(expected.preview);
      return;
    }
    if (expected.sizeBytes !== undefined) expect(plan.sizeBytes).toBe(expected.sizeBytes);
    expect(plan.notAfterMs).toBe(expected.notAfterMs);
  });
});
