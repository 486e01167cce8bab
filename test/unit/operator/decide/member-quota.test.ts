import { describe, expect, it } from "@jest/globals";
import type { ResourceQuota } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { quotaMessage, tightestQuota } from "../../../../src/operator/decide/members/member-bytes.ts";

const KEY = "gp3.storageclass.storage.k8s.io/requests.storage";

function quota(name: string, hard: Record<string, string>, used: Record<string, string> = {}): ResourceQuota {
  return {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { namespace: "shop", name },
    spec: { hard },
    status: { used },
  };
}

describe("the quota of a namespace on a class", () => {
  it("counts what the namespace's own claims have of the class beside its other volumes' members", () => {
    expect(tightestQuota([quota("a", { [KEY]: "10Gi" }, { [KEY]: "3Gi" })], "gp3", 2 * GIB)).toMatchObject({
      limitBytes: 10 * GIB,
      takenBytes: 5 * GIB,
    });
  });

  it("is the one that leaves the least", () => {
    const quotas = [quota("wide", { [KEY]: "10Gi" }), quota("tight", { [KEY]: "12Gi" }, { [KEY]: "8Gi" })];
    expect(tightestQuota(quotas, "gp3", 0)?.name).toBe("tight");
  });

  it.each([
    ["another class", { "gp2.storageclass.storage.k8s.io/requests.storage": "1Gi" }],
    ["storage of any class, of which a claim's request is a part already", { "requests.storage": "1Gi" }],
  ])("is none where quotas are on %s", (_what, hard: Record<string, string>) => {
    expect(tightestQuota([quota("other", hard)], "gp3", GIB)).toBeUndefined();
  });

  it.each(["9e99", "-", "1e400Gi"])(
    "is none where one says %s, which is no size: the default budget stands",
    (size) => {
      expect(tightestQuota([quota("huge", { [KEY]: size })], "gp3", GIB)).toBeUndefined();
    },
  );

  it("is none where one is for some claims only: nobody lifts the default budget by it", () => {
    const { spec, ...one } = quota("scoped", { [KEY]: "100Ti" });
    const scoped = { scopes: ["VolumeAttributesClass"] };
    expect(tightestQuota([{ ...one, spec: { ...spec, ...scoped } }], "gp3", GIB)).toBeUndefined();
    const selected = { scopeSelector: { matchExpressions: [] } };
    expect(tightestQuota([{ ...one, spec: { ...spec, ...selected } }], "gp3", GIB)).toBeUndefined();
  });

  it("leaves nothing where what is used cannot be read", () => {
    const taken = tightestQuota([quota("odd", { [KEY]: "10Gi" }, { [KEY]: "much" })], "gp3", GIB);
    expect(taken).toMatchObject({ limitBytes: 10 * GIB, takenBytes: 11 * GIB });
  });
});

it("a default budget says who gives how much, and how much more is wanted", () => {
  const budget = { namespace: "shop", className: "gp3", name: undefined, limitBytes: 10 * GIB, takenBytes: 8 * GIB };
  expect(quotaMessage(budget, 2 * GIB, 0)).toBeUndefined();
  expect(quotaMessage(budget, 3 * GIB, 0)).toBe(
    "the default budget (--default-namespace-budget) allows 10Gi of class gp3; others use 8Gi, " +
      "this volume needs 3Gi",
  );
});
