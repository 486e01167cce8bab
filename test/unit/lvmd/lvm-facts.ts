// Groups and classes for tests of what lvmd reckons.
import type { ReportedDevice, ReportedGroup, ReportedVolume } from "../../../src/lvmd/lvm/report.ts";
import type { DeviceClass } from "../../../src/lvmd/settings/settings.ts";

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;
export const EXTENT = 4 * MIB;

export function deviceClass(fields: Partial<DeviceClass> = {}): DeviceClass {
  return {
    name: "class",
    volumeGroup: "g",
    isDefault: false,
    spareBytes: 0,
    stripe: undefined,
    stripeSize: undefined,
    lvcreateOptions: [],
    thinPool: undefined,
    ...fields,
  };
}

/** With as many devices as there are numbers, of so many free bytes. */
export function groupOf(freeBytes: readonly number[], volumes: readonly ReportedVolume[] = []): ReportedGroup {
  const devices: ReportedDevice[] = freeBytes.map((bytes, index) => ({ path: `/dev/d${index}`, freeBytes: bytes }));
  const total = freeBytes.reduce((sum, bytes) => sum + bytes, 0);
  return {
    name: "g",
    sizeBytes: total,
    freeBytes: total,
    extentBytes: EXTENT,
    attr: "wz--n-",
    missingDevices: 0,
    devices,
    volumes: new Map(volumes.map((volume) => [volume.name, volume])),
  };
}

export function volume(fields: Partial<ReportedVolume> & { readonly name: string }): ReportedVolume {
  return {
    uuid: `uuid-${fields.name}`,
    sizeBytes: GIB,
    path: `/dev/g/${fields.name}`,
    device: { major: 254, minor: 1 },
    tags: [],
    attr: "-wi-a-----",
    pool: "",
    origin: "",
    dataPercent: 0,
    metadataPercent: 0,
    metadataSizeBytes: 0,
    dataColumns: 1,
    chunkBytes: 0,
    ...fields,
  };
}
