import { describe, expect, it } from "@jest/globals";
import {
  decideThinPool,
  METADATA_MAX_BYTES,
  readGrowth,
  type ThinPoolFacts,
  type ThinPoolGrowth,
} from "../../../../src/agent/thin-pool/decide-thin-pool.ts";
import type { ClusterVolumePolicy } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";

const GRAIN = 4 * MIB;
const aPool = (facts: Partial<ThinPoolFacts> = {}): ThinPoolFacts => ({
  deviceClass: "thin",
  sizeBytes: 100 * GIB,
  metadataSizeBytes: 100 * MIB,
  dataUsedRatio: 0.5,
  metadataUsedRatio: 0.5,
  groupFreeBytes: 1000 * GIB,
  grainBytes: GRAIN,
  ...facts,
});
const growth = (change: Partial<ThinPoolGrowth> = {}): ThinPoolGrowth => ({
  policy: "ClusterVolumePolicy pools",
  suspended: false,
  extendAtRatio: 0.8,
  by: { kind: "ratio", ratio: 0.2 },
  maxBytes: undefined,
  ...change,
});

describe("what is done about a thin pool", () => {
  it("is nothing while data and metadata are under the threshold", () =>
    expect(decideThinPool(aPool({ dataUsedRatio: 0.799, metadataUsedRatio: 0.799 }), growth())).toMatchObject({
      kind: "hold",
      reason: "WithinBounds",
    }));

  it.each([
    ["data, by its own ratio", { dataUsedRatio: 0.8 }, {}, { sizeBytes: 120 * GIB, metadataSizeBytes: 100 * MIB }],
    [
      "metadata, by its own ratio",
      { metadataUsedRatio: 0.8 },
      {},
      { sizeBytes: 100 * GIB, metadataSizeBytes: 120 * MIB },
    ],
    [
      "data by bytes, metadata by the same share",
      { dataUsedRatio: 0.9, metadataUsedRatio: 0.9 },
      { by: { kind: "bytes", bytes: 40 * GIB } as const },
      { sizeBytes: 140 * GIB, metadataSizeBytes: 140 * MIB },
    ],
    ["data up to max and no further", { dataUsedRatio: 0.9 }, { maxBytes: 105 * GIB }, { sizeBytes: 105 * GIB }],
    ["data by what the group has left", { dataUsedRatio: 0.9, groupFreeBytes: 3 * GIB }, {}, { sizeBytes: 103 * GIB }],
    ["by whole grains only", { dataUsedRatio: 0.9, groupFreeBytes: GRAIN + 1 }, {}, { sizeBytes: 100 * GIB + GRAIN }],
    ["by a grain at least", { metadataUsedRatio: 0.9, metadataSizeBytes: GRAIN }, {}, { metadataSizeBytes: 2 * GRAIN }],
    [
      "metadata first, where both are short and the group has little",
      { dataUsedRatio: 0.9, metadataUsedRatio: 0.9, groupFreeBytes: 40 * MIB },
      {},
      { sizeBytes: 100 * GIB, metadataSizeBytes: 120 * MIB },
    ],
    [
      "metadata to no more than LVM makes",
      { metadataUsedRatio: 0.9, metadataSizeBytes: METADATA_MAX_BYTES - GRAIN - 1 },
      {},
      { metadataSizeBytes: METADATA_MAX_BYTES - 1 },
    ],
  ])("is to extend %s", (_what, facts, change, expected) =>
    expect(decideThinPool(aPool(facts), growth(change))).toMatchObject({ kind: "extend", ...expected }),
  );

  it.each([
    [
      "the group has nothing left",
      { dataUsedRatio: 0.9, groupFreeBytes: GRAIN - 1 },
      {},
      /4.00Mi are left beyond the spare/,
    ],
    [
      "it is at its max",
      { dataUsedRatio: 0.99 },
      { maxBytes: 100 * GIB },
      /max of ClusterVolumePolicy pools \(100Gi\)/,
    ],
    [
      "it is over its max",
      { dataUsedRatio: 0.99 },
      { maxBytes: 50 * GIB },
      /max of ClusterVolumePolicy pools \(50Gi\)/,
    ],
  ])("is to say that it is full where %s", (_why, facts, change, message) =>
    expect(decideThinPool(aPool(facts), growth(change))).toMatchObject({
      kind: "hold",
      reason: "ThinPoolFull",
      message: expect.stringMatching(message),
    }),
  );

  it.each([
    ["its data's use is no number", { dataUsedRatio: Number.NaN }],
    ["its metadata's use is no number", { metadataUsedRatio: Number.NaN }],
    ["more is used than there is", { dataUsedRatio: 1.5 }],
    ["less than nothing is used", { metadataUsedRatio: -0.1 }],
    ["its metadata have no size", { metadataSizeBytes: 0, dataUsedRatio: 0.9 }],
    ["its group has less than nothing left", { groupFreeBytes: -1, dataUsedRatio: 0.9 }],
    ["its size is no number", { sizeBytes: Number.NaN, dataUsedRatio: 0.9 }],
  ])("is to leave it where %s, and to say so", (_what, facts) =>
    expect(decideThinPool(aPool(facts), growth())).toMatchObject({
      kind: "hold",
      reason: "ThinPoolUnknown",
      message: expect.stringContaining("the thin pool of thin"),
    }),
  );

  it("is never more than the group has, with the second volume that LVM keeps for metadata", () => {
    const both = { dataUsedRatio: 0.9, metadataUsedRatio: 0.9, groupFreeBytes: 400 * MIB };
    const plan = decideThinPool(aPool({ ...both, metadataSizeBytes: GIB }), growth());
    expect(plan).toMatchObject({ kind: "extend", sizeBytes: 100 * GIB, metadataSizeBytes: GIB + 200 * MIB });
    const little = decideThinPool(aPool({ ...both, groupFreeBytes: 60 * MIB }), growth());
    expect(little).toMatchObject({ kind: "extend", sizeBytes: 100 * GIB + 20 * MIB, metadataSizeBytes: 120 * MIB });
  });

  it("is nothing while the policy is suspended, and that is said", () =>
    expect(decideThinPool(aPool({ dataUsedRatio: 0.9 }), growth({ suspended: true }))).toMatchObject({
      reason: "PolicySuspended",
    }));
});

type Spec = ClusterVolumePolicy["spec"];
function policy(name: string, spec: Spec, createdAt = "2026-01-01T00:00:00Z"): ClusterVolumePolicy {
  const metadata = { name, creationTimestamp: createdAt };
  return { apiVersion: "tidemark.dev/v1alpha1", kind: "ClusterVolumePolicy", metadata, spec };
}
const naming = (extendAt: string, more: Spec = {}): Spec => ({
  thinPools: [{ deviceClass: "thin", extendAt }],
  ...more,
});

describe("the policy on a device class' thin pools", () => {
  it("is none where no policy names the class", () =>
    expect(
      readGrowth([policy("a", { thinPools: [{ deviceClass: "other" }] }), policy("b", {})], "thin"),
    ).toBeUndefined());

  it("has defaults for what it leaves out", () =>
    expect(readGrowth([policy("a", { thinPools: [{ deviceClass: "thin" }] })], "thin")).toEqual({
      policy: "ClusterVolumePolicy a",
      suspended: false,
      extendAtRatio: 0.8,
      by: { kind: "ratio", ratio: 0.2 },
      maxBytes: undefined,
    }));

  it("is the one of the highest priority, then the oldest, then the first by name", () => {
    const young = policy("a", naming("70%"), "2026-02-01T00:00:00Z");
    const old = policy("z", naming("75%"));
    const same = policy("y", naming("76%"));
    const high = policy("m", naming("60%", { priority: 1 }), "2026-03-01T00:00:00Z");
    expect(readGrowth([young, old, high], "thin")).toMatchObject({ extendAtRatio: 0.6 });
    expect(readGrowth([young, old], "thin")).toMatchObject({ extendAtRatio: 0.75 });
    expect(readGrowth([old, same], "thin")).toMatchObject({ extendAtRatio: 0.76 });
  });

  it("holds everything while it is suspended, although another one names the class", () =>
    expect(
      readGrowth([policy("a", naming("70%", { suspend: true, priority: 1 })), policy("b", naming("75%"))], "thin"),
    ).toMatchObject({
      suspended: true,
    }));

  it("is not guessed where it cannot be read", () =>
    expect(readGrowth([policy("a", naming("much"))], "thin")).toEqual({
      problem: expect.stringContaining('ClusterVolumePolicy a, thinPools of thin: "much"'),
    }));
});
