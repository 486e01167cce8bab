import { describe, expect, it } from "@jest/globals";
import type { CsiVolumeSource, PersistentVolume } from "../../../../src/contracts/kubernetes/resources.ts";
import { boundSource } from "../../../../src/operator/decide/decide-member.ts";
import { buildClaim } from "../../../builders/claim.ts";

const claim = buildClaim({ namespace: "tidemark-members", name: "m0" });

function volumeWith(nodeStageSecretRef: CsiVolumeSource["nodeStageSecretRef"]): PersistentVolume {
  const csi = { driver: "members.example.com", volumeHandle: "volume-m0", nodeStageSecretRef };
  return { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "pv-m0" }, spec: { csi } };
}

describe("what a layout says of a member's claim", () => {
  it("names a Secret by its namespace and its name", () => {
    const reference = { namespace: "storage", name: "array" };
    expect(boundSource(claim, volumeWith(reference))).toEqual({
      name: "m0",
      volumeName: "pv-m0",
      driver: "members.example.com",
      volumeHandle: "volume-m0",
      nodeStageSecretRef: reference,
    });
  });

  it.each<[string, CsiVolumeSource["nodeStageSecretRef"]]>([
    ["no namespace", { name: "array" }],
    ["no name", { namespace: "storage" }],
    ["nothing", undefined],
  ])("names no Secret of which the volume says %s", (_what, reference) => {
    expect(boundSource(claim, volumeWith(reference))).not.toHaveProperty("nodeStageSecretRef");
  });
});
