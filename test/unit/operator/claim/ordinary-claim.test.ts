import { describe, expect, it } from "@jest/globals";
import type { ScalingStatus } from "../../../../src/contracts/kinds/filesystem.ts";
import type { PersistentVolumeClaim, VolumeAttachment } from "../../../../src/contracts/kubernetes/resources.ts";
import { RECORDS, SPAN_DRIVER } from "../../../../src/contracts/names.ts";
import { nodeOfVolume } from "../../../../src/operator/claim/claim-facts.ts";
import { claimLayout, claimStatus, decideRequest, isAdopted } from "../../../../src/operator/claim/decide-claim.ts";
import { anOrdinaryClaim, aTarget, FOREIGN_DRIVER, type OrdinaryShape } from "../../../builders/ordinary-claim.ts";

describe("an ordinary claim is adopted", () => {
  const isNew = (shape: OrdinaryShape = {}): boolean => isAdopted({ ...anOrdinaryClaim(shape), layout: undefined });

  it("when a policy opts it in and its class can be expanded", () => expect(isNew()).toBe(true));

  it.each<[string, OrdinaryShape]>([
    ["nobody opts it in", { facts: { optedInBy: undefined } }],
    ["its class does not allow expansion", { storageClass: { allowVolumeExpansion: false } }],
    ["our own driver provides it", { volume: { csi: { driver: SPAN_DRIVER, volumeHandle: "fs-1" } } }],
    ["no CSI driver provides it, as with NFS", { volume: { csi: undefined } }],
    ["it asks for more than can be handled", { request: "9Ei" }],
    ["it is a raw block device", { claimSpec: { volumeMode: "Block" } }],
  ])("not when %s", (_when, shape) => expect(isNew(shape)).toBe(false));

  it("not before its volume is bound to it", () =>
    expect(isAdopted({ ...anOrdinaryClaim(), layout: undefined, volume: undefined })).toBe(false));

  it("for as long as it lives: a policy that comes back finds what it knew", () =>
    expect(isAdopted(anOrdinaryClaim({ facts: { optedInBy: undefined } }))).toBe(true));
});

describe("the layout of an ordinary claim", () => {
  const nominal = (shape: OrdinaryShape, recorded: string): string | undefined => {
    const facts = anOrdinaryClaim(shape);
    const { metadata } = facts.layout;
    const layout = { ...facts.layout, metadata: { ...metadata, annotations: { [RECORDS.requestedSize]: recorded } } };
    return claimLayout({ ...facts, layout }, facts.volume, undefined).metadata.annotations?.[RECORDS.requestedSize];
  };

  it("says of which volume of which driver it is, and where", () =>
    expect(anOrdinaryClaim().layout.spec).toEqual({
      claimRef: { namespace: "shop", name: "data", uid: expect.any(String) },
      volumeUID: expect.any(String),
      backend: "claim",
      fsType: "ext4",
      nodeName: "node-a",
      members: [
        {
          name: "claim",
          source: {
            claim: {
              ...{ name: "data", uid: expect.any(String), volumeName: "pv-data" },
              ...{ driver: FOREIGN_DRIVER, volumeHandle: "vol-1", capacity: "10Gi" },
            },
          },
        },
      ],
    }));

  it("keeps the nominal size while we raise the request", () =>
    expect(nominal({ request: "20Gi", carried: aTarget("20Gi") }, "10Gi")).toBe("10Gi"));

  it("keeps it, too, when the raised claim is heard of before the layout that says so", () =>
    expect(nominal({ request: "20Gi", target: aTarget("20Gi") }, "10Gi")).toBe("10Gi"));

  it("takes over a request that its user has raised beyond ours", () =>
    expect(nominal({ request: "50Gi", carried: aTarget("20Gi") }, "10Gi")).toBe("50Gi"));

  it("follows a user who lowers what his driver could not carry out", () =>
    expect(nominal({ request: "20Gi", carried: aTarget("15Gi") }, "50Gi")).toBe("20Gi"));

  it("takes the request where somebody has written over what was recorded", () =>
    expect(nominal({ request: "20Gi" }, "plenty")).toBe("20Gi"));

  it("keeps it when the request can no longer be read", () => expect(nominal({ request: "9Ei" }, "10Gi")).toBe("10Gi"));

  it("keeps it when he lowers what we asked for", () =>
    expect(nominal({ request: "15Gi", carried: aTarget("20Gi") }, "10Gi")).toBe("10Gi"));
});

describe("a claim's request", () => {
  const plan = (shape: OrdinaryShape) => {
    const facts = anOrdinaryClaim(shape);
    return decideRequest(facts, facts.layout, facts.filesystem);
  };
  const infeasible: PersistentVolumeClaim["status"] = {
    allocatedResourceStatuses: { storage: "ControllerResizeInfeasible" },
  };

  it("is raised to the target", () =>
    expect(plan({ target: aTarget("15Gi") })).toEqual({ do: "raise", target: aTarget("15Gi") }));

  it("is raised once for each target: lowered by hand afterwards, it stays", () =>
    expect(plan({ target: aTarget("15Gi"), carried: aTarget("15Gi") })).toEqual({ do: "keep" }));

  it("is not raised by a deposed leader", () =>
    expect(
      plan({
        target: { ...aTarget("15Gi", "10Gi", "2026-11-20T12:00:01.000Z"), epoch: 2 },
        carried: aTarget("10Gi"),
      }),
    ).toEqual({ do: "keep" }));

  it("that is raised as far already is left alone, and the target is done with", () =>
    expect(plan({ request: "15Gi", target: aTarget("15Gi") })).toMatchObject({
      do: "set aside",
      refusal: undefined,
    }));

  it.each<[string, OrdinaryShape, string]>([
    ["is never lowered", { target: aTarget("5Gi") }, "ShrinkUnsupported"],
    [
      "is nobody's but its user's without a policy that opts in",
      { facts: { optedInBy: undefined } },
      "ClaimBackendDisabled",
    ],
    ["is left to another autoscaler", { annotations: { "resize.topolvm.io/storage_limit": "1Ti" } }, "OtherAutoscaler"],
    [
      "is left to another autoscaler of the whole class",
      { storageClass: { metadata: { name: "fast", annotations: { "trident.netapp.io/autogrowPolicy": "fast" } } } },
      "OtherAutoscaler",
    ],
    ["is not raised again while the driver lags", { request: "12Gi" }, "OperationRunning"],
    [
      "is not raised again while kubelet lags",
      { claimStatus: { allocatedResourceStatuses: { storage: "NodeResizePending" } } },
      "OperationRunning",
    ],
    [
      "is not raised in a class that no longer allows expansion",
      { storageClass: { allowVolumeExpansion: false } },
      "ResizeFailed",
    ],
    ["is not raised further than the driver can", { request: "12Gi", claimStatus: infeasible }, "ResizeInfeasible"],
  ])("%s: the target is set aside, and never taken up later", (_what, shape, reason) =>
    expect(plan({ target: aTarget("15Gi"), ...shape })).toMatchObject({ do: "set aside", refusal: { reason } }),
  );
});

describe("the status of an ordinary claim", () => {
  const conditions = (shape: OrdinaryShape, scaling?: ScalingStatus) => {
    const facts = anOrdinaryClaim(shape);
    const filesystem = { ...facts.filesystem, ...(scaling && { status: { scaling } }) };
    const { status } = claimStatus(facts, filesystem, 0) as { status?: { conditions: unknown[] } };
    return status?.conditions;
  };
  const condition = (type: string, message: string) => [{ type, status: "True" as const, message }];

  it("is Ready with its size, driver and node", () =>
    expect(conditions({})).toEqual([
      expect.objectContaining({ type: "Stalled", status: "False" }),
      expect.objectContaining({ type: "Reconciling", status: "False" }),
      expect.objectContaining({
        type: "Ready",
        status: "True",
        message: "10Gi of driver block.example.com, on node node-a",
      }),
    ]));

  it.each<[string, PersistentVolumeClaim["status"], object]>([
    [
      "Resizing",
      { conditions: condition("Resizing", "") },
      { type: "Reconciling", status: "True", reason: "OperationRunning" },
    ],
    [
      "FileSystemResizePending",
      { conditions: condition("FileSystemResizePending", "waiting for a pod") },
      {
        type: "Reconciling",
        status: "True",
        reason: "NodeResizePending",
        message: expect.stringContaining("node-a grows its filesystem soon, from 10Gi to 12Gi: waiting for a pod"),
      },
    ],
    [
      "ControllerResizeInfeasible",
      {
        allocatedResourceStatuses: { storage: "ControllerResizeInfeasible" },
        conditions: condition("ControllerResizeError", "the pool is full"),
      },
      {
        type: "Stalled",
        status: "True",
        reason: "ResizeInfeasible",
        message: "driver block.example.com cannot expand the volume from 10Gi to 12Gi: the pool is full",
      },
    ],
    [
      "NodeResizeInfeasible",
      { allocatedResourceStatuses: { storage: "NodeResizeInfeasible" } },
      { type: "Stalled", status: "True", reason: "ResizeInfeasible" },
    ],
  ])("shows %s of its claim", (_what, claimStatusFields, expected) =>
    expect(conditions({ request: "12Gi", claimStatus: claimStatusFields })).toContainEqual(
      expect.objectContaining(expected),
    ),
  );

  describe("whose request the API server refused", () => {
    const refused: OrdinaryShape = { carried: aTarget("15Gi"), target: aTarget("15Gi"), refusal: "exceeded quota" };
    const stalled = (status: "True" | "False") => expect.objectContaining({ type: "Stalled", status });
    const hold = (reason: ScalingStatus["reason"]): ScalingStatus => ({ plan: "hold", reason, message: "" });

    it("says so", () =>
      expect(conditions(refused)).toContainEqual(
        expect.objectContaining({ type: "Stalled", reason: "ResizeFailed", message: "exceeded quota" }),
      ));
    it("says so until it is tried again", () =>
      expect(conditions(refused, hold("CoolingDown"))).toContainEqual(stalled("True")));
    it("says so no longer when its user has raised it himself", () =>
      expect(conditions({ ...refused, request: "20Gi" })).toContainEqual(stalled("False")));
    it("says so no longer when no more is wanted", () =>
      expect(conditions(refused, hold("WithinBounds"))).toContainEqual(stalled("False")));
  });
});

describe("the node that may speak for an ordinary claim", () => {
  const attachment = (nodeName: string, attached = true): VolumeAttachment => ({
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: { name: `to-${nodeName}` },
    spec: { attacher: FOREIGN_DRIVER, nodeName, source: { persistentVolumeName: "pv-data" } },
    status: { attached },
  });
  const withAffinity = (...expressions: { key: string; operator: string; values: string[] }[]) =>
    anOrdinaryClaim({
      volume: { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: expressions }] } } },
    }).volume;
  const onNode = { key: "topology.example.com/node", operator: "In", values: ["node-b"] };

  it("is the one that it is attached to", () =>
    expect(nodeOfVolume(withAffinity(), [attachment("node-a")])).toBe("node-a"));
  it("is always the same one of several", () =>
    expect(nodeOfVolume(withAffinity(), [attachment("node-c"), attachment("node-b")])).toBe("node-b"));
  it("is not one that it is still being attached to", () =>
    expect(nodeOfVolume(withAffinity(), [attachment("node-a", false)])).toBeUndefined());
  it("is the only one that a local volume's topology allows", () =>
    expect(nodeOfVolume(withAffinity(onNode), [])).toBe("node-b"));
  it("is not guessed from a zone", () =>
    expect(nodeOfVolume(withAffinity({ ...onNode, key: "topology.kubernetes.io/zone" }), [])).toBeUndefined());
  it("is not guessed from several", () =>
    expect(nodeOfVolume(withAffinity({ ...onNode, values: ["node-a", "node-b"] }), [])).toBeUndefined());
});
