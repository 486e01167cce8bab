import { describe, expect, it } from "@jest/globals";
import { LOCAL } from "../../../../../src/contracts/csi/driver.ts";
import { Refusal, type RefusalCode } from "../../../../../src/contracts/csi/refusal.ts";
import {
  type CreateVolumeRequest,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../../../../src/contracts/gen/csi/v1/csi.ts";
import { fsidOf, isUUID, snapshotIdOf } from "../../../../../src/contracts/identity.ts";
import { GIB, MIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { orderOf, type VolumeOrder } from "../../../../../src/operator/csi/requests/volume-order.ts";
import {
  blockCapability,
  buildCreateVolumeRequest,
  mountCapability,
  PARAMETERS,
} from "../../../../builders/create-volume-request.ts";
import { HANDLE, VOLUME_UID } from "../../../../builders/volume.ts";

function accepted(fields: Partial<CreateVolumeRequest> = {}): VolumeOrder {
  return orderOf(buildCreateVolumeRequest(fields), LOCAL);
}

const range = (requiredBytes: number, limitBytes = 0) => ({ capacityRange: { requiredBytes, limitBytes } });

describe("the order of a volume", () => {
  it("takes the claim's UID from the provisioner's name, and all names of the volume from it", () => {
    expect(accepted()).toMatchObject({
      handle: HANDLE,
      volumeUID: VOLUME_UID,
      fsid: fsidOf(VOLUME_UID),
      claimUID: VOLUME_UID,
      claim: { namespace: "shop", name: "data" },
    });
  });

  it("derives one and the same UUID from any other name", () => {
    const [one, again, other] = ["a volume", "a volume", "another"].map((name) => accepted({ name }));
    expect(isUUID(one?.volumeUID ?? "")).toBe(true);
    expect(again).toEqual(one);
    expect(other?.volumeUID).not.toBe(one?.volumeUID);
    expect(one?.claimUID).toBeUndefined();
  });

  it("is btrfs of the whole request unless the class says otherwise", () => {
    expect(accepted()).toMatchObject({ fsType: "btrfs", requestedBytes: 10 * GIB, memberBytes: 10 * GIB });
  });

  it("begins with initialSize, and still answers with the request", () => {
    const order = accepted({ parameters: { ...PARAMETERS, initialSize: "1Gi", maxSize: "20Gi" } });
    expect(order).toMatchObject({ requestedBytes: 10 * GIB, memberBytes: GIB, initialBytes: GIB, maxBytes: 20 * GIB });
  });

  it("takes the filesystem type from the capability, where csi-provisioner puts it", () => {
    expect(accepted({ volumeCapabilities: [mountCapability("xfs")] }).fsType).toBe("xfs");
  });

  it("is a raw block volume of the backend lvm, without the filesystem type that its class names for others", () => {
    const parameters = { ...PARAMETERS, backend: "lvm", "csi.storage.k8s.io/fstype": "ext4" };
    const order = accepted({ parameters, volumeCapabilities: [blockCapability()], ...range(4096) });
    expect(order).toMatchObject({ volumeMode: "Block", fsType: undefined, memberBytes: 4096 });
  });

  it("rounds the device up to whole blocks, never down", () => {
    const order = accepted({ capacityRange: { requiredBytes: GIB + 1, limitBytes: 0 } });
    expect(order).toMatchObject({ requestedBytes: GIB + 1, memberBytes: GIB + 4096 });
  });

  it("is of 1 GiB when no size is asked for", () => {
    expect(accepted({ capacityRange: undefined }).requestedBytes).toBe(GIB);
    expect(accepted({ capacityRange: { requiredBytes: 0, limitBytes: 512 * MIB } }).requestedBytes).toBe(512 * MIB);
  });

  const parameters = (more: Record<string, string>) => ({ parameters: { ...PARAMETERS, ...more } });
  const cases: [string, Partial<CreateVolumeRequest>, RefusalCode, string][] = [
    ["no name", { name: "" }, "INVALID_ARGUMENT", "no name"],
    ["a name of 129 characters", { name: "x".repeat(129) }, "INVALID_ARGUMENT", "129 bytes"],
    ["no capability", { volumeCapabilities: [] }, "INVALID_ARGUMENT", "no volume capability"],
    ["a raw block device", { volumeCapabilities: [blockCapability()] }, "INVALID_ARGUMENT", "of the backend lvm alone"],
    [
      "a filesystem and a raw block device",
      { volumeCapabilities: [blockCapability(), mountCapability()] },
      "INVALID_ARGUMENT",
      "the one or the other",
    ],
    [
      "several writers",
      { volumeCapabilities: [mountCapability("", Mode.MULTI_NODE_MULTI_WRITER)] },
      "INVALID_ARGUMENT",
      "MULTI_NODE_MULTI_WRITER",
    ],
    [
      "an unknown filesystem",
      { volumeCapabilities: [mountCapability("zfs")] },
      "INVALID_ARGUMENT",
      '"zfs"; there are: btrfs, ext4, xfs',
    ],
    [
      "two filesystems",
      { volumeCapabilities: [mountCapability("xfs"), mountCapability("ext4")] },
      "INVALID_ARGUMENT",
      "xfs, ext4",
    ],
    [
      "a snapshot as source, of a backend that has none",
      { volumeContentSource: { type: { $case: "snapshot", value: { snapshotId: snapshotIdOf(VOLUME_UID) } } } },
      "INVALID_ARGUMENT",
      "need the backend lvm; asked for is loop",
    ],
    [
      "mount options",
      {
        volumeCapabilities: [
          {
            accessType: { $case: "mount", value: { fsType: "", mountFlags: ["noatime"], volumeMountGroup: "" } },
            accessMode: { mode: Mode.SINGLE_NODE_WRITER },
          },
        ],
      },
      "INVALID_ARGUMENT",
      "noatime",
    ],
    ["mutable parameters", { mutableParameters: { iops: "5" } }, "INVALID_ARGUMENT", "not supported: iops"],
    [
      "unknown parameters",
      parameters({ foo: "1", bar: "2" }),
      "INVALID_ARGUMENT",
      "unknown StorageClass parameters bar, foo",
    ],
    [
      "an unknown backend",
      parameters({ backend: "span" }),
      "INVALID_ARGUMENT",
      'backend is "span"; this version has: loop',
    ],
    ["a size that is none", parameters({ maxSize: "lots" }), "INVALID_ARGUMENT", 'maxSize: "lots" is not a quantity'],
    ["no claim", parameters({ "csi.storage.k8s.io/pvc/name": "" }), "INVALID_ARGUMENT", "--extra-create-metadata"],
    [
      "a claim whose name climbs out of its namespace",
      parameters({ "csi.storage.k8s.io/pvc/name": "../../secrets/x" }),
      "INVALID_ARGUMENT",
      "not names of Kubernetes objects",
    ],
    ["less than btrfs needs", range(100 * MIB), "OUT_OF_RANGE", "at least 256Mi"],
    [
      "less than xfs needs",
      { ...range(299 * MIB), volumeCapabilities: [mountCapability("xfs")] },
      "OUT_OF_RANGE",
      "at least 300Mi",
    ],
    ["more than its own limit", range(2 * GIB, GIB), "OUT_OF_RANGE", "over the limit of 1Gi"],
    ["more than maxSize", parameters({ maxSize: "5Gi" }), "OUT_OF_RANGE", "maxSize of 5Gi"],
    [
      "less than initialSize",
      parameters({ initialSize: "11Gi" }),
      "OUT_OF_RANGE",
      "initialSize of 11Gi is over the request",
    ],
  ];
  it.each(cases)("is refused with %s", (_name, fields, code, text) => {
    expect(() => accepted(fields)).toThrow(Refusal);
    expect(() => accepted(fields)).toThrow(expect.objectContaining({ code, message: expect.stringContaining(text) }));
  });
});
