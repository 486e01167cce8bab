import { describe, expect, it } from "@jest/globals";
import { filesystemSizeBytes } from "../../../src/contracts/formulas/filesystem-size.ts";
import type { PersistentVolumeClaim } from "../../../src/contracts/kubernetes/resources.ts";
import { claimResizeOf, otherAutoscalerOf } from "../../../src/contracts/ordinary-claim.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { anOrdinaryClaim, type OrdinaryShape } from "../../builders/ordinary-claim.ts";

describe("the resize of an ordinary claim", () => {
  it.each<[string, OrdinaryShape, string]>([
    ["that is as large as it asks to be", {}, "None"],
    ["that its driver has rounded up", { request: "9500Mi" }, "None"],
    ["that asks for more", { request: "12Gi" }, "OnController"],
    [
      "that kubelet is to end",
      { request: "12Gi", claimStatus: { allocatedResourceStatuses: { storage: "NodeResizePending" } } },
      "OnNode",
    ],
    [
      "that its driver cannot carry out",
      { request: "12Gi", claimStatus: { allocatedResourceStatuses: { storage: "ControllerResizeInfeasible" } } },
      "Infeasible",
    ],
  ])("%s is %s", (_which, shape, stage) => expect(claimResizeOf(anOrdinaryClaim(shape).claim)?.stage).toBe(stage));

  it.each<[string, PersistentVolumeClaim["status"]]>([
    ["says nothing of its capacity", { phase: "Bound" }],
    ["has a capacity that cannot be read", { capacity: { storage: "much" } }],
    ["has a capacity of 0", { capacity: { storage: "0" } }],
  ])("is not known of one that %s", (_which, status) =>
    expect(claimResizeOf({ ...anOrdinaryClaim().claim, ...(status === undefined ? {} : { status }) })).toBeUndefined(),
  );
});

describe("the size of an ordinary claim's filesystem", () => {
  it("is what its driver has provided", () => expect(filesystemSizeBytes(anOrdinaryClaim().layout)).toBe(10 * GIB));
  it("is not known while nobody says it", () => {
    const { layout } = anOrdinaryClaim();
    expect(filesystemSizeBytes({ ...layout, spec: { ...layout.spec, members: [] } })).toBeUndefined();
  });
});

describe("another autoscaler", () => {
  const IGNORED = { "volume.autoscaler.kubernetes.io/ignore": "true" };
  const TRIDENT = "trident.netapp.io/autogrowPolicy";
  const of = (annotations: Record<string, string>, ofClass: Record<string, string> = {}) =>
    otherAutoscalerOf({ metadata: { annotations } }, { metadata: { annotations: ofClass } });

  it.each([
    ["resize.topolvm.io/storage_limit", "1Ti"],
    ["volume.autoscaler.kubernetes.io/scale-above-percent", "80"],
    ["pvc.autoscaling.gardener.cloud/is-enabled", "true"],
    [TRIDENT, "fast"],
  ])("is known by %s", (key, value) => expect(of({ team: "shop", [key]: value })).toBe(key));
  it("is not seen in annotations of others", () =>
    expect(of({ "volume.kubernetes.io/selected-node": "node-a" })).toBeUndefined());
  it("that is told to leave the claim alone does not count", () => expect(of(IGNORED)).toBeUndefined());
  it("is not hidden by another one that is told to", () =>
    expect(of({ ...IGNORED, "resize.topolvm.io/storage_limit": "1Ti" })).toBe("resize.topolvm.io/storage_limit"));
  it("is known by its annotation on the class", () =>
    expect(of(IGNORED, { [TRIDENT]: "fast" })).toBe(`${TRIDENT} on its class`));
  it("leaves alone a claim that says otherwise than its class", () =>
    expect(of({ [TRIDENT]: "none" }, { [TRIDENT]: "fast" })).toBeUndefined());
  it("that a class merely allows does not count", () =>
    expect(of({}, { "resize.topolvm.io/enabled": "true" })).toBeUndefined());
  it("is none where claim and class have no annotations", () =>
    expect(otherAutoscalerOf({ metadata: {} }, undefined)).toBeUndefined());
});
