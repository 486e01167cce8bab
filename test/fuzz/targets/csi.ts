// What sidecars and kubelets ask by CSI.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { kubeletPath } from "../../../src/agent/csi/mount-volume.ts";
import { accessOf } from "../../../src/contracts/csi/access.ts";
import { LOCAL, SPAN } from "../../../src/contracts/csi/driver.ts";
import {
  CreateSnapshotRequest,
  CreateVolumeRequest,
  GetCapacityRequest,
  NodePublishVolumeRequest,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { handleOf, isUUID, snapshotUIDOf, volumeUIDOf } from "../../../src/contracts/identity.ts";
import { capacityQuestion } from "../../../src/operator/csi/read-calls.ts";
import { orderOf } from "../../../src/operator/csi/requests/volume-order.ts";
import { snapshotOrderOf } from "../../../src/operator/csi/snapshots.ts";
import {
  blockCapability,
  buildCreateVolumeRequest,
  mountCapability,
  PARAMETERS,
} from "../../builders/create-volume-request.ts";
import { NODE, VOLUME_UID } from "../../builders/volume.ts";
import { messageMutator } from "../messages.ts";
import { decoded, type FuzzTarget, pure } from "../target.ts";

const HANDLE = `fs-${VOLUME_UID}`;

const WORDS = [
  ...[
    "loop",
    "lvm",
    "span",
    "btrfs",
    "ext4",
    "xfs",
    "backend",
    "initialSize",
    "maxSize",
    "deviceClass",
    "10Gi",
    "0",
    "1Mi",
    "-1",
  ],
  ...[
    "memberStorageClassName",
    "maxMembers",
    "spareMembers",
    "strategy",
    "memberLabels",
    "../..",
    HANDLE,
    `snap-${VOLUME_UID}`,
    "\u0007",
  ],
];
const lvm = { ...PARAMETERS, backend: "lvm", deviceClass: "ssd", maxSize: "1Ti" };
const span = { ...PARAMETERS, backend: "span", memberStorageClassName: "fast", maxMembers: "4", initialSize: "1Gi" };

const createVolume: FuzzTarget = {
  name: "CSI CreateVolume",
  parsers: [
    "src/operator/csi/requests/volume-order.ts",
    "src/operator/csi/requests/volume-parameters.ts",
    "src/operator/csi/requests/volume-parameters.ts",
  ],
  seeds: () =>
    [
      buildCreateVolumeRequest(),
      buildCreateVolumeRequest({ parameters: lvm, volumeCapabilities: [blockCapability()] }),
      buildCreateVolumeRequest({ parameters: span, capacityRange: { requiredBytes: 2 ** 31, limitBytes: 2 ** 33 } }),
      buildCreateVolumeRequest({
        parameters: { ...lvm, initialSize: "1Gi" },
        volumeCapabilities: [mountCapability("ext4")],
      }),
    ].map((request) => Buffer.from(CreateVolumeRequest.encode(request).finish())),
  mutate: messageMutator(CreateVolumeRequest, WORDS),
  refusals: ["Refused", "Refusal"],
  start: pure((input) => {
    const request = decoded(CreateVolumeRequest.decode, input);
    const isSpan = request.parameters["backend"] === "span";
    const order = orderOf(request, isSpan ? SPAN : LOCAL);
    const { requiredBytes = 0, limitBytes = 0 } = request.capacityRange ?? {};
    assert.ok(requiredBytes >= 0 && limitBytes >= 0, "CSI: sizes are not negative");
    assert.ok(Number.isSafeInteger(order.requestedBytes) && order.requestedBytes > 0, `${order.requestedBytes} bytes`);
    assert.ok(order.requestedBytes >= requiredBytes && (limitBytes === 0 || order.requestedBytes <= limitBytes));
    assert.ok(
      Number.isSafeInteger(order.memberBytes) && order.memberBytes > 0,
      `a member of ${order.memberBytes} bytes`,
    );
    assert.ok(order.maxBytes === undefined || order.requestedBytes <= order.maxBytes);
    assert.ok(Buffer.byteLength(request.name) <= 128, "CSI: a name has 128 bytes");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these
    assert.doesNotMatch(
      request.name,
      /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/,
      "CSI: control characters",
    );
    assert.ok(isUUID(order.volumeUID) && isUUID(order.fsid) && volumeUIDOf(order.handle) === order.volumeUID);
    assert.match(`${order.claim.namespace}${order.claim.name}`, /^[a-z0-9.-]+$/);
    assert.equal(order.fsType === undefined, order.volumeMode === "Block");
    assert.ok(order.source === undefined || (volumeUIDOf(order.source) ?? snapshotUIDOf(order.source)) !== undefined);
  }),
  cost: 3,
};

const createSnapshot: FuzzTarget = {
  name: "CSI CreateSnapshot",
  parsers: ["src/operator/csi/snapshots.ts", "src/contracts/identity.ts", "src/operator/csi/requests/volume-order.ts"],
  seeds: () =>
    [
      { name: `snapshot-${VOLUME_UID}`, sourceVolumeId: HANDLE, secrets: {}, parameters: {} },
      {
        name: "mine",
        sourceVolumeId: HANDLE,
        secrets: {},
        parameters: { "csi.storage.k8s.io/volumesnapshot/name": "x" },
      },
    ].map((request) => Buffer.from(CreateSnapshotRequest.encode(CreateSnapshotRequest.fromPartial(request)).finish())),
  mutate: messageMutator(CreateSnapshotRequest, WORDS),
  refusals: ["Refused", "Refusal"],
  start: pure((input) => {
    const { snapshotId, source } = snapshotOrderOf(decoded(CreateSnapshotRequest.decode, input));
    assert.match(`${snapshotId} ${source}`, /^snap-[0-9a-f-]{36} fs-[0-9a-f-]{36}$/);
  }),
};

const getCapacity: FuzzTarget = {
  name: "CSI GetCapacity",
  parsers: ["src/operator/csi/read-calls.ts"],
  seeds: () => {
    const topology = { segments: { "topology.tidemark.dev/node": NODE } };
    const parameters = { backend: "lvm", deviceClass: "ssd", initialSize: "1Gi" };
    const one = { volumeCapabilities: [mountCapability("btrfs")], parameters, accessibleTopology: topology };
    return [one, { ...one, volumeCapabilities: [], parameters: { backend: "loop" } }].map((request) =>
      Buffer.from(GetCapacityRequest.encode(request).finish()),
    );
  },
  mutate: messageMutator(GetCapacityRequest, WORDS),
  refusals: ["Refused", "Refusal"],
  start: pure((input) => {
    const { ofClass, fsTypes } = capacityQuestion(decoded(GetCapacityRequest.decode, input), LOCAL);
    for (const bytes of [ofClass.initialBytes, ofClass.maxBytes])
      assert.ok(bytes === undefined || (Number.isSafeInteger(bytes) && bytes >= 0));
    assert.match(ofClass.deviceClass ?? "x", /^[\w.-]+$/);
    for (const fsType of fsTypes) assert.match(fsType, /^(btrfs|ext4|xfs)$/);
  }),
  cost: 2,
};

const publish: FuzzTarget = {
  name: "CSI NodePublishVolume",
  parsers: ["src/agent/csi/mount-volume.ts", "src/contracts/csi/access.ts"],
  seeds: () =>
    ["/pods/a/volumes/mount", "/plugins/x/../y", "//pods", ""].map((path) => {
      const fields = { volumeId: HANDLE, targetPath: `KUBELET${path}`, volumeCapability: mountCapability("btrfs") };
      return Buffer.from(NodePublishVolumeRequest.encode(NodePublishVolumeRequest.fromPartial(fields)).finish());
    }),
  mutate: messageMutator(NodePublishVolumeRequest, [
    ...WORDS,
    "KUBELET/pods/x",
    "KUBELET/",
    "/etc",
    "KUBELET/../etc",
    "\0",
  ]),
  refusals: ["Refused", "Refusal"],
  start: (directory) => {
    const kubelet = join(directory, "kubelet");
    mkdirSync(join(kubelet, "pods/a/volumes"), { recursive: true });
    return {
      take: (input) => {
        const { volumeId, targetPath, volumeCapability } = decoded(NodePublishVolumeRequest.decode, input);
        const handle = handleOf(volumeId);
        const path = kubeletPath(kubelet, targetPath.replace("KUBELET", kubelet));
        accessOf(volumeCapability);
        assert.match(handle, /^fs-[0-9a-f-]{36}$/);
        assert.ok(path.startsWith(`${kubelet}/`) && !path.includes("/../") && !path.endsWith("/.."), path);
      },
    };
  },
  cost: 2,
};

export const CSI_TARGETS: readonly FuzzTarget[] = [createVolume, createSnapshot, getCapacity, publish];
