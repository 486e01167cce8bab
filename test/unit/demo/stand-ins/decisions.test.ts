import { describe, expect, it } from "@jest/globals";
import { decideMount } from "../../../../demo/stand-ins/kubelet.ts";
import { decideResize } from "../../../../demo/stand-ins/resizer.ts";
import type { PersistentVolumeClaim, StorageClass } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildBoundClaim, buildPersistentVolume } from "../../../builders/volume.ts";

const volume = buildPersistentVolume();
const claim = buildBoundClaim();
const withMetadata = (more: Partial<PersistentVolumeClaim["metadata"]>): PersistentVolumeClaim => ({
  ...claim,
  metadata: { ...claim.metadata, ...more },
});
const finalizers = ["kubernetes.io/pvc-protection"];
const unwanted = { annotations: { "standalone.tidemark.dev/mount": "false" } };

describe("a claim's mount", () => {
  it("is made once its volume is bound, and once only", () => {
    expect(decideMount(claim, undefined, false)).toBe("nothing");
    expect(decideMount(claim, volume, false)).toBe("publish");
    expect(decideMount(claim, volume, true)).toBe("nothing");
  });

  it("is let go when the claim is being deleted or no pod uses it, also after a restart forgot it", () => {
    expect(decideMount(withMetadata({ deletionTimestamp: "x", finalizers }), volume, true)).toBe("release");
    expect(decideMount(withMetadata({ deletionTimestamp: "x", finalizers }), volume, false)).toBe("release");
    expect(decideMount(withMetadata({ ...unwanted, finalizers }), volume, true)).toBe("release");
  });

  it("is left alone when the claim was never in use", () => {
    expect(decideMount(withMetadata(unwanted), volume, false)).toBe("nothing");
    expect(decideMount(withMetadata({ deletionTimestamp: "x" }), volume, false)).toBe("nothing");
  });
});

describe("a claim's request", () => {
  const expandable: StorageClass = {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "tidemark-loop" },
    provisioner: "local.tidemark.dev",
    allowVolumeExpansion: true,
  };
  const requesting = (storage: string): PersistentVolumeClaim => ({
    ...claim,
    spec: { ...claim.spec, resources: { requests: { storage } } },
  });

  it("over its capacity is an expansion to it", () => {
    expect(decideResize(requesting("12Gi"), expandable)).toEqual({ do: "expand", requestBytes: 12 * GIB });
  });

  it("equal to its capacity, in whatever unit, is nothing", () => {
    expect(decideResize(requesting("10Gi"), expandable)).toEqual({ do: "nothing" });
    expect(decideResize(requesting("10240Mi"), expandable)).toEqual({ do: "nothing" });
  });

  it("under its capacity is refused, and the user is told how shrinking is done", () => {
    const plan = decideResize(requesting("5Gi"), expandable);
    expect(plan).toMatchObject({ do: "refuse", message: expect.stringContaining("lowered to 5Gi") });
    expect(plan).toMatchObject({ message: expect.stringContaining("VolumePolicy") });
  });

  it("is refused where the class does not allow expansion, or is gone", () => {
    expect(decideResize(requesting("12Gi"), { ...expandable, allowVolumeExpansion: false }).do).toBe("refuse");
    expect(decideResize(requesting("12Gi"), undefined).do).toBe("refuse");
  });

  it("is not compared before the claim has a capacity", () => {
    const { status: _none, ...pending } = requesting("12Gi");
    expect(decideResize(pending, expandable)).toEqual({ do: "nothing" });
  });
});
