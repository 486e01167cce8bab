// A device class as lvmd tells it: thick, with 64 GiB that nobody uses.
import type { DeviceClass, ThinPool } from "../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";

const CLASS_BYTES = 64 * 2 ** 30;
export const GRAIN_BYTES = 4 * 2 ** 20;

export const THIN_POOL: ThinPool = {
  name: "pool",
  sizeBytes: CLASS_BYTES,
  dataPercent: 12.5,
  metadataPercent: 3.25,
  metadataSizeBytes: 128 * 2 ** 20,
  overprovisionRatio: 1,
  groupFreeBytes: 0,
};

export function makeDeviceClass(changes: Partial<DeviceClass> = {}): DeviceClass {
  return {
    name: "thick",
    isDefault: false,
    volumeGroup: "vg",
    sizeBytes: CLASS_BYTES,
    freeBytes: CLASS_BYTES,
    spareBytes: 0,
    sizeGrainBytes: GRAIN_BYTES,
    thinPool: undefined,
    problem: "",
    ...changes,
  };
}
