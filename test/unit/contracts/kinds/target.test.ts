import { describe, expect, it } from "@jest/globals";
import type { WantedTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import { readGrant, writeGrant } from "../../../../src/contracts/kinds/grant.ts";
import { type DecidedTarget, nodeTarget, readTarget, writeTarget } from "../../../../src/contracts/kinds/target.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";

const NODE = {
  sizeBytes: 2 * GIB,
  fromBytes: 3 * GIB,
  epoch: 7,
  decidedAt: "2026-01-01T00:00:10.000Z",
  notAfterMs: Date.parse("2026-01-01T01:00:00.000Z"),
};
const DECIDED: DecidedTarget = {
  ...NODE,
  members: 2,
  why: { policy: "shop/default", rule: "shrink-below-30", reason: "RuleMatched", message: "10% is used" },
};

describe("a target", () => {
  it("is written with every field, each of which its kind has", () => {
    expect(writeTarget(DECIDED)).toEqual({
      size: "2Gi",
      from: "3Gi",
      epoch: 7,
      decidedAt: "2026-01-01T00:00:10.000Z",
      notAfter: "2026-01-01T01:00:00.000Z",
      members: 2,
      policy: "shop/default",
      rule: "shrink-below-30",
      reason: "RuleMatched",
      message: "10% is used",
    } satisfies Required<WantedTarget>);
  });

  it("is written without the fields that say nothing", () => {
    const plain = writeTarget({ ...NODE, notAfterMs: undefined, members: undefined, why: undefined });
    expect(Object.keys(plain).sort()).toEqual(["decidedAt", "epoch", "from", "size"]);
  });

  it("reaches the node as it was decided, by way of what the operator passes on", () => {
    expect(readTarget(nodeTarget(writeTarget(DECIDED)))).toEqual(NODE);
    expect(Object.keys(nodeTarget(writeTarget(DECIDED))).sort()).toEqual([
      "decidedAt",
      "epoch",
      "from",
      "notAfter",
      "size",
    ]);
  });

  it("has a latest start that has passed where that cannot be read", () => {
    const { notAfterMs = 0 } = readTarget({ ...nodeTarget(writeTarget(DECIDED)), notAfter: "soon" });
    expect(Number.NEGATIVE_INFINITY < notAfterMs).toBe(false);
  });
});

describe("an emergency grant", () => {
  const grant = {
    sizeBytes: 2 * GIB,
    minAvailableBytes: 64 * MIB,
    expiryMs: Date.parse("2026-01-02T00:00:00Z"),
    epoch: 7,
  };

  it("is read as it was written", () => {
    expect(readGrant(writeGrant(grant))).toEqual(grant);
  });

  it("has expired where its expiry cannot be read, and can be written again", () => {
    const unreadable = readGrant({ ...writeGrant(grant), expiry: "soon" });
    expect(unreadable.expiryMs).toBe(0);
    expect(writeGrant(unreadable).expiry).toBe("1970-01-01T00:00:00.000Z");
  });
});
