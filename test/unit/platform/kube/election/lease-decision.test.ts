import { describe, expect, it } from "@jest/globals";
import type { Lease } from "../../../../../src/contracts/kubernetes/resources.ts";
import { EPOCH_ANNOTATION } from "../../../../../src/contracts/names.ts";
import {
  decideLease,
  epochOf,
  observe,
  releasedLease,
  takenLease,
} from "../../../../../src/platform/kube/election/lease-decision.ts";

const NAME = { namespace: "tidemark-system", name: "operator" };
const RULES = { identity: "me", leaseDurationMs: 15_000 };

function lease(holderIdentity: string | undefined, leaseDurationSeconds = 15, annotations = {}): Lease {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { ...NAME, resourceVersion: "7", annotations },
    spec: { holderIdentity, leaseDurationSeconds },
  };
}

describe("decideLease", () => {
  it.each([
    ["there is none and nobody ever led", undefined, 0, 0, "take"],
    ["there is none although somebody led", undefined, 3, 14_999, "wait"],
    ["there has been none for a lease duration", undefined, 3, 15_000, "take"],
    ["it was released", lease(""), 3, 0, "take"],
    ["it was never held", lease(undefined), 3, 0, "take"],
    ["it is ours, by a take whose answer was lost", lease("me"), 3, 0, "take"],
    ["another's changed just now", lease("other"), 3, 14_999, "wait"],
    ["another's has not changed for a lease duration", lease("other"), 3, 15_000, "take"],
    ["another's runs longer than ours", lease("other", 60), 3, 59_999, "wait"],
    ["another's runs shorter than ours", lease("other", 1), 3, 14_999, "wait"],
  ])("when %s", (_when, held, epoch, unchangedMs, expected) => {
    const observation = { resourceVersion: held?.metadata.resourceVersion, sinceMs: 1000 };
    expect(decideLease(held, observation, epoch, 1000 + unchangedMs, RULES).do).toBe(expected);
  });

  it("counts from when this candidate saw the last change, whatever the Lease's own times say", () => {
    const first = observe(undefined, lease("other"), 1000);
    expect(observe(first, lease("other"), 9000)).toEqual(first);
    const moved = { ...lease("other"), metadata: { ...lease("other").metadata, resourceVersion: "8" } };
    expect(observe(first, moved, 9000)).toEqual({ resourceVersion: "8", sinceMs: 9000 });
  });
});

describe("the epoch", () => {
  it("is 0 on a Lease without one, and read exactly from one that has it", () => {
    expect([epochOf(undefined), epochOf(lease("x"))]).toEqual([0, 0]);
    expect(epochOf(lease("x", 15, { [EPOCH_ANNOTATION]: "12" }))).toBe(12);
  });

  it.each(["", "-1", "1.5", "1e3", "x", "99999999999999999999"])(
    "throws on %j, naming Lease and annotation",
    (text) => {
      expect(() => epochOf(lease("x", 15, { [EPOCH_ANNOTATION]: text }))).toThrow(
        /Lease tidemark-system\/operator: annotation tidemark\.dev\/epoch/,
      );
    },
  );

  it("is written with the identity in one object, under the version that was read, and outlives a release", () => {
    const taken = takenLease(lease("other", 15, { other: "kept" }), NAME, 8, Date.UTC(2026, 0, 1), RULES);
    expect(taken.metadata).toMatchObject({
      resourceVersion: "7",
      annotations: { [EPOCH_ANNOTATION]: "8", other: "kept" },
    });
    expect(taken.spec).toMatchObject({ holderIdentity: "me", acquireTime: "2026-01-01T00:00:00.000000Z" });
    expect(epochOf(releasedLease(taken, 0))).toBe(8);
    expect(releasedLease(taken, 0).spec?.holderIdentity).toBe("");
  });
});
